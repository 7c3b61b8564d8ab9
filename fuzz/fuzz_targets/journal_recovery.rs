//! Recovery and replay of a journal whose ring, pipe and files were damaged in
//! any way: never a panic, never items out of order, and the session goes on.
//!
//! `cargo +nightly fuzz run journal_recovery -- -max_total_time=60`
//! The input is a list of damages to a sound journal, so that the interesting
//! places are a few bytes away.
#![no_main]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use greenroom_engine::journal::{
    Budget, Item, Journal, Limits, Note, RING_BYTES, ReplayFrom, RingFds, Spiller, open_ended,
};
use greenroom_term::Size;
use libfuzzer_sys::fuzz_target;
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

/// Bytes of the ring in front of its data.
const RING_FRONT: usize = 20 * 1024;
const LIMITS: Limits = Limits { session_bytes: 1 << 20, segment_bytes: 4096 };

static SPILLER: LazyLock<Spiller> = LazyLock::new(|| Spiller::start(Budget::default()).unwrap());

fn size() -> Size {
    Size::new(80, 24).unwrap()
}

fn memfd() -> OwnedFd {
    let ring = rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&ring, RING_BYTES as u64).unwrap();
    ring
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

fn scratch() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

/// A journal as a kill leaves it: three segments, notes, bytes not yet spilled.
struct Sound {
    ring: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let dir = scratch();
    let (ring, (pipe_read, pipe_write), (master, slave)) = (memfd(), pipe(), pipe());
    let fds = RingFds { pipe_read, pipe_write, ring: ring.try_clone().unwrap() };
    let mut journal = Journal::create(dir.path(), fds, LIMITS, &SPILLER, size()).unwrap();
    for segment in 0..3 {
        if segment > 0 {
            journal.roll(b"\x1b[2J".to_vec(), size());
        }
        rustix::io::write(&slave, &[b'a' + segment; 5000]).unwrap();
        journal.pump(master.as_fd(), 1 << 20);
        journal.note(Note::Mark("mark".into()));
        journal.note(Note::Input { len: 3 });
        assert!(SPILLER.flush_all(Duration::from_secs(5)));
    }
    let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    });
    let files = files.collect();
    rustix::io::write(&slave, b"not in a file yet").unwrap();
    journal.pump(master.as_fd(), 1 << 20);
    journal.note(Note::Resize(size()));
    let mut image = vec![0; RING_BYTES];
    std::fs::File::from(ring).read_exact_at(&mut image, 0).unwrap();
    Sound { ring: image, files }
});

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn at(&mut self, len: usize) -> Option<usize> {
        let wanted = u32::from_le_bytes(self.take()?) as usize;
        (len > 0).then(|| wanted % len)
    }
}

struct Damaged {
    ring: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
    in_pipe: Vec<u8>,
}

/// Applies one damage; `None` when the input is used up.
fn damage(state: &mut Damaged, input: &mut Input<'_>) -> Option<()> {
    let [op, which] = input.take()?;
    let names: Vec<String> = state.files.keys().cloned().collect();
    let name = names.get(usize::from(which) % names.len().max(1)).cloned().unwrap_or_default();
    let file = state.files.entry(name.clone()).or_default();
    match op % 8 {
        0 => {
            let word: [u8; 8] = input.take()?;
            let at = usize::from(which % 64) * 8;
            state.ring[at..at + 8].copy_from_slice(&word);
        }
        1 => {
            let at = input.at(RING_FRONT)?;
            state.ring[at] ^= which;
        }
        2 => file.truncate(input.at(file.len() + 1)?),
        3 => {
            if let Some(at) = input.at(file.len()) {
                file[at] ^= which | 1;
            }
        }
        4 => drop(state.files.remove(&name)),
        5 => file.extend_from_slice(&input.take::<16>()?),
        6 => {
            let start = u64::from_le_bytes(input.take()?);
            let ext = ["seg", "idx", "key"][usize::from(which) % 3];
            let bytes = state.files.remove(&name).unwrap_or_default();
            state.files.insert(format!("{start:020}.{ext}"), bytes);
        }
        _ => {
            let n = input.at(16 * 1024)?;
            state.in_pipe = vec![which; n];
        }
    }
    Some(())
}

fn check_order(reader: &greenroom_engine::journal::JournalReader, from: ReplayFrom) {
    let mut at = None;
    let end = reader.replay(from, &mut |item| {
        let (start, end) = match item {
            Item::Output { seq, bytes, .. } => (seq.0, seq.0 + bytes.len() as u64),
            Item::Gap { from, to } => (from.0, to.0),
            Item::Keyframe { seq, .. } | Item::Note { seq, .. } => (seq.0, seq.0),
        };
        assert!(at.is_none_or(|at| at == start), "item at {start}, expected {at:?}");
        at = Some(end);
        ControlFlow::Continue(())
    });
    let end = end.unwrap().0;
    assert!(at.is_none_or(|at| at == end));
}

fuzz_target!(|data: &[u8]| {
    let mut state =
        Damaged { ring: SOUND.ring.clone(), files: SOUND.files.clone(), in_pipe: Vec::new() };
    let mut input = Input(data);
    while damage(&mut state, &mut input).is_some() {}
    state.files.remove("");
    let dir = scratch();
    for (name, bytes) in &state.files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let (ring, (pipe_read, pipe_write), (master, slave)) = (memfd(), pipe(), pipe());
    std::fs::File::from(ring.try_clone().unwrap()).write_all_at(&state.ring, 0).unwrap();
    rustix::io::write(&pipe_write, &state.in_pipe).unwrap();
    if let Ok(reader) = open_ended(dir.path()) {
        check_order(&reader, ReplayFrom::Oldest);
    }
    let fds = RingFds { pipe_read, pipe_write, ring };
    let (mut journal, found) = Journal::recover(dir.path(), fds, LIMITS, &SPILLER, size()).unwrap();
    let tail = journal.span().1;
    assert_eq!(found.tail, tail);
    rustix::io::write(&slave, b"and on").unwrap();
    let pumped = journal.pump(master.as_fd(), 1 << 20);
    assert_eq!(
        journal.bytes(pumped.from, pumped.to).0.len()
            + journal.bytes(pumped.from, pumped.to).1.len(),
        6
    );
    journal.note(Note::Reattached);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(journal.reader().flush(journal.span().1));
    let reader = journal.reader();
    for from in [
        ReplayFrom::Oldest,
        ReplayFrom::LastKeyframe,
        ReplayFrom::KeyframeBefore(tail),
        ReplayFrom::Seq(tail),
        ReplayFrom::Seq(greenroom_engine::Seq(0)),
    ] {
        check_order(&reader, from);
    }
});
