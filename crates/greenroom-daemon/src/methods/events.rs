//! `server.subscribe` and `server.unsubscribe`: the event log, by page or pushed.

use std::sync::Arc;
use std::time::Duration;

use greenroom_protocol::Fault;
use greenroom_protocol::api::event::{Event, EventPush};
use greenroom_protocol::api::server::{
    SubscribeParams, SubscribeResult, UnsubscribeParams, UnsubscribeResult,
};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::call::Call;
use crate::call::fault;
use crate::call::peer::Peer;
use crate::store::{Page, Query, Storage};

/// Kinds and sessions of one subscription: each is looked at for every event.
const FILTERS_MAX: usize = 256;

/// Longest wait for a first event.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Events of one page while a subscriber catches up.
const CATCH_UP: usize = 500;

pub(crate) async fn subscribe(
    call: Call,
    params: SubscribeParams,
) -> Result<SubscribeResult, Fault> {
    let query = query(&call, &params)?;
    if params.follow {
        follow(&call, query, params.since).await
    } else {
        page(&call, query, &params).await
    }
}

fn query(call: &Call, params: &SubscribeParams) -> Result<Query, Fault> {
    let kinds = params.kinds.clone().unwrap_or_default();
    let named = params.sessions.clone().unwrap_or_default();
    if kinds.len().max(named.len()) > FILTERS_MAX {
        return Err(Fault::invalid_params(format!("more than {FILTERS_MAX} kinds or sessions")));
    }
    let sessions = named
        .iter()
        .map(|name| match name.parse::<greenroom_engine::SessionId>() {
            // Also one that is gone, or not there yet.
            Ok(id) => Ok(id.0),
            Err(()) => Ok(call.session(name)?.id().0),
        })
        .collect::<Result<_, Fault>>()?;
    let limit = params.limit.unwrap_or(SubscribeParams::DEFAULT_LIMIT);
    let limit = limit.clamp(1, SubscribeParams::MAX_LIMIT) as usize;
    Ok(Query { since: params.since.unwrap_or(0), kinds, sessions, limit })
}

async fn page(
    call: &Call,
    query: Query,
    params: &SubscribeParams,
) -> Result<SubscribeResult, Fault> {
    let storage = &call.host.storage;
    let mut live = storage.live();
    let since = match params.since {
        Some(since) => since,
        // Without a point only new events count.
        None => storage.newest_event(),
    };
    let query = Query { since, ..query };
    let mut page = read(storage, &query).await?;
    if let Some(wait_ms) = params.wait_ms.filter(|_| page.events.is_empty()) {
        let patience = Duration::from_millis(wait_ms).min(WAIT_MAX);
        let arrived = tokio::time::timeout(patience, first(&mut live, &query)).await;
        if arrived.is_ok() {
            page = read(storage, &query).await?;
        }
    }
    let dropped = if params.since.is_some() { page.dropped } else { 0 };
    Ok(SubscribeResult {
        subscription: None,
        events: page.events,
        next_since: page.next_since,
        has_more: page.has_more,
        dropped,
    })
}

async fn read(storage: &Storage, query: &Query) -> Result<Page, Fault> {
    storage.page(query.clone()).await.map_err(|error| fault::disk(&error))
}

/// Until an event comes that the query wants, or might have been missed.
async fn first(live: &mut broadcast::Receiver<Arc<Event>>, query: &Query) {
    loop {
        match live.recv().await {
            Ok(event) if query.wants(&event) => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn follow(call: &Call, query: Query, since: Option<u64>) -> Result<SubscribeResult, Fault> {
    call.peer.room_for_subscription()?;
    let storage = call.host.storage.clone();
    // Listening first: what comes while the past is read is in both, and told once.
    let live = storage.live();
    let newest = storage.newest_event();
    let cursor = since.unwrap_or(newest);
    let oldest = read(&storage, &Query { since: cursor, limit: 1, ..query.clone() }).await?;
    let name = call.peer.next_name('e');
    let following = Following {
        storage,
        live,
        peer: call.peer.clone(),
        name: name.clone(),
        query: Query { since: cursor, limit: CATCH_UP, ..query },
    };
    let task = tokio::spawn(following.run()).abort_handle();
    call.peer.subscribed(name.clone(), task);
    Ok(SubscribeResult {
        subscription: Some(name),
        events: Vec::new(),
        next_since: newest,
        has_more: false,
        dropped: if since.is_some() { oldest.dropped } else { 0 },
    })
}

/// One subscriber: reads pages until it is up to date, then listens; when it was too slow for
/// listening it reads pages again. So it misses nothing that is kept.
struct Following {
    storage: Storage,
    live: broadcast::Receiver<Arc<Event>>,
    peer: Arc<Peer>,
    name: String,
    query: Query,
}

impl Following {
    async fn run(mut self) {
        while self.catch_up().await {
            if !self.listen().await {
                return;
            }
        }
    }

    async fn catch_up(&mut self) -> bool {
        loop {
            let page = match self.storage.page(self.query.clone()).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "a subscription of events ends");
                    return false;
                }
            };
            for event in page.events {
                if !self.tell(event).await {
                    return false;
                }
            }
            self.query.since = page.next_since;
            if !page.has_more {
                return true;
            }
        }
    }

    /// True when it fell behind and has to catch up.
    async fn listen(&mut self) -> bool {
        loop {
            match self.live.recv().await {
                Ok(event) => {
                    if self.query.wants(&event) && !self.tell((*event).clone()).await {
                        return false;
                    }
                    self.query.since = self.query.since.max(event.id);
                }
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }

    async fn tell(&self, event: Event) -> bool {
        let push = EventPush { subscription: self.name.clone(), event };
        self.peer.push(&push).await
    }
}

pub(crate) async fn unsubscribe(
    call: Call,
    params: UnsubscribeParams,
) -> Result<UnsubscribeResult, Fault> {
    Ok(UnsubscribeResult { unsubscribed: call.peer.unsubscribe(&params.subscription) })
}
