//! Using a session's terminal from this one.
//!
//! In: the user's terminal and an attached stream. Out: the session's bytes on the terminal, keys
//! to the session, and how it ended. The map: [`terminal`] makes the outer terminal raw and puts it
//! back, [`input`] sorts what the user types, [`keys`] knows the prefix, [`watch`] looks at the
//! output on its way, [`writer`] writes it. The client library attaches again after a restart of
//! the daemon, and tells every byte exactly once.
//! Absent on purpose: painting. The host sends bytes for a window of our size.

pub mod input;
pub mod keys;
pub mod terminal;
mod watch;
mod writer;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use greenroom_client::{AttachEvent, AttachStream, Client, method};
use greenroom_protocol::api::screen::{ScrollbackParams, SnapshotFormat, SnapshotParams};
use greenroom_protocol::api::session::{AttachParams, ExitStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::error::Failure;
use crate::host::called;
use input::{Act, InputFilter};
use keys::Prefix;
use terminal::RawMode;
use watch::OutputWatch;
use writer::Writer;

/// How long the last output may take to reach a terminal that does not read.
const FINISH_PATIENCE: Duration = Duration::from_millis(500);
/// How long saying goodbye to the host may take.
const GOODBYE_PATIENCE: Duration = Duration::from_millis(500);
/// Read from the keyboard at once: a large paste in few steps.
const READ_BYTES: usize = 16 * 1024;

/// What the user asked `attach` for.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    pub session: String,
    pub read_only: bool,
    pub exclusive: bool,
    pub prefix: Prefix,
    /// Lines above the session's screen that are printed first, at most.
    pub history: u64,
}

/// Lines of history unless the user says how many.
pub const HISTORY: u64 = 1_000;
/// How long filters that are behind may hold the history up.
const HISTORY_PATIENCE: Duration = Duration::from_secs(2);

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    pub session: String,
    pub how: End,
}

#[derive(Debug)]
pub enum End {
    /// By the user.
    Detached,
    /// By the host: why.
    Dropped(String),
    Exited(ExitStatus),
    /// This process was told to go.
    Signalled(i32),
    /// The terminal is gone.
    HungUp,
}

/// Attaches and stays until something ends it.
pub async fn run(client: &Client, options: &AttachOptions) -> Result<Ended, Failure> {
    let attempt = format!("attach to {}", options.session);
    if !terminal::is_here() {
        let message = format!("cannot {attempt}: stdin and stdout are not both a terminal");
        return Err(Failure::failed(message)
            .hint(format!("read its screen with greenroom read {}", options.session)));
    }
    let window = terminal::window();
    let params = AttachParams {
        session: options.session.clone(),
        read_only: options.read_only,
        size: window,
        since: None,
        client: Some("greenroom attach".to_owned()),
        exclusive: options.exclusive,
    };
    let stream = client.attach(params).await.map_err(|error| called(&attempt, error))?;
    let session = stream.attached().session.clone();
    if is_ourselves(client, &session) {
        let message = format!("cannot {attempt}: this terminal is {session} itself");
        return Err(Failure::failed(message).hint("attach from a terminal outside of it"));
    }
    let signals = Signals::watch()?;
    let raw = RawMode::enter()?;
    let writer = Writer::start()?;
    let rows = window.map_or(24, |size| size.rows);
    // After attaching: by now the session has our size, and with it the lines that are above the
    // screen.
    let history = history(client, &session, options.history).await;
    let opening = [terminal::TITLE_PUSH, &history, &terminal::make_room(rows)].concat();
    // The queue is empty: there is room.
    let _ = writer.queue.try_send(opening);
    let mut view = View {
        stream,
        raw,
        filter: InputFilter::new(options.prefix),
        watch: OutputWatch::default(),
        read_only: options.read_only,
    };
    let how = view.live(&writer, signals).await;
    let View { stream, raw, watch, .. } = view;
    if matches!(how, Ok(End::Detached | End::Signalled(_) | End::HungUp)) {
        // The host notices a closed connection as well.
        let _ = tokio::time::timeout(GOODBYE_PATIENCE, stream.detach()).await;
    }
    writer.finish(FINISH_PATIENCE).await;
    raw.leave(watch.changed_colors());
    how.map(|how| Ended { session, how })
}

