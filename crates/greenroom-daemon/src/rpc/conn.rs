//! One connection: frames in, requests running side by side, answers by id.
//!
//! A request is begun on the connection's own task; most are done within that one step and are
//! answered without another task. A request that has to wait moves to a task of its own. What must
//! not be left half done (everything above reading and typing) goes on when its caller is gone. A
//! client that closes only its sending side is answered everything it has asked, however long that
//! takes, and is pushed to until then; then the connection ends. `session.attach` ends this loop
//! and hands the socket to `attach`.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use greenroom_protocol::api::session::WaitParams;
use greenroom_protocol::frame::{FrameDecoder, FrameError};
use greenroom_protocol::methods::{Method as _, method};
use greenroom_protocol::rpc::{
    self, CANCEL_METHOD, CancelParams, Incoming, Item, Message, Notification, Request,
};
use greenroom_protocol::{Fault, FaultKind, Id};
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::attach;
use crate::call::caller::Caller;
use crate::call::outlet::Outlet;
use crate::call::peer::Peer;
use crate::call::{Body, Call};
use crate::host::Host;
use crate::rpc::flight::{Answering, Flight, Work, answer, unanswered};
use crate::rpc::hangup;
use crate::rpc::router::{self, Later};

/// Requests of one connection at once; waits are the only ones that last.
const IN_FLIGHT_MAX: usize = 256;

/// Read at once: a burst of small requests, not a whole large one.
const READ_BYTES: usize = 16 * 1024;

/// Requests of a client that is gone altogether may take this long to end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A client that has closed its sending side waits for answers at most this long: longer than the
/// longest wait.
const ANSWERS_MAX: Duration = Duration::from_millis(WaitParams::MAX_TIMEOUT_MS + 60_000);

/// A client that asked for the daemon's end gets its answer within this time.
const STOPPING_ANSWERS: Duration = Duration::from_millis(100);

/// Serves a connection until it ends.
pub(crate) async fn serve(host: Arc<Host>, stream: UnixStream, caller: Caller) {
    let stream = Arc::new(stream);
    let outlet = Arc::new(Outlet::new(stream.clone()));
    let peer = Arc::new(Peer::new(caller, outlet.clone()));
    let mut stopping = host.life.leaving();
    let mut conn = Conn {
        call: Call { host, peer },
        flight: Arc::default(),
        tasks: JoinSet::new(),
        unheard: JoinSet::new(),
        decoder: FrameDecoder::new(),
    };
    let mut buffer = vec![0; READ_BYTES];
    let end = 'serving: loop {
        while conn.tasks.try_join_next().is_some() {}
        tokio::select! {
            biased;
            ready = stream.readable(), if !outlet.is_full() => {
                match ready.and_then(|()| stream.try_read(&mut buffer)) {
                    Ok(0) => break conn.last_answers(&stream).await,
                    Ok(read) => conn.decoder.push(&buffer[..read]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break End::Closed,
                }
                // A frame borrows the decoder's buffer: it is copied before it is carried out.
                while let Some(frame) = conn.decoder.next().map(|frame| frame.map(str::to_owned)) {
                    if let Some(end) = conn.frame(frame).await {
                        break 'serving end;
                    }
                }
            }
            // Asked anew when there is room: the condition above is looked at once per turn.
            () = outlet.room(), if outlet.is_full() => {}
            _ = outlet.drive() => break End::Closed,
            () = stopping.wait() => {
                let landed = conn.flight.detached_landed();
                let _ = tokio::time::timeout(STOPPING_ANSWERS, landed).await;
                break End::Closed;
            }
        }
    };
    conn.end(end, stream, outlet).await;
}

enum End {
    Closed,
    Attach(Box<attach::Attached>),
}

struct Conn {
    call: Call,
    flight: Arc<Flight>,
    tasks: JoinSet<()>,
    /// Work that nobody is told the outcome of.
    unheard: JoinSet<()>,
    decoder: FrameDecoder,
}

impl Conn {
    /// Ends what the connection has begun, then hands the socket on if it is attached.
    async fn end(mut self, end: End, stream: Arc<UnixStream>, outlet: Arc<Outlet>) {
        self.call.peer.close();
        outlet.close();
        // Ended, not only told to: they hold the socket.
        self.tasks.shutdown().await;
        self.unheard.shutdown().await;
        let Conn { call, decoder, .. } = self;
        if let End::Attach(attach) = end {
            let leaving = call.host.life.leaving();
            drop((call, outlet));
            attach::serve(leaving, stream, *attach, decoder.into_rest()).await;
        }
    }

