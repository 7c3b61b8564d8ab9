//! The binary stream of an attached client, after the reply to `session.attach`.
//!
//! In: INPUT, RESIZE and DETACH frames. Out: KEYFRAME first, then OUTPUT as it comes, RESIZE, EXIT,
//! DETACH, NOTICE. One task per client: keys go to the PTY on it without asking anybody, and output
//! goes to the socket on it without a timer. A client that does not read is not read for either:
//! the engine cuts it, and it gets a keyframe when it reads again.

mod outflow;
mod viewers;

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_engine::EngineError;
use greenroom_engine::egress::Sink;
use greenroom_engine::session::{
    InputError, Push, SessionHandle, SessionState, SubscriberKind, Subscription,
};
use greenroom_protocol::api::session::{AttachParams, AttachResult, ClientEntry};
use greenroom_protocol::attach::{AttachDecoder, Detach, Frame, Notice};
use greenroom_protocol::methods::{Method as _, method};
use greenroom_protocol::{Fault, Timestamp, rpc};
use serde_json::value::RawValue;
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::call::{Call, fault};
use crate::convert;
use crate::hooks::{self, Attaching};
use crate::lifecycle::{Ending, Stopping};
use outflow::Outflow;
pub(crate) use viewers::Viewers;
use viewers::Viewing;

/// Read at once: a paste comes in pieces of this size.
const READ_BYTES: usize = 16 * 1024;

/// Output gathered for one write.
const GATHER_BYTES: usize = 256 * 1024;

/// A program that does not read its input is tried again this often.
const INPUT_RETRY: Duration = Duration::from_millis(20);

/// How long the last frames may take to leave.
const LAST_FRAMES: Duration = Duration::from_secs(2);

/// A client that is attached but not served yet: its reply comes first.
pub(crate) struct Attached {
    pub result: AttachResult,
    handle: SessionHandle,
    subscription: Subscription,
    viewing: Viewing,
    /// The client told no size: it sees the session at the size it has.
    follows_size: bool,
    reconnected: bool,
}

/// Subscribes the caller. Nothing has been sent yet.
pub(crate) async fn begin(call: &Call, params: Option<&RawValue>) -> Result<Attached, Fault> {
    call.admitted(method::SessionAttach::NAME, params)?;
    let mut params: AttachParams = rpc::params(params)?;
    let handle = call.session(&params.session)?;
    let info = handle.info();
    if let SessionState::Exited { at, status } = info.state {
        let ended = EngineError::Ended { verb: "attach to", id: handle.id(), status, at };
        return Err(fault::engine(ended));
    }
    let size = params.size.map(convert::size_in).transpose()?;
    let name = params.client.clone().or_else(|| call.peer.client());
    let (pid, remote) = (call.peer.caller.pid(), !call.peer.caller.is_local());
    let asked = Attaching { client: name.clone(), pid, remote, read_only: params.read_only };
    params.read_only = hooks::may_attach(&call.host.hooks, &handle, asked).await?;
    // A window of unknown size must not decide the session's.
    let read_only = params.read_only || size.is_none();
    let kind = SubscriberKind::Viewer { size: size.unwrap_or(info.record.size), read_only };
    let sink = if remote { Sink::AttachRemote } else { Sink::AttachLocal };
    let subscription = handle.subscribe_to(kind, Some(sink)).await.map_err(fault::engine)?;
    let client = subscription.client;
    let entry = ClientEntry {
        id: convert::client(client),
        name,
        pid,
        read_only: params.read_only,
        size: params.size,
        attached_at: Timestamp::from_system(SystemTime::now()),
    };
    let viewing = call.host.edge.viewers.join(handle.id(), client, entry);
    if params.exclusive {
        call.host.edge.viewers.replace_others(handle.id(), client);
    }
    let result = AttachResult {
        session: handle.id().to_string(),
        client: convert::client(client),
        seq: subscription.start.0,
        size: convert::size(handle.info().record.size),
        read_only: params.read_only,
    };
    let (follows_size, reconnected) = (size.is_none(), params.since.is_some());
    Ok(Attached { result, handle, subscription, viewing, follows_size, reconnected })
}

