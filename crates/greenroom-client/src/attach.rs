//! An attached terminal: frames both ways, across restarts of the daemon.
//!
//! One owner, no tasks: [`AttachStream::next`] reads, writes what is waiting, and attaches again
//! when the connection ends without EXIT or DETACH. Output is told exactly once: what a new
//! daemon repeats is cut off by sequence number.
//! Absent on purpose: the user's terminal and its modes.

use std::io;

use greenroom_protocol::FaultKind;
use greenroom_protocol::api::session::{AttachParams, AttachResult, ExitStatus, InfoParams};
use greenroom_protocol::attach::{AttachDecoder, Detach, Frame, Notice};
use greenroom_protocol::methods::{Method as _, method};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::client::Client;
use crate::connect::{self, Losses, Retry};
use crate::error::{ClientError, Garbled};
use crate::silence::Stopped;
use crate::wire::{READ_BYTES, Wire, WireError};

/// Input waiting to be written. A program that does not read holds up a paste here, not the host.
const OUTBOX_BYTES: usize = 1024 * 1024;

/// What happens on an attached terminal.
#[derive(Clone, Debug, PartialEq)]
pub enum AttachEvent {
    /// New output.
    Output {
        /// The number of the first byte.
        seq: u64,
        /// As the program wrote them.
        bytes: Vec<u8>,
    },
    /// Paint the screen anew.
    Keyframe {
        /// The screen is as after this much output.
        seq: u64,
        /// Paints it.
        bytes: Vec<u8>,
    },
    /// The terminal has another size now.
    Resize { cols: u16, rows: u16 },
    /// The session has ended, and so has this stream.
    Exit(ExitStatus),
    /// This stream has ended, the session has not.
    Detach(Detach),
    /// Something to know.
    Notice(Notice),
    /// The daemon restarted and we are attached again.
    Reattached(AttachResult),
}

/// An attached terminal.
#[derive(Debug)]
pub struct AttachStream {
    client: Client,
    params: AttachParams,
    attached: AttachResult,
    link: Option<Link>,
    /// Frames to write, whole ones: after a restart the first is written again from its start.
    outbox: Outbox,
    /// The sequence number the next output should have.
    next_seq: Option<u64>,
    ended: bool,
    losses: Losses,
    chunk: Box<[u8]>,
}

#[derive(Debug)]
struct Link {
    stream: UnixStream,
    decoder: AttachDecoder,
    stopped: Stopped,
}

#[derive(Debug, Default)]
struct Outbox {
    frames: std::collections::VecDeque<Vec<u8>>,
    bytes: usize,
    /// How much of the first frame is written.
    written: usize,
}

