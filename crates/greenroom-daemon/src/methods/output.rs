//! Output that is pushed: `session.subscribe` and `server.set_notifications`.
//!
//! [`Follow`] gives a session's output from a point on, gapless: what is past comes from the
//! journal, what is new from the actor, and a reader that was too slow for the actor reads the
//! journal until it is up to date. Only what the journal has dropped is missing, and counted.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

use greenroom_engine::process::ExitStatus;
use greenroom_engine::session::{Following, Push, Subscription};
use greenroom_engine::transcript::Plain;
use greenroom_engine::{EngineError, Seq, SessionHandle, SessionId};
use greenroom_protocol::api::Base64;
use greenroom_protocol::api::event::{ChangedPush, ExitedPush, OutputPush};
use greenroom_protocol::api::screen::TranscriptFormat;
use greenroom_protocol::api::server::SetNotifications;
use greenroom_protocol::api::session::{OutputSubscribeParams, OutputSubscribeResult};
use greenroom_protocol::{Fault, rpc};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::convert;
use crate::host::Host;
use crate::methods::transcript::give_back_cut;
use crate::rpc::fault;
use crate::rpc::peer::Peer;
use crate::rpc::router::Call;

/// Output of one push: as JSON it can grow sixfold and must stay far below the frame cap.
const PUSH_BYTES: usize = 256 * 1024;

/// A session's output from a point on.
pub struct Follow {
    handle: SessionHandle,
    subscription: Subscription,
    cursor: Seq,
    /// Up to here the journal has to be read.
    behind: Seq,
    waiting: VecDeque<(Seq, Arc<[u8]>)>,
    pub exited: Option<ExitStatus>,
    over: bool,
}

/// Some output in order.
pub struct Piece {
    /// The sequence number after it.
    pub end: Seq,
    pub bytes: Vec<u8>,
    /// Bytes missing before it.
    pub dropped: u64,
}

impl Follow {
    pub async fn from(handle: &SessionHandle, since: Option<u64>) -> Result<Follow, EngineError> {
        let subscription = handle.subscribe(Following::Stream).await?;
        let start = subscription.start;
        let cursor = since.map_or(start, |since| Seq(since).min(start));
        Ok(Follow {
            handle: handle.clone(),
            subscription,
            cursor,
            behind: start,
            waiting: VecDeque::new(),
            exited: None,
            over: false,
        })
    }

    pub fn start(&self) -> Seq {
        self.cursor
    }

    /// The next piece; `None` after the session has ended (see `exited`) or gone.
    pub async fn next(&mut self) -> Option<Piece> {
        loop {
            if self.cursor < self.behind {
                return self.from_journal().await;
            }
            if let Some(piece) = self.from_waiting() {
                return Some(piece);
            }
            if self.over {
                return None;
            }
            match self.subscription.next().await {
                Some(Push::Output { seq, bytes }) => self.queue(seq, bytes.into_inner()),
                Some(Push::Lagged { to, .. }) => self.behind = self.behind.max(to),
                Some(Push::Exited { status, seq }) => {
                    self.exited = Some(status);
                    self.behind = self.behind.max(seq);
                    self.over = true;
                }
                Some(Push::Closed) | None => self.over = true,
                Some(_) => {}
            }
        }
    }

    fn queue(&mut self, seq: Seq, bytes: Arc<[u8]>) {
        let end =
            self.waiting.back().map_or(self.cursor, |(seq, bytes)| seq.plus(bytes.len() as u64));
        if seq > end {
            // A hole: the journal has what lies in it, and everything queued before.
            self.behind = self.behind.max(seq);
        }
        self.waiting.push_back((seq, bytes));
    }

    fn from_waiting(&mut self) -> Option<Piece> {
        let mut out = Vec::new();
        while out.len() < PUSH_BYTES {
            let Some((seq, bytes)) = self.waiting.pop_front() else {
                match self.subscription.try_next() {
                    Some(Push::Output { seq, bytes }) if !out.is_empty() => {
                        self.queue(seq, bytes.into_inner());
                        if self.cursor < self.behind {
                            break;
                        }
                        continue;
                    }
                    Some(push) => self.set_aside(push),
                    None => {}
                }
                break;
            };
            let skip = usize::try_from(self.cursor.since(seq)).unwrap_or(usize::MAX);
            if skip < bytes.len() {
                out.extend_from_slice(&bytes[skip..]);
                self.cursor = seq.plus(bytes.len() as u64);
            }
        }
        (!out.is_empty()).then_some(Piece { end: self.cursor, bytes: out, dropped: 0 })
    }

    fn set_aside(&mut self, push: Push) {
        match push {
            Push::Output { seq, bytes } => self.queue(seq, bytes.into_inner()),
            Push::Lagged { to, .. } => self.behind = self.behind.max(to),
            Push::Exited { status, seq } => {
                self.exited = Some(status);
                self.behind = self.behind.max(seq);
                self.over = true;
            }
            Push::Closed => self.over = true,
            _ => {}
        }
    }

    async fn from_journal(&mut self) -> Option<Piece> {
        let page = self.handle.output(self.cursor, PUSH_BYTES).await.ok()?;
        let bytes = page.bytes.into_inner();
        let end = page.next.max(self.cursor);
        if end == self.cursor {
            // The journal has nothing more to give up to there; go on with what is new.
            let dropped = self.behind.since(self.cursor);
            self.cursor = self.behind;
            return Some(Piece { end: self.cursor, bytes, dropped });
        }
        self.cursor = end;
        Some(Piece { end, bytes, dropped: page.dropped })
    }
}

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
    let seq = follow.start().0;
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
        if let Some(status) = follow.exited {
            let exit = Some(convert::exit(status));
            let sequence = follow.cursor.0;
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
