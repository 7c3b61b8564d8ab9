//! The journal: a session's one truth, safe against `kill -9` at any instruction.
//!
//! In come a PTY master (bytes) and notes; out go numbered bytes, at once from the ring and later
//! from files. Deliberately absent: the screen (a keyframe is bytes to us), redaction (`egress`),
//! sockets, and fsync: the page cache survives the death of a process, and a crash of the machine
//! ends the sessions whose output this is.
//!
//! ```text
//! master ─splice→ pipe ─readv→ ring ─helper thread→ <start>.seg
//!        (intake)      (ring)  notes ─────────────→ <start>.idx   (spill, files)
//!                              keyframe at a roll → <start>.key
//! ```
//!
//! Rooms: `intake` the steps of a byte and why none is lost · `ring` the memory that outlives us ·
//! `spill` the one helper thread · `files` one session's files · `segment` names and formats ·
//! `record` the index format · `note` what is recorded beside bytes · `notepad` where that is safe
//! at once · `recover` after a kill · `read` views of the past · `evict` the total budget ·
//! `limits` every number.
//!
//! # How the actor drives it
//!
//! On readiness of the master call [`Journal::pump`] until it says `WouldBlock`
//! (only then clear the readiness: it is edge-triggered):
//! * `Short`: a small first read. Deliver it, *then* pump again. The system
//!   call that learns "nothing more" is the same, but it comes after the echo
//!   went out. A 1-byte echo costs splice + read, deliver, splice (EAGAIN).
//! * `Budget`: deliver, yield, pump again.
//! * `RingFull`: deliver, await [`Journal::room`], pump again.
//! * `Closed`: the program is gone and everything it wrote is in.
//! * `Failed`: nothing is lost, what was taken stays in the pipe; retry later.
//!
//! After a pump, and when `progress` fires, roll if [`Journal::roll_due`].
//! When it has been quiet for a while: [`Journal::trim_idle`].
//! At the end: note `Exit`, await [`JournalReader::flush`], drop the journal,
//! then let the keeper release the ring.

mod error;
mod evict;
mod files;
mod intake;
mod limits;
mod note;
mod notepad;
mod read;
mod record;
mod recover;
mod ring;
mod segment;
mod shared;
mod spill;
mod summary;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use greenroom_term::Size;
use tokio::sync::Notify;

use crate::id::Seq;
use crate::lock::lock;
use intake::{Intake, Mode};
use limits::{
    INDEX_ROLL, KEYFRAME_BYTES, NOTE_BYTES, PIPE_BYTES as PIPE, SHORT_BYTES, STALL, WAKE_BYTES,
};
use notepad::Notepad;
use ring::{MAGIC, Ring, VERSION, Word};
use shared::{Roll, Session, Shared};

pub use error::JournalError;
pub use intake::probe_splice;
pub use limits::{Budget, DATA_BYTES, Limits, MARK_BYTES, PIPE_BYTES, RING_BYTES};
pub use note::Note;
pub use read::{Flushed, Item, JournalReader, ReplayFrom, open_ended};
pub use recover::{Lost, Recovered};
pub(crate) use segment::make_dir;
pub use shared::{PauseReason, RecordingState};
pub use spill::{DiskOp, Spiller, SpillerOptions};
pub use summary::{Summary, summarize};

/// What the keeper holds beside a PTY master.
#[derive(Debug)]
pub struct RingFds {
    pub pipe_read: OwnedFd,
    pub pipe_write: OwnedFd,
    /// A memfd of [`RING_BYTES`].
    pub ring: OwnedFd,
}

/// What a pump did: bytes `[from, to)` are new.
#[derive(Debug)]
pub struct Pumped {
    pub from: Seq,
    pub to: Seq,
    pub end: PumpEnd,
}

/// Why a pump stopped; what to do then is in the module doc.
#[derive(Debug)]
pub enum PumpEnd {
    WouldBlock,
    Short,
    Budget,
    RingFull,
    Closed,
    Failed(io::Error),
}

/// The writer. Exactly one owner: the session actor.
pub struct Journal {
    intake: Intake,
    session: Arc<Session>,
    spiller: Spiller,
    /// The ring holds what was output from here on, if not overwritten.
    ring_from: u64,
    notepad: Notepad,
    segment_start: u64,
    full_since: Option<(Instant, u64)>,
    /// Tests drop a journal as a kill does: without a last word.
    dies: bool,
}