/// The newest lines above a session's screen, so that they get into the terminal's own scrollback.
/// Once for each attach: after a restart of the daemon they are there already. Without them the
/// session can be used all the same.
async fn history(client: &Client, session: &str, count: u64) -> Vec<u8> {
    if count == 0 {
        return Vec::new();
    }
    let params = SnapshotParams {
        scrollback: Some(ScrollbackParams { from: 0, count }),
        timeout_ms: u64::try_from(HISTORY_PATIENCE.as_millis()).ok(),
        ..SnapshotParams::new(session, SnapshotFormat::Text)
    };
    match client.call::<method::SessionSnapshot>(&params).await {
        // The lines above belong to the primary screen: beside an alternate one they would mislead.
        Ok(screen) if !screen.alternate_screen => {
            terminal::above(&screen.scrollback.map(|above| above.lines).unwrap_or_default())
        }
        _ => Vec::new(),
    }
}

/// Do we run within the session, on the host, that we are to attach to? It would feed on itself.
pub fn is_ourselves(client: &Client, session: &str) -> bool {
    let is = |name: &str, value: &std::ffi::OsStr| {
        std::env::var_os(name).is_some_and(|own| own == value)
    };
    is("GREENROOM_SESSION", session.as_ref())
        && is(crate::host::SOCKET_VARIABLE, client.path().as_os_str())
}

struct View {
    stream: AttachStream,
    raw: RawMode,
    filter: InputFilter,
    watch: OutputWatch,
    read_only: bool,
}

/// Signals that matter to an attached terminal.
struct Signals {
    window: Signal,
    resumed: Signal,
    term: Signal,
    hup: Signal,
    int: Signal,
}

