//! Output that is pushed: `session.subscribe` and `server.set_notifications`.
//!
//! Each push comes from a [`Follow`], which misses nothing the journal still has; how fast it may
//! go is decided by the client, through the room in its connection's outlet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use greenroom_engine::transcript::Plain;
use greenroom_engine::{Engine, Seq, SessionHandle, SessionId};
use greenroom_protocol::Fault;
use greenroom_protocol::api::Base64;
use greenroom_protocol::api::event::{ChangedPush, Event, ExitedPush, OutputPush};
use greenroom_protocol::api::screen::TranscriptFormat;
use greenroom_protocol::api::server::SetNotifications;
use greenroom_protocol::api::session::{OutputSubscribeParams, OutputSubscribeResult};
use greenroom_protocol::events::{EventData as _, SessionRenamed};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use crate::call::Call;
use crate::call::fault;
use crate::call::peer::Peer;
use crate::convert;
use crate::follow::Follow;
use crate::methods::transcript::cut_len;

/// Bytes in any split to text in one form.
struct Form {
    format: TranscriptFormat,
    plain: Plain,
    cut: Vec<u8>,
}

impl Form {
    fn new(format: TranscriptFormat) -> Form {
        Form { format, plain: Plain::new(), cut: Vec::new() }
    }

    fn shape(&mut self, bytes: Vec<u8>) -> (String, Option<Base64>) {
        match self.format {
            TranscriptFormat::Raw => (String::new(), Some(Base64(bytes))),
            TranscriptFormat::Text => {
                let mut text = String::new();
                self.plain.feed(&bytes, &mut text);
                (text, None)
            }
            TranscriptFormat::Ansi => {
                let mut whole = std::mem::take(&mut self.cut);
                whole.extend_from_slice(&bytes);
                self.cut = whole.split_off(whole.len() - cut_len(&whole));
                (String::from_utf8_lossy(&whole).into_owned(), None)
            }
        }
    }
}

pub(crate) async fn subscribe(
    call: Call,
    params: OutputSubscribeParams,
) -> Result<OutputSubscribeResult, Fault> {
    let handle = call.session(&params.session)?;
    call.peer.room_for_subscription()?;
    let follow = Follow::from(&handle, params.since).await.map_err(fault::engine)?;
    let seq = follow.cursor().0;
    let name = call.peer.next_name('o');
    let peer = call.peer.clone();
    let telling = Telling { peer, subscription: Some(name.clone()), session: handle.id() };
    let form = Form::new(params.format);
    let task = tokio::spawn(telling.run(follow, form)).abort_handle();
    call.peer.subscribed(name.clone(), task);
    Ok(OutputSubscribeResult { subscription: name, session: handle.id().to_string(), seq })
}

/// Pushes one session's output to one connection.
struct Telling {
    peer: Arc<Peer>,
    subscription: Option<String>,
    session: SessionId,
}

impl Telling {
    async fn run(self, mut follow: Follow, mut form: Form) {
        while let Some(piece) = follow.next().await {
            let sequence = piece.end.0;
            let (output, data) = form.shape(piece.bytes);
            if self.subscription.is_none() {
                let push = ChangedPush { session: self.session.to_string(), sequence };
                if !self.peer.push(&push).await {
                    return;
                }
            }
            let push = OutputPush {
                session: self.session.to_string(),
                subscription: self.subscription.clone(),
                sequence,
                output,
                data,
                dropped: Some(piece.dropped).filter(|dropped| *dropped > 0),
            };
            if !self.peer.push(&push).await {
                return;
            }
        }
        if let Some(status) = follow.exited() {
            let exit = Some(convert::exit(status));
            let sequence = follow.cursor().0;
            let push = ExitedPush { session: self.session.to_string(), sequence, exit };
            self.peer.push(&push).await;
        }
    }
}

pub(crate) async fn set_notifications(
    call: Call,
    params: SetNotifications,
) -> Result<SetNotifications, Fault> {
    let task = params.enabled.then(|| {
        let wanted = params.sessions.clone().unwrap_or_default();
        // Begins here and not on its task: what starts after the answer is told of in any case.
        tokio::spawn(Notifying::begin(&call, wanted).run()).abort_handle()
    });
    call.peer.notify_by(task);
    Ok(params)
}

/// Follows every session, or the named ones, also those that come later. Of sessions that run
/// already what is new is told, of later ones everything, also when they have ended by the time
/// they are seen.
struct Notifying {
    engine: Engine,
    peer: Arc<Peer>,
    wanted: Vec<String>,
    births: watch::Receiver<u64>,
    live: broadcast::Receiver<Arc<Event>>,
    /// The sessions that were there before, and where their new output begins; ended ones have
    /// none.
    before: HashMap<SessionId, Option<Seq>>,
    followed: HashSet<SessionId>,
    following: JoinSet<()>,
}

impl Notifying {
    fn begin(call: &Call, wanted: Vec<String>) -> Notifying {
        // Listening before looking, so that no session falls between.
        let births = call.host.sessions.engine().births();
        let live = call.host.storage.live();
        let before = call.host.sessions.engine().handles().into_iter().map(|handle| {
            let change = handle.change();
            (handle.id(), change.ended.is_none().then_some(change.seq))
        });
        Notifying {
            before: before.collect(),
            engine: call.host.sessions.engine().clone(),
            peer: call.peer.clone(),
            wanted,
            births,
            live,
            followed: HashSet::new(),
            following: JoinSet::new(),
        }
    }

    async fn run(mut self) {
        loop {
            self.births.mark_unchanged();
            self.look();
            while self.following.try_join_next().is_some() {}
            if !self.something_new().await {
                return;
            }
        }
    }

    fn look(&mut self) {
        for handle in self.engine.handles() {
            let id = handle.id();
            if self.followed.contains(&id) || !self.wants(&handle) {
                continue;
            }
            self.followed.insert(id);
            let before = self.before.get(&id).copied();
            if before != Some(None) {
                self.following.spawn(tell_all(handle, self.peer.clone(), before.flatten()));
            }
        }
    }

    fn wants(&self, handle: &SessionHandle) -> bool {
        if self.wanted.is_empty() {
            return true;
        }
        let (id, name) = (handle.id().to_string(), handle.info().record.name);
        self.wanted.iter().any(|wanted| *wanted == name || *wanted == id)
    }

    /// Until there is another session, or one with another name; false when the host ends.
    async fn something_new(&mut self) -> bool {
        loop {
            tokio::select! {
                born = self.births.changed() => return born.is_ok(),
                event = self.live.recv() => match event {
                    Ok(event) if event.kind == SessionRenamed::KIND => return true,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                },
            }
        }
    }
}

/// Pushes what a session prints. `since`: `None` for one that came later, of which everything is
/// pushed.
async fn tell_all(handle: SessionHandle, peer: Arc<Peer>, since: Option<Seq>) {
    let from = since.map_or(0, |since| since.0);
    let Ok(follow) = Follow::from(&handle, Some(from)).await else { return };
    if since.is_none() {
        // Subscribed before that; pushed to when whoever started the session knows its id.
        peer.created().await;
    }
    let telling = Telling { peer, subscription: None, session: handle.id() };
    telling.run(follow, Form::new(TranscriptFormat::Ansi)).await;
}