impl Journal {
    /// Begins the journal of a new session. The directory is made at once, the files by the helper.
    pub fn create(
        dir: &Path,
        fds: RingFds,
        limits: Limits,
        spiller: &Spiller,
        size: Size,
    ) -> Result<Journal, JournalError> {
        segment::make_dir(dir)
            .map_err(|source| JournalError::MakeDir { dir: dir.into(), source })?;
        let ring = map_ring(dir, fds.ring)?;
        format_ring(&ring, size, 0);
        let intake = Intake::new(ring, fds.pipe_read, fds.pipe_write, 0);
        let shared = Shared::new(dir.into(), 0, 0, 0);
        let first = Roll { at: 0, ord: 0, time_ns: unix_ns(), keyframe: Vec::new(), size };
        let mut journal =
            Journal::assemble(intake, shared, limits, spiller, files::Files::default());
        journal.intake.set_mode(spiller.mode());
        journal.request_roll(first);
        Ok(journal)
    }

    fn assemble(
        intake: Intake,
        shared: Shared,
        limits: Limits,
        spiller: &Spiller,
        files: files::Files,
    ) -> Journal {
        let tail = intake.tail();
        let notepad = Notepad::new(intake.ring(), 0);
        let session = Arc::new(Session {
            id: spiller.next_id(),
            shared: Arc::new(shared),
            ring: intake.ring(),
            limits,
            roll: Mutex::new(None),
            files: Mutex::new(files),
            queued: AtomicU8::new(0),
            closing: AtomicBool::new(false),
        });
        spiller.register(&session);
        Journal {
            intake,
            session,
            spiller: spiller.clone(),
            ring_from: tail,
            notepad,
            segment_start: 0,
            full_since: None,
            dies: false,
        }
    }

    /// Moves output from `master` into the ring until nothing is there, about
    /// `budget` bytes were taken, or the ring is full. Never blocks.
    pub fn pump(&mut self, master: BorrowedFd<'_>, budget: usize) -> Pumped {
        let from = self.intake.tail();
        let (mut left, mut now) = (budget, None);
        let end = loop {
            if self.intake.in_pipe() > 0 {
                // An earlier drain met an error: what it left comes first.
                if let Err(error) = self.intake.finish() {
                    break PumpEnd::Failed(error);
                }
                self.session.shared.tail.store(self.intake.tail(), Ordering::Release);
            }
            if left == 0 {
                break PumpEnd::Budget;
            }
            let room = self.room_bytes();
            if room == 0 {
                break PumpEnd::RingFull;
            }
            let max = PIPE.min(left).min(usize::try_from(room).unwrap_or(PIPE));
            let at = self.intake.tail();
            let pulled = self.intake.pull(master, max, room);
            if self.intake.tail() > at {
                self.notepad.time(at, &mut now);
                // Published inside the loop: the helper may start on a flood.
                self.session.shared.tail.store(self.intake.tail(), Ordering::Release);
            }
            match pulled {
                Ok(0) => break PumpEnd::Closed,
                Ok(n) if left == budget && n < SHORT_BYTES.min(max) => break PumpEnd::Short,
                Ok(n) => left -= n,
                Err(error) => match rustix::io::Errno::from_io_error(&error) {
                    Some(rustix::io::Errno::AGAIN) => break PumpEnd::WouldBlock,
                    // A master whose slave side is closed and read empty.
                    Some(rustix::io::Errno::IO) => break PumpEnd::Closed,
                    Some(rustix::io::Errno::INTR) => {}
                    _ => break PumpEnd::Failed(error),
                },
            }
        };
        let to = self.intake.tail();
        if !matches!(end, PumpEnd::Short) {
            self.ask_for_spill();
        }
        Pumped { from: Seq(from), to: Seq(to), end }
    }

    /// Free bytes of the ring. A full ring on a paused or stalled disk is
    /// given up in part: the PTY never waits for a disk.
    fn room_bytes(&mut self) -> u64 {
        let ring = &self.session.ring;
        let spilled = ring.load(Word::Spilled);
        let room = ring.data_bytes().saturating_sub(self.intake.tail().saturating_sub(spilled));
        if room > 0 {
            self.full_since = None;
            return room;
        }
        let since = match self.full_since {
            Some((since, at)) if at == spilled => since,
            _ => {
                let now = Instant::now();
                self.full_since = Some((now, spilled));
                now
            }
        };
        if !self.session.shared.paused.load(Ordering::Acquire) && since.elapsed() < STALL {
            return 0;
        }
        self.full_since = None;
        self.give_up(spilled);
        let spilled = self.session.ring.load(Word::Spilled);
        self.session.ring.data_bytes().saturating_sub(self.intake.tail().saturating_sub(spilled))
    }