impl Client {
    /// Attaches on a connection of its own.
    pub async fn attach(&self, mut params: AttachParams) -> Result<AttachStream, ClientError> {
        let mut losses = Losses::default();
        let (attached, link) = loop {
            losses.begin();
            match open(self, &params, Retry::Listening).await {
                Ok(attached) => break attached,
                Err(WireError::Gone) if self.options().reconnect => {
                    losses.lost(method::SessionAttach::NAME).await?
                }
                Err(error) => return Err(error.during(method::SessionAttach::NAME)),
            }
        };
        // By id from now on: a rename while the daemon restarts must not lose us.
        params.session.clone_from(&attached.session);
        Ok(AttachStream {
            client: self.clone(),
            next_seq: params.since,
            params,
            attached,
            link: Some(link),
            outbox: Outbox::default(),
            ended: false,
            losses: Losses::default(),
            chunk: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }
}

async fn open(
    client: &Client,
    params: &AttachParams,
    retry: Retry,
) -> Result<(AttachResult, Link), WireError> {
    let stream = connect::open(client.path(), client.options().patience, retry)
        .await
        .map_err(WireError::Failed)?;
    let mut wire = Wire::new(stream);
    let call = wire.call::<method::SessionAttach>(params);
    let attached = client.unless_silent(method::SessionAttach::NAME, call).await?;
    let (stream, rest) = wire.into_parts();
    let mut decoder = AttachDecoder::new();
    decoder.push(&rest);
    let stopped = Stopped::of(&stream);
    Ok((attached, Link { stream, decoder, stopped }))
}

impl AttachStream {
    /// What the host answered to the last attach.
    pub fn attached(&self) -> &AttachResult {
        &self.attached
    }

    /// The next thing that happens; `None` after EXIT or DETACH. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<AttachEvent>, ClientError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            if self.link.is_none() {
                return self.reattach().await.map(Some);
            }
            if let Some(event) = self.decoded()? {
                return Ok(Some(event));
            }
            match self.transfer().await {
                Ok(()) => {}
                Err(WireError::Gone) if self.client.options().reconnect => {
                    self.link = None;
                    self.outbox.written = 0;
                }
                Err(error) => {
                    self.ended = true;
                    return Err(error.during(method::SessionAttach::NAME));
                }
            }
        }
    }

    /// Types bytes. They are written at once if the socket takes them, else by [`Self::next`].
    /// Waits only while [`OUTBOX_BYTES`] are waiting already.
    pub async fn input(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.send(&Frame::Input(bytes)).await
    }

    /// Tells the size of the client's window; remembered across restarts.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), ClientError> {
        self.params.size = Some(greenroom_protocol::api::screen::Size::new(cols, rows));
        self.send(&Frame::Resize { cols, rows }).await
    }

    /// Says goodbye, after everything that was typed is written. The session goes on.
    pub async fn detach(mut self) -> Result<(), ClientError> {
        let reason = Detach { reason: "asked".to_owned(), message: None };
        self.send(&Frame::Detach(reason)).await?;
        self.flush_below(0).await;
        Ok(())
    }

    async fn send(&mut self, frame: &Frame<'_>) -> Result<(), ClientError> {
        let bytes = frame.to_vec().map_err(ClientError::Send)?;
        self.flush_below(OUTBOX_BYTES).await;
        if self.outbox.bytes > OUTBOX_BYTES {
            // Only while the host is away: what cannot be kept must not look as if it were sent.
            return Err(ClientError::Congested { waiting: self.outbox.bytes });
        }
        self.outbox.push(bytes);
        if let Some(link) = &self.link {
            // A dead link is noticed by `next`, which knows what to do.
            let _ = self.outbox.write(&link.stream);
        }
        Ok(())
    }

    /// Writes until at most `bytes` wait, or the link is gone.
    async fn flush_below(&mut self, bytes: usize) {
        while self.outbox.bytes > bytes {
            let Some(link) = &mut self.link else { return };
            let writable = tokio::select! {
                writable = link.stream.writable() => writable.is_ok(),
                // `next` tells of it.
                _ = link.stopped.seen() => false,
            };
            if !writable || self.outbox.write(&link.stream).is_err() {
                return;
            }
        }
    }

    /// Waits for the socket, then reads and writes what it takes.
    async fn transfer(&mut self) -> Result<(), WireError> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let writing = !self.outbox.frames.is_empty();
        let interest =
            if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let ready = tokio::select! {
            ready = link.stream.ready(interest) => ready?,
            error = link.stopped.seen() => return Err(WireError::Failed(error)),
        };
        if ready.is_readable() {
            match link.stream.try_read(&mut self.chunk) {
                Ok(0) => return Err(WireError::Gone),
                Ok(count) => link.decoder.push(&self.chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(WireError::Gone),
            }
        }
        // A peer that is gone makes writing fail; what it sent before is read first.
        if ready.is_writable() && !ready.is_readable() {
            self.outbox.write(&link.stream)?;
        } else if ready.is_writable() {
            let _ = self.outbox.write(&link.stream);
        }
        Ok(())
    }

    /// The next frame that has arrived, as far as it is new.
    fn decoded(&mut self) -> Result<Option<AttachEvent>, ClientError> {
        let Some(link) = &mut self.link else { return Ok(None) };
        while let Some(frame) = link.decoder.next() {
            let event = match frame.map_err(Garbled::Attach)? {
                Frame::Output { seq, bytes } => {
                    let told = self.next_seq.map_or(0, |next| next.saturating_sub(seq));
                    let told = usize::try_from(told).unwrap_or(usize::MAX).min(bytes.len());
                    let (seq, bytes) = (seq + told as u64, &bytes[told..]);
                    if bytes.is_empty() {
                        continue;
                    }
                    self.next_seq = Some(seq + bytes.len() as u64);
                    AttachEvent::Output { seq, bytes: bytes.to_vec() }
                }
                Frame::Keyframe { seq, bytes } => {
                    self.next_seq = Some(seq);
                    AttachEvent::Keyframe { seq, bytes: bytes.to_vec() }
                }
                Frame::Resize { cols, rows } => AttachEvent::Resize { cols, rows },
                Frame::Exit(status) => {
                    self.ended = true;
                    AttachEvent::Exit(status)
                }
                Frame::Detach(reason) => {
                    self.ended = true;
                    AttachEvent::Detach(reason)
                }
                Frame::Notice(notice) => AttachEvent::Notice(notice),
                // Only we send those.
                Frame::Input(_) => continue,
            };
            return Ok(Some(event));
        }
        Ok(None)
    }

    async fn reattach(&mut self) -> Result<AttachEvent, ClientError> {
        let mut params = AttachParams { since: self.next_seq, ..self.params.clone() };
        // If another client took over meanwhile, it keeps the session.
        params.exclusive = false;
        loop {
            self.losses.begin();
            match open(&self.client, &params, Retry::Returning).await {
                Ok((attached, link)) => {
                    self.link = Some(link);
                    self.attached = attached.clone();
                    return Ok(AttachEvent::Reattached(attached));
                }
                Err(WireError::Gone) => self.losses.lost(method::SessionAttach::NAME).await?,
                Err(WireError::Failed(error)) => {
                    self.ended = true;
                    return self.ended_meanwhile(error).await;
                }
            }
        }
    }

    /// The session may have ended while we were away: then that is the news.
    async fn ended_meanwhile(&self, error: ClientError) -> Result<AttachEvent, ClientError> {
        if error.kind() != FaultKind::SessionClosed {
            return Err(error);
        }
        let params = InfoParams::of(&self.params.session);
        let info = self.client.call::<method::SessionInfo>(&params).await?;
        info.exit.map(AttachEvent::Exit).ok_or(error)
    }
}

impl Outbox {
    fn push(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// Writes what the socket takes now.
    fn write(&mut self, stream: &UnixStream) -> io::Result<()> {
        while let Some(frame) = self.frames.front() {
            match stream.try_write(&frame[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.written == frame.len() {
                self.bytes -= frame.len();
                self.written = 0;
                self.frames.pop_front();
            }
        }
        Ok(())
    }
}