/// Moves the client to the session's thread and serves it there. The socket is nobody else's any
/// more; where it still is (a late push holds it) the client is served from here.
pub(crate) async fn serve(
    stopping: Stopping,
    stream: Arc<UnixStream>,
    attached: Attached,
    rest: Vec<u8>,
) {
    let stream = match Arc::try_unwrap(stream) {
        Ok(stream) => stream,
        Err(shared) => return run(stopping, &shared, attached, rest).await,
    };
    let Ok(stream) = stream.into_std() else { return };
    let thread = attached.handle.thread().clone();
    let served = thread.spawn(async move {
        if let Ok(stream) = UnixStream::from_std(stream) {
            run(stopping, &stream, attached, rest).await;
        }
    });
    // Ends with the client; the connection counts as open until then.
    let _ = served.await;
}

/// Serves the client until it leaves, the session ends or the daemon does.
async fn run(mut stopping: Stopping, stream: &UnixStream, attached: Attached, rest: Vec<u8>) {
    let mut decoder = AttachDecoder::new();
    decoder.push(&rest);
    let mut stream_of = Stream {
        stream,
        read_only: attached.result.read_only,
        handle: attached.handle,
        subscription: attached.subscription,
        follows_size: attached.follows_size,
        decoder,
        out: Outflow::default(),
        unsent: Vec::new(),
    };
    if attached.reconnected {
        stream_of.out.frame(&Frame::Notice(Notice {
            kind: "reattached".to_owned(),
            message: Some("attached again; the session went on".to_owned()),
            ..Notice::default()
        }));
    }
    stream_of.run(&attached.viewing, &mut stopping).await;
    stream_of.finish().await;
}

struct Stream<'a> {
    stream: &'a UnixStream,
    handle: SessionHandle,
    subscription: Subscription,
    read_only: bool,
    follows_size: bool,
    decoder: AttachDecoder,
    out: Outflow,
    /// Typed, but the program's queue was full. Nothing more is read until it is taken.
    unsent: Vec<u8>,
}

/// What to do after a step.
enum Next {
    On,
    /// The stream is over once everything queued has left.
    Over,
    /// The socket is no good.
    Broken,
}

impl From<io::Result<()>> for Next {
    fn from(written: io::Result<()>) -> Next {
        if written.is_ok() { Next::On } else { Next::Broken }
    }
}