    /// Gives the older half of a full ring up as a gap. The gap words are stored before `Spilled`
    /// moves: a kill in between finds a gap that recovery honours, never a hole without one.
    fn give_up(&mut self, spilled: u64) {
        let ring = &self.session.ring;
        let to = self.intake.tail() - ring.data_bytes() / 2;
        if ring.load(Word::GapFrom) >= ring.load(Word::GapTo) {
            // Closed. `from` first: (new, old) still reads as closed.
            ring.store(Word::GapFrom, spilled);
            ring.store(Word::GapTo, spilled);
        }
        ring.store(Word::GapTo, to);
        // The helper may have finished a write meanwhile; what it wrote inside
        // the gap stays given up.
        ring.word(Word::Spilled).fetch_max(to, Ordering::AcqRel);
    }

    /// Records `note` at the current sequence number and time. It survives a
    /// kill from the moment this returns (see `notepad` for the one exception).
    pub fn note(&mut self, note: Note) {
        if let Note::Exit { .. } = note {
            self.session.shared.ended.store(true, Ordering::Release);
        }
        self.notepad.note(note, self.intake.tail());
        self.ask_for_spill();
    }

    fn ask_for_spill(&mut self) {
        self.notepad.put_waiting();
        if self.session.shared.paused.load(Ordering::Acquire) {
            return; // the helper tries again by itself
        }
        let ring = &self.session.ring;
        let waiting = self.intake.tail().saturating_sub(ring.load(Word::Spilled));
        let notes = ring.load(Word::NoteHead).saturating_sub(ring.load(Word::NoteTail));
        if waiting >= WAKE_BYTES || notes >= NOTE_BYTES as u64 / 4 {
            self.spiller.schedule(&self.session, true);
        } else if waiting > 0 || notes > 0 {
            self.spiller.schedule(&self.session, false);
        }
    }

    /// Bytes `[from, to)` of the last pumps, straight from the ring (in two
    /// parts at the wrap); valid until the next pump. Empty if the ring no
    /// longer has them all, which is a fault of the caller.
    #[allow(unsafe_code, reason = "only the actor writes the ring, and it is borrowed here")]
    pub fn bytes(&self, from: Seq, to: Seq) -> (&[u8], &[u8]) {
        let (oldest, tail) = self.in_ring();
        let held = oldest <= from.0 && from <= to && to.0 <= tail;
        debug_assert!(held, "asked for {from}..{to}, the ring has {oldest}..{tail}");
        if !held {
            return (&[], &[]);
        }
        // SAFETY: only `pump` and `trim_idle` write data, and they need `&mut`.
        unsafe { self.session.ring.data(from.0, to.0) }
    }

    /// At most `most` bytes before `to`, as far as the ring still has them.
    pub fn recent(&self, to: Seq, most: u64) -> Vec<u8> {
        let (oldest, tail) = self.in_ring();
        let from = oldest.max(to.0.saturating_sub(most));
        if from >= to.0 || to.0 > tail {
            return Vec::new();
        }
        let (first, second) = self.bytes(Seq(from), to);
        [first, second].concat()
    }

    /// The bytes that the ring still has.
    fn in_ring(&self) -> (u64, u64) {
        let tail = self.intake.tail();
        (self.ring_from.max(tail.saturating_sub(self.session.ring.data_bytes())), tail)
    }

    /// Whether the newest segment is full, or a keyframe is wanted for another
    /// reason (a gap was recorded, files were lost).
    pub fn roll_due(&self) -> bool {
        let shared = &self.session.shared;
        if shared.roll_pending.load(Ordering::Acquire) {
            return false;
        }
        self.intake.tail() - self.segment_start >= self.session.limits.segment_bytes
            || shared.needs_keyframe.load(Ordering::Acquire)
            || (shared.index_bytes.load(Ordering::Relaxed) >= INDEX_ROLL
                && self.intake.tail() > self.segment_start)
    }

