//! The event log as a stream, with replay.
//!
//! A stream that follows has a connection of its own: a slow reader holds up only itself, and
//! what the host had to drop, or what happened during a restart, is read again from the log.

use std::collections::VecDeque;

use greenroom_protocol::api::event::{Event, EventPush};
use greenroom_protocol::api::server::SubscribeParams;
use greenroom_protocol::events::Push as _;
use greenroom_protocol::methods::{Method as _, method};
use greenroom_protocol::rpc::{self, Incoming, Message};

use crate::client::Client;
use crate::connect::{self, Losses, Retry};
use crate::error::ClientError;
use crate::wire::{Wire, WireError};

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only about these sessions; empty = all.
    pub sessions: Vec<String>,
    /// Only these kinds, `session.*` for a group; empty = all.
    pub kinds: Vec<String>,
}

/// Events in order, none twice.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    filter: EventFilter,
    /// The last event told, or the point where the stream began; `None` before the first contact.
    seen: Option<u64>,
    source: Source,
    losses: Losses,
}

#[derive(Debug)]
enum Source {
    /// Reads pages until there is no more.
    Pages { page: VecDeque<Event>, has_more: bool },
    /// Listens; `None` until the (next) subscription.
    Live(Option<Wire>),
}

impl Client {
    /// Events after `since` (all that are kept: 0; only new ones: `None`). With `follow` the
    /// stream goes on as events happen and survives restarts of the daemon; else it ends.
    pub fn events(&self, since: Option<u64>, filter: EventFilter, follow: bool) -> EventStream {
        let source = if follow {
            Source::Live(None)
        } else {
            Source::Pages { page: VecDeque::new(), has_more: true }
        };
        let seen = if follow { since } else { Some(since.unwrap_or(0)) };
        EventStream { client: self.clone(), filter, seen, source, losses: Losses::default() }
    }
}

impl EventStream {
    /// The next event; `None` at the end of a stream that does not follow. Cancel-safe: an event
    /// is told or still to come.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        match self.source {
            Source::Pages { .. } => self.next_of_page().await,
            Source::Live(_) => self.next_live().await.map(Some),
        }
    }

    /// Subscribes now instead of with the first event, so that nothing after this call is missed.
    pub async fn start(&mut self) -> Result<(), ClientError> {
        while matches!(self.source, Source::Live(None)) {
            self.subscribe().await?;
        }
        Ok(())
    }

    /// The id to go on from: that of the last event told.
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }

    fn params(&self, follow: bool) -> SubscribeParams {
        let some = |list: &Vec<String>| (!list.is_empty()).then(|| list.clone());
        let (kinds, sessions) = (some(&self.filter.kinds), some(&self.filter.sessions));
        SubscribeParams { since: self.seen, kinds, sessions, follow, limit: None, wait_ms: None }
    }

    async fn next_of_page(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            let Source::Pages { page, has_more } = &mut self.source else { return Ok(None) };
            if let Some(event) = page.pop_front() {
                self.seen = Some(event.id);
                return Ok(Some(event));
            }
            if !*has_more {
                return Ok(None);
            }
            let answer = self.client.call::<method::ServerSubscribe>(&self.params(false)).await?;
            // A page that leads nowhere would be asked for again and again.
            let advances = !answer.events.is_empty() || Some(answer.next_since) > self.seen;
            self.seen = self.seen.max(Some(answer.next_since).filter(|_| answer.events.is_empty()));
            self.source =
                Source::Pages { page: answer.events.into(), has_more: answer.has_more && advances };
        }
    }

    async fn next_live(&mut self) -> Result<Event, ClientError> {
        loop {
            let Source::Live(Some(wire)) = &mut self.source else {
                self.subscribe().await?;
                continue;
            };
            let text = match wire.frame().await {
                Ok(text) => text,
                Err(WireError::Gone) if self.client.options().reconnect => {
                    self.source = Source::Live(None);
                    continue;
                }
                Err(error) => return Err(error.during(method::ServerSubscribe::NAME)),
            };
            let Incoming::One(Ok(Message::Notification(push))) = rpc::parse(&text) else {
                continue;
            };
            if push.method != EventPush::METHOD {
                continue;
            }
            let EventPush { event, .. } = rpc::params(push.params)?;
            if self.seen.is_none_or(|seen| event.id > seen) {
                self.seen = Some(event.id);
                return Ok(event);
            }
        }
    }

    /// One try to listen (again) from where we are; a connection that dies meanwhile is tried
    /// again by the caller's loop.
    async fn subscribe(&mut self) -> Result<(), ClientError> {
        let retry = if self.seen.is_some() { Retry::Returning } else { Retry::Listening };
        let stream =
            connect::open(self.client.path(), self.client.options().patience, retry).await?;
        self.losses.begin();
        let mut wire = Wire::new(stream);
        let params = self.params(true);
        let call = wire.call::<method::ServerSubscribe>(&params);
        match self.client.unless_silent(method::ServerSubscribe::NAME, call).await {
            Ok(answer) => {
                // Where the log stands now: from here on nothing is missed.
                self.seen = self.seen.or(Some(answer.next_since));
                self.source = Source::Live(Some(wire));
                self.losses = Losses::default();
                Ok(())
            }
            Err(WireError::Gone) if self.client.options().reconnect => {
                self.losses.lost(method::ServerSubscribe::NAME).await
            }
            Err(error) => Err(error.during(method::ServerSubscribe::NAME)),
        }
    }
}