    /// The client will send no more. What it asked is answered as if it would; one that is gone
    /// altogether is not worked for any longer.
    async fn last_answers(&mut self, stream: &UnixStream) -> End {
        if let Some(frame) = self.decoder.finish() {
            let frame = frame.map(str::to_owned);
            if let Some(end) = self.frame(frame).await {
                return end;
            }
        }
        let outlet = self.call.peer.outlet.clone();
        let mut stopping = self.call.host.life.leaving();
        let given_up = tokio::select! {
            () = self.answered() => None,
            _ = outlet.drive() => return End::Closed,
            () = left(stream) => return End::Closed,
            () = stopping.wait() => {
                // A client that asked for the daemon's end gets its answer.
                let landed = self.flight.detached_landed();
                let _ = tokio::time::timeout(STOPPING_ANSWERS, landed).await;
                Some("the host is stopping")
            }
            () = tokio::time::sleep(ANSWERS_MAX) => Some("it takes too long"),
        };
        if let Some(why) = given_up {
            self.give_up(why);
        }
        // All is answered: no more is pushed.
        self.call.peer.close();
        let rest = async {
            // The answers to batches that were just given up.
            while self.tasks.join_next().await.is_some() {}
            let unheard = async { while self.unheard.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LAST_ANSWERS, unheard).await;
            outlet.drained().await;
        };
        let time = if given_up.is_some() { STOPPING_ANSWERS } else { ANSWERS_MAX };
        tokio::select! {
            _ = tokio::time::timeout(time, rest) => {}
            _ = outlet.drive() => {}
            () = left(stream) => {}
            () = stopping.wait(), if given_up.is_none() => {}
        }
        End::Closed
    }

    /// Until everything that was asked has its answer.
    async fn answered(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        self.flight.all_landed().await;
    }

    /// Answers what has no answer yet: silence would tell nothing.
    fn give_up(&mut self, why: &str) {
        let open: Vec<(Id, Work)> = self.flight.open().drain().collect();
        for (id, work) in open {
            self.refuse(&id, &unanswered(why));
            if let Work::Cancellable(Some(cancel)) = work {
                let _ = cancel.send(());
            }
        }
        self.flight.given_up.send_replace(true);
    }

    async fn frame(&mut self, frame: Result<String, FrameError>) -> Option<End> {
        if let Some(framing) = self.decoder.framing() {
            self.call.peer.outlet.speak(framing);
        }
        let text = match frame {
            Ok(text) => text,
            Err(error) => {
                let kind = match error {
                    FrameError::TooLarge => FaultKind::TooLarge,
                    _ => FaultKind::Parse,
                };
                self.refuse(&Id::Null, &Fault::new(kind, error.to_string()));
                return error.is_fatal().then_some(End::Closed);
            }
        };
        match rpc::parse(&text) {
            Incoming::Batch(items) => self.batch(items),
            Incoming::One(Err(rejected)) => self.refuse(&rejected.id, &rejected.fault),
            Incoming::One(Ok(Message::Request(request))) => {
                if request.method == method::SessionAttach::NAME {
                    return self.attach(&request).await;
                }
                self.request(request).await;
            }
            Incoming::One(Ok(Message::Notification(note))) => self.notified(&note),
            // We ask clients nothing.
            Incoming::One(Ok(Message::Response(_))) => {}
        }
        None
    }

    async fn attach(&mut self, request: &Request<'_>) -> Option<End> {
        let begun = if self.flight.open().is_empty() {
            attach::begin(&self.call, request.params).await
        } else {
            let message = "cannot attach on a connection with other requests in flight";
            Err(Fault::new(FaultKind::Conflict, message))
        };
        self.call.host.edge.counters.answered();
        match begun.and_then(|attached| Ok((Body::of(&attached.result)?, attached))) {
            Ok((body, attached)) => {
                self.call.peer.outlet.reply(&request.id, &answer(&request.id, &Ok(body)));
                Some(End::Attach(Box::new(attached)))
            }
            Err(fault) => {
                self.refuse(&request.id, &fault);
                None
            }
        }
    }

    /// Nobody waits for an answer, so nobody is told of a fault either.
    fn notified(&mut self, note: &Notification<'_>) {
        if note.method == CANCEL_METHOD {
            return self.cancel(note.params);
        }
        if let Ok(work) = router::call(self.call.clone(), &note.method, note.params) {
            let carried = router::carried_out(&note.method, work);
            self.unheard.spawn(async move { drop(carried.await) });
        }
    }

    async fn request(&mut self, Request { id, method, params }: Request<'_>) {
        let mut work = match router::call(self.call.clone(), &method, params) {
            Ok(work) => work,
            Err(fault) => return self.refuse(&id, &fault),
        };
        if let Err(fault) = self.enter(&id) {
            return self.refuse(&id, &fault);
        }
        let (flight, call) = (self.flight.clone(), self.call.clone());
        let creating = creates(&method).then(|| call.peer.creating());
        let mut answering = Answering { flight, call, id, answered: false, _creating: creating };
        let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        match first {
            Poll::Ready(outcome) => answering.with(outcome),
            Poll::Pending => self.wait_for(answering, &method, work),
        }
    }