    /// A new segment starts at the current sequence number with this screen.
    /// Old segments over the limits are dropped whole. Done by the helper; a
    /// kill before that means the roll did not happen and is due again.
    pub fn roll(&mut self, keyframe: Vec<u8>, size: Size) {
        if keyframe.len() > KEYFRAME_BYTES {
            tracing::warn!(bytes = keyframe.len(), "keyframe is too large, no new segment");
            return;
        }
        if self.session.shared.roll_pending.load(Ordering::Acquire) {
            return;
        }
        self.notepad.put_waiting();
        let (at, ord) = (self.intake.tail(), self.notepad.next_ord());
        self.segment_start = at;
        self.request_roll(Roll { at, ord, time_ns: unix_ns(), keyframe, size });
    }

    fn request_roll(&mut self, roll: Roll) {
        *lock(&self.session.roll) = Some(roll);
        self.session.shared.roll_pending.store(true, Ordering::Release);
        self.spiller.schedule(&self.session, false);
    }

    /// Oldest byte kept in files, and the end of the output.
    pub fn span(&self) -> (Seq, Seq) {
        (Seq(self.session.shared.oldest.load(Ordering::Acquire)), Seq(self.intake.tail()))
    }

    /// Fires (`notify_waiters`) when the helper did something: room in the
    /// ring, a flush, a change of [`Journal::state`] or of `roll_due`.
    pub fn progress(&self) -> Arc<Notify> {
        Arc::clone(&self.session.shared.progress)
    }

    /// Resolves when a pump that ended `RingFull` may go on: there is room, or
    /// the disk is paused or has stalled long enough to be given up.
    pub fn room(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let session = Arc::clone(&self.session);
        async move {
            let full = |session: &Session| {
                let shared = &session.shared;
                let spilled = session.ring.load(Word::Spilled);
                shared.tail.load(Ordering::Acquire).saturating_sub(spilled)
                    >= session.ring.data_bytes()
                    && !shared.paused.load(Ordering::Acquire)
            };
            let wait = async {
                loop {
                    // Made before the look, so that no wake-up falls between.
                    let progress = session.shared.progress.notified();
                    if !full(&session) {
                        return;
                    }
                    progress.await;
                }
            };
            let _ = tokio::time::timeout(STALL, wait).await;
        }
    }

    pub fn state(&self) -> RecordingState {
        lock(&self.session.shared.state).clone()
    }

    /// Gives the ring's pages back if everything in them is in files. Call it
    /// when a session has been quiet. Returns whether it did.
    pub fn trim_idle(&mut self) -> bool {
        let ring = &self.session.ring;
        let busy = self.intake.mode() == Mode::Scan
            || self.intake.in_pipe() > 0
            || ring.load(Word::Spilled) != self.intake.tail()
            || ring.load(Word::NoteTail) != ring.load(Word::NoteHead);
        if busy || self.ring_from == self.intake.tail() {
            return false;
        }
        match ring.punch() {
            Ok(()) => self.ring_from = self.intake.tail(),
            Err(error) => tracing::debug!(%error, "cannot punch the ring"),
        }
        self.ring_from == self.intake.tail()
    }

    /// A view of the files for others.
    pub fn reader(&self) -> JournalReader {
        JournalReader::live(&self.session, &self.spiller)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.dies {
            return;
        }
        self.notepad.put_waiting();
        self.session.closing.store(true, Ordering::Release);
        self.spiller.schedule(&self.session, true);
    }
}

fn map_ring(dir: &Path, fd: OwnedFd) -> Result<Arc<Ring>, JournalError> {
    let bytes = rustix::fs::fstat(&fd).map_or(0, |found| found.st_size as u64);
    match Ring::map(fd) {
        Ok(Some(ring)) => Ok(Arc::new(ring)),
        Ok(None) => Err(JournalError::RingSize { dir: dir.into(), bytes }),
        Err(source) => Err(JournalError::MapRing { dir: dir.into(), source }),
    }
}

/// Writes a fresh control page that starts at `tail`. The magic goes last: a
/// kill in here leaves a ring that recovery treats as never begun.
fn format_ring(ring: &Ring, size: Size, tail: u64) {
    ring.store(Word::Magic, 0);
    ring.store(Word::Version, VERSION);
    ring.store(Word::DataBytes, ring.data_bytes());
    ring.store(Word::Mode, Mode::Pipe as u64);
    ring.store(Word::Size, u64::from(size.cols()) << 16 | u64::from(size.rows()));
    ring.store(Word::Tail, intake::pack(tail, false));
    ring.store(Word::Spilled, tail);
    for word in [Word::NoteHead, Word::NoteTail, Word::GapFrom, Word::GapTo, Word::ScanEnd] {
        ring.store(word, 0);
    }
    ring.store(Word::Magic, MAGIC);
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