impl Signals {
    fn watch() -> Result<Signals, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::io("cannot listen to signals", &error));
        Ok(Signals {
            window: listen(SignalKind::window_change())?,
            resumed: listen(SignalKind::from_raw(SIGCONT))?,
            term: listen(SignalKind::terminate())?,
            hup: listen(SignalKind::hangup())?,
            int: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Woken {
        tokio::select! {
            _ = self.window.recv() => Woken::Window,
            _ = self.resumed.recv() => Woken::Resumed,
            _ = self.term.recv() => Woken::Deadly(SignalKind::terminate().as_raw_value()),
            _ = self.hup.recv() => Woken::Deadly(SignalKind::hangup().as_raw_value()),
            _ = self.int.recv() => Woken::Deadly(SignalKind::interrupt().as_raw_value()),
        }
    }
}

/// Not among tokio's named kinds.
const SIGCONT: i32 = rustix::process::Signal::CONT.as_raw();

/// What woke the loop.
enum Woken {
    Event(Option<AttachEvent>),
    Keys(Vec<u8>),
    /// Nothing followed the start of a sequence: it was a key.
    Held,
    /// The writer has taken something.
    Room,
    Window,
    Resumed,
    Deadly(i32),
}

impl View {
    async fn live(&mut self, writer: &Writer, mut signals: Signals) -> Result<End, Failure> {
        let stdin = io::stdin();
        // A terminal stays blocking: its settings belong to everybody who has it open. We ask
        // before each read instead.
        let keyboard = keyboard(&stdin)?;
        let mut hold_until = None;
        loop {
            // We are the only sender: room that is there stays.
            let room = writer.queue.capacity() > 0;
            let woken = tokio::select! {
                keys = read_keys(&keyboard) => Woken::Keys(keys),
                () = at(hold_until) => Woken::Held,
                event = self.stream.next(), if room => {
                    Woken::Event(event.map_err(|error| called("stay attached", error))?)
                }
                permit = writer.queue.reserve(), if !room => match permit {
                    Ok(_) => Woken::Room,
                    // A writer that is gone means that the terminal is.
                    Err(_) => return Ok(End::HungUp),
                },
                woken = signals.next() => woken,
            };
            let end = match woken {
                Woken::Event(event) => self.event(event, writer),
                Woken::Keys(keys) if keys.is_empty() => Some(End::HungUp),
                Woken::Keys(keys) => {
                    let acts = self.filter.feed(&keys);
                    hold_until = self.filter.hold().map(|hold| Instant::now() + hold);
                    self.act(acts, writer).await?
                }
                Woken::Held => {
                    let acts = self.filter.flush();
                    hold_until = None;
                    self.act(acts, writer).await?
                }
                Woken::Room => None,
                Woken::Window => self.resized().await?,
                Woken::Resumed => {
                    self.raw.apply()?;
                    self.resized().await?
                }
                Woken::Deadly(signo) => Some(End::Signalled(signo)),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn event(&mut self, event: Option<AttachEvent>, writer: &Writer) -> Option<End> {
        let write = |bytes: Vec<u8>| {
            // There was room before this event was asked for.
            let _ = writer.queue.try_send(bytes);
        };
        match event {
            None => return Some(End::Dropped("the host ended the stream".to_owned())),
            Some(AttachEvent::Output { bytes, .. }) => {
                self.filter.expect_cursor_reports(self.watch.see(&bytes));
                write(bytes);
            }
            Some(AttachEvent::Keyframe { bytes, .. }) => {
                self.watch.see(&bytes);
                write(terminal::repaint(&bytes));
            }
            Some(AttachEvent::Exit(status)) => return Some(End::Exited(status)),
            Some(AttachEvent::Detach(detach)) => {
                return Some(End::Dropped(detach.message.unwrap_or(detach.reason)));
            }
            Some(
                AttachEvent::Resize { .. } | AttachEvent::Notice(_) | AttachEvent::Reattached(_),
            ) => {}
        }
        None
    }

    async fn act(&mut self, acts: Vec<Act>, writer: &Writer) -> Result<Option<End>, Failure> {
        for act in acts {
            match act {
                Act::Detach => return Ok(Some(End::Detached)),
                // Nothing reaches the session, so the key that always ends things ends this.
                Act::Input(bytes) if self.read_only => {
                    if bytes.contains(&0x03) {
                        return Ok(Some(End::Detached));
                    }
                }
                Act::Input(bytes) => {
                    self.stream
                        .input(&bytes)
                        .await
                        .map_err(|error| called("type into the session", error))?;
                }
                Act::Unknown => {
                    // A bell, if the terminal has room for one.
                    let _ = writer.queue.try_send(b"\x07".to_vec());
                }
            }
        }
        Ok(None)
    }

    async fn resized(&mut self) -> Result<Option<End>, Failure> {
        if let Some(size) = terminal::window() {
            let sent = self.stream.resize(size.cols, size.rows).await;
            sent.map_err(|error| called("tell the session its size", error))?;
        }
        Ok(None)
    }
}

/// Sleeps until then; for ever without a moment.
pub async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The keyboard, to wait for.
#[expect(
    deprecated,
    reason = "its successor is unsafe for descriptors that may be closed; stdin never is"
)]
pub fn keyboard(stdin: &io::Stdin) -> Result<AsyncFd<BorrowedFd<'_>>, Failure> {
    AsyncFd::with_interest(stdin.as_fd(), tokio::io::Interest::READABLE)
        .map_err(|error| Failure::io("cannot read from the terminal", &error))
}

/// What was typed; empty when the terminal is gone.
pub async fn read_keys(keyboard: &AsyncFd<BorrowedFd<'_>>) -> Vec<u8> {
    let now = Timespec::default();
    loop {
        let Ok(mut guard) = keyboard.readable().await else { return Vec::new() };
        let mut fds = [PollFd::new(keyboard.get_ref(), PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&now)), Ok(1..)) {
            guard.clear_ready();
            continue;
        }
        let mut buffer = vec![0; READ_BYTES];
        match rustix::io::read(keyboard.get_ref(), &mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                return buffer;
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return Vec::new(),
        }
    }
}
