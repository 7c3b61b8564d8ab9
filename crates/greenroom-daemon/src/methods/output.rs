//! Output that is pushed: `session.subscribe` and `server.set_notifications`.
//!
//! Each push comes from a [`Follow`], which misses nothing the journal still has; how fast it may
//! go is decided by the client, through the room in its connection's outlet.

use std::collections::HashSet;
use std::sync::Arc;

use greenroom_engine::transcript::Plain;
use greenroom_engine::{SessionHandle, SessionId};
use greenroom_protocol::api::Base64;
use greenroom_protocol::api::event::{ChangedPush, ExitedPush, OutputPush};
use greenroom_protocol::api::screen::TranscriptFormat;
use greenroom_protocol::api::server::SetNotifications;
use greenroom_protocol::api::session::{OutputSubscribeParams, OutputSubscribeResult};
use greenroom_protocol::{Fault, rpc};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::convert;
use crate::follow::Follow;
use crate::host::Host;
use crate::methods::transcript::give_back_cut;
use crate::rpc::fault;
use crate::rpc::peer::Peer;
use crate::rpc::router::Call;

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
                let len = whole.len();
                let cut = give_back_cut(&mut whole.clone()) as usize;
                self.cut = whole.split_off(len - cut);
                (String::from_utf8_lossy(&whole).into_owned(), None)
            }
        }
    }
}

pub async fn subscribe(
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
                if !self.push("session.changed", &push).await {
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
            if !self.push("session.output", &push).await {
                return;
            }
        }
        if let Some(status) = follow.exited() {
            let exit = Some(convert::exit(status));
            let sequence = follow.cursor().0;
            let push = ExitedPush { session: self.session.to_string(), sequence, exit };
            self.push("session.exited", &push).await;
        }
    }

    async fn push<P: serde::Serialize>(&self, method: &str, params: &P) -> bool {
        match rpc::encode_notification(method, params) {
            Ok(text) => self.peer.outlet.push(&text).await,
            Err(_) => true,
        }
    }
}

pub async fn set_notifications(
    call: Call,
    params: SetNotifications,
) -> Result<SetNotifications, Fault> {
    let task = params.enabled.then(|| {
        let wanted = params.sessions.clone().unwrap_or_default();
        tokio::spawn(notify(call.host.clone(), call.peer.clone(), wanted)).abort_handle()
    });
    call.peer.notify_by(task);
    Ok(params)
}

/// Follows every session, or the named ones, also those that come later.
async fn notify(host: Arc<Host>, peer: Arc<Peer>, wanted: Vec<String>) {
    // Listening before looking, so that no session falls between.
    let mut live = host.storage.live();
    let mut following = JoinSet::new();
    let mut known: HashSet<SessionId> = HashSet::new();
    // Of sessions that were there already only new output is told.
    let mut since = None;
    loop {
        for handle in host.engine.handles() {
            let id = handle.id();
            let name = handle.info().record.name;
            let is_wanted = wanted.is_empty()
                || wanted.iter().any(|wanted| *wanted == name || *wanted == id.to_string());
            if is_wanted && handle.change().ended.is_none() && known.insert(id) {
                following.spawn(tell_all(handle, peer.clone(), since));
            }
        }
        since = Some(0);
        while following.try_join_next().is_some() {}
        loop {
            match live.recv().await {
                Ok(event)
                    if ["session.started", "session.renamed"].contains(&event.kind.as_str()) =>
                {
                    break;
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

async fn tell_all(handle: SessionHandle, peer: Arc<Peer>, since: Option<u64>) {
    let Ok(follow) = Follow::from(&handle, since).await else { return };
    let telling = Telling { peer, subscription: None, session: handle.id() };
    telling.run(follow, Form::new(TranscriptFormat::Ansi)).await;
}