    fn wait_for(&mut self, mut answering: Answering, method: &str, work: Later) {
        if router::goes_on(method) {
            tokio::spawn(async move { answering.with(work.await) });
            return;
        }
        let (cancel, cancelled) = oneshot::channel();
        self.flight.open().insert(answering.id.clone(), Work::Cancellable(Some(cancel)));
        self.tasks.spawn(async move {
            let outcome = tokio::select! {
                outcome = work => outcome,
                Ok(()) = cancelled => {
                    Err(Fault::new(FaultKind::Cancelled, "cancelled by the client"))
                }
            };
            // By now the work has let go of everything it held.
            answering.with(outcome);
        });
    }

    fn enter(&self, id: &Id) -> Result<(), Fault> {
        let mut flight = self.flight.open();
        if flight.len() >= IN_FLIGHT_MAX {
            let message = format!("{IN_FLIGHT_MAX} requests are in flight on this connection");
            return Err(Fault::new(FaultKind::Busy, message));
        }
        if flight.contains_key(id) {
            let message = format!("a request with the id {id} is in flight already");
            return Err(Fault::new(FaultKind::InvalidRequest, message));
        }
        flight.insert(id.clone(), Work::Detached);
        Ok(())
    }

    fn cancel(&mut self, params: Option<&RawValue>) {
        let Ok(CancelParams { id }) = rpc::params(params) else { return };
        match self.flight.open().get_mut(&id) {
            None => return,
            Some(Work::Cancellable(cancel)) => {
                if let Some(cancel) = cancel.take() {
                    // The request may have ended in this moment: then its answer is on its way.
                    let _ = cancel.send(());
                }
                return;
            }
            Some(Work::Detached) => {}
        }
        if self.flight.land(&id) {
            let message = "cancelled by the client; what was begun goes on";
            self.refuse(&id, &Fault::new(FaultKind::Cancelled, message));
        }
    }

    /// Runs the items side by side and answers them all in one frame.
    fn batch(&mut self, items: Vec<Item<'_>>) {
        let mut answers: JoinSet<(Id, String)> = JoinSet::new();
        let mut texts = Vec::new();
        let mut open: Vec<Id> = Vec::new();
        let mut creating = Vec::new();
        for item in items {
            match item {
                Err(rejected) => texts.push(rpc::encode_fault(&rejected.id, &rejected.fault)),
                Ok(Message::Request(request)) => {
                    let work = router::call(self.call.clone(), &request.method, request.params);
                    let work = work.map(|work| router::carried_out(&request.method, work));
                    creating.extend(creates(&request.method).then(|| self.call.peer.creating()));
                    let id = request.id;
                    open.push(id.clone());
                    answers.spawn(async move {
                        let outcome = match work {
                            Ok(work) => work.await,
                            Err(fault) => Err(fault),
                        };
                        let text = answer(&id, &outcome);
                        (id, text)
                    });
                }
                Ok(Message::Notification(note)) => self.notified(&note),
                Ok(Message::Response(_)) => {}
            }
        }
        let call = self.call.clone();
        let mut given_up = self.flight.given_up.subscribe();
        self.tasks.spawn(async move {
            loop {
                let (id, text) = tokio::select! {
                    answered = answers.join_next() => match answered {
                        Some(Ok(answered)) => answered,
                        // The handler panicked; its id is still open and answered below.
                        Some(Err(_)) => continue,
                        None => break,
                    },
                    _ = given_up.wait_for(|given_up| *given_up) => break,
                };
                call.host.edge.counters.answered();
                open.retain(|open| *open != id);
                texts.push(text);
            }
            let why = if answers.is_empty() { "our bug" } else { "the host is stopping" };
            texts.extend(open.iter().map(|id| rpc::encode_fault(id, &unanswered(why))));
            if let Some(text) = rpc::encode_batch(&texts) {
                call.peer.outlet.reply(&Id::Null, &text);
            }
            drop(creating);
        });
    }

    fn refuse(&self, id: &Id, fault: &Fault) {
        self.call.host.edge.counters.answered();
        self.call.peer.outlet.reply(id, &rpc::encode_fault(id, fault));
    }
}

/// Whether a call starts a session: what that prints is pushed after the answer that names it.
fn creates(method: &str) -> bool {
    method == method::SessionCreate::NAME
}

/// Until the client has closed both ways, and what it had asked had its time to end.
async fn left(stream: &UnixStream) {
    hangup::closed(stream).await;
    tokio::time::sleep(LAST_ANSWERS).await;
}