impl Stream<'_> {
    async fn run(&mut self, viewing: &Viewing, stopping: &mut Stopping) {
        let mut buffer = vec![0; READ_BYTES];
        let mut next = self.take_frames().await;
        while matches!(next, Next::On) {
            next = self.step(&mut buffer, viewing, stopping).await;
        }
        if matches!(next, Next::Broken) {
            self.out.clear();
        }
    }

    async fn step(
        &mut self,
        buffer: &mut [u8],
        viewing: &Viewing,
        stopping: &mut Stopping,
    ) -> Next {
        let reading = self.unsent.is_empty();
        let interest = match (reading, self.out.is_empty()) {
            (true, true) => Some(Interest::READABLE),
            (true, false) => Some(Interest::READABLE | Interest::WRITABLE),
            (false, false) => Some(Interest::WRITABLE),
            (false, true) => None,
        };
        let ready = async {
            match interest {
                Some(interest) => self.stream.ready(interest).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = ready => match ready {
                Ok(ready) => {
                    if ready.is_writable() && self.out.write(self.stream).is_err() {
                        return Next::Broken;
                    }
                    if reading && (ready.is_readable() || ready.is_read_closed()) {
                        return self.read(buffer).await;
                    }
                    Next::On
                }
                Err(_) => Next::Broken,
            },
            push = self.subscription.next(), if self.out.is_empty() => self.take_pushes(push).await,
            () = viewing.replaced() => self.leave("replaced", "another client took over"),
            ending = stopping.reason() => match ending {
                Ending::Shutdown { .. } => self.leave("shutdown", "the host shuts down"),
                // Another daemon takes over: the client comes back by itself.
                _ => Next::Broken,
            },
            () = tokio::time::sleep(INPUT_RETRY), if !reading => {
                let unsent = std::mem::take(&mut self.unsent);
                self.type_in(unsent);
                if self.unsent.is_empty() { self.take_frames().await } else { Next::On }
            }
        }
    }

    async fn read(&mut self, buffer: &mut [u8]) -> Next {
        match self.stream.try_read(buffer) {
            Ok(0) => Next::Broken,
            Ok(read) => {
                self.decoder.push(&buffer[..read]);
                self.take_frames().await
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::On,
            Err(_) => Next::Broken,
        }
    }

    async fn take_frames(&mut self) -> Next {
        while self.unsent.is_empty() {
            let bytes = match self.decoder.next() {
                None => break,
                Some(Ok(Frame::Input(bytes))) => bytes.to_vec(),
                Some(Ok(Frame::Resize { cols, rows })) => {
                    let size = greenroom_engine::term::Size::new(cols, rows);
                    if let Some(size) = size.filter(|_| !self.follows_size) {
                        // An actor that is gone ends the subscription, too.
                        let _ = self.handle.window(self.subscription.client, size).await;
                    }
                    continue;
                }
                Some(Ok(Frame::Detach(_))) => return Next::Over,
                // Frames that only the host may send, and those that cannot be read, are skipped.
                Some(Ok(_)) | Some(Err(_)) => continue,
            };
            if !self.read_only {
                self.type_in(bytes);
            }
        }
        self.out.write(self.stream).into()
    }

    /// Types without waiting. What the program's queue cannot hold is kept for later.
    fn type_in(&mut self, bytes: Vec<u8>) {
        match self.handle.write_now(Some(self.subscription.client), &bytes) {
            Ok(_) => {}
            Err(EngineError::Input { source: InputError::Full { .. }, .. }) => self.unsent = bytes,
            Err(error) => self.out.frame(&Frame::Notice(Notice {
                kind: "input_refused".to_owned(),
                message: Some(error.to_string()),
                ..Notice::default()
            })),
        }
    }

    async fn take_pushes(&mut self, first: Option<Push>) -> Next {
        let mut next = first;
        loop {
            let Some(push) = next else { return self.leave("closed", "the session is gone") };
            match push {
                Push::Output { seq, bytes } => self.out.output(seq, bytes.into_inner()),
                Push::Keyframe { seq, bytes, .. } => self.out.keyframe(seq, bytes.into_inner()),
                Push::Resized { size } => {
                    let (cols, rows) = (size.cols(), size.rows());
                    self.out.frame(&Frame::Resize { cols, rows });
                    if self.follows_size {
                        let _ = self.handle.window(self.subscription.client, size).await;
                    }
                }
                Push::Exited { status, .. } => {
                    self.out.frame(&Frame::Exit(convert::exit(status)));
                    return Next::Over;
                }
                Push::Lagged { .. } => {}
                Push::Closed => return self.leave("closed", "the session was removed"),
            }
            if self.out.len() >= GATHER_BYTES {
                break;
            }
            match self.subscription.try_next() {
                Some(push) => next = Some(push),
                None => break,
            }
        }
        self.out.write(self.stream).into()
    }

    fn leave(&mut self, reason: &str, message: &str) -> Next {
        let (reason, message) = (reason.to_owned(), Some(message.to_owned()));
        self.out.frame(&Frame::Detach(Detach { reason, message }));
        Next::Over
    }

    /// Gets the last frames out, to a client that still reads.
    async fn finish(&mut self) {
        let last = async {
            while !self.out.is_empty() {
                if self.stream.writable().await.is_err() || self.out.write(self.stream).is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_FRAMES, last).await;
    }
}
