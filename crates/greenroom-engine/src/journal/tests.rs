//! The journal against a model: any order of writes, notes, rolls, spills and
//! kills, a kill between any two steps, and nothing is lost or doubled.
//!
//! The helper is driven by hand here, so that a test can die inside a turn; the
//! master is a pipe, so that what comes when is decided by the test. Real PTYs,
//! real threads and real kills are in `tests/it/journal_kill.rs`.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::spill::Disk;
use super::*;

/// Small, so that wraps and full rings are common.
const TEST_DATA: usize = 16 * 1024;

fn size() -> Size {
    Size::new(80, 24).unwrap()
}

/// What the keeper holds: it outlives every daemon of a test.
struct Keeper {
    dir: tempfile::TempDir,
    pipe: (OwnedFd, OwnedFd),
    ring: OwnedFd,
    master: OwnedFd,
    slave: Option<OwnedFd>,
    limits: Limits,
}

impl Keeper {
    fn new(limits: Limits) -> Keeper {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (master, slave) = pipe_with(flags).unwrap();
        let ring = rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&ring, (limits::HEADER_BYTES + TEST_DATA) as u64).unwrap();
        let pipe = pipe_with(flags).unwrap();
        let dir = tempfile::tempdir().unwrap();
        Keeper { dir, pipe, ring, master, slave: Some(slave), limits }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    fn fds(&self) -> RingFds {
        let dup = |fd: &OwnedFd| fd.try_clone().unwrap();
        RingFds {
            pipe_read: dup(&self.pipe.0),
            pipe_write: dup(&self.pipe.1),
            ring: dup(&self.ring),
        }
    }

    fn create(&self, spiller: &Spiller) -> Journal {
        Journal::create(&self.path(), self.fds(), self.limits, spiller, size()).unwrap()
    }

    fn recover(&self, spiller: &Spiller) -> (Journal, Recovered) {
        Journal::recover(&self.path(), self.fds(), self.limits, spiller, size()).unwrap()
    }

    fn write(&self, bytes: &[u8]) {
        let slave = self.slave.as_ref().expect("the program runs");
        assert_eq!(rustix::io::write(slave, bytes), Ok(bytes.len()), "the queue has room");
    }
}

fn kill(mut journal: Journal) {
    journal.dies = true;
}

/// A turn of the helper that dies at its `at`-th step; whether it lived.
fn turn(journal: &Journal, at: u64) -> bool {
    let left = Arc::new(AtomicU64::new(at));
    let hook: spill::FaultHook = Arc::new(move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            std::panic::resume_unwind(Box::new("killed"));
        }
        Ok(())
    });
    let session = &journal.session;
    let turn = || lock(&session.files).turn(session, &Disk(Some(hook)));
    catch_unwind(AssertUnwindSafe(turn)).is_ok()
}

const NEVER: u64 = u64::MAX;

fn settle(journal: &Journal) {
    for _ in 0..100 {
        assert!(turn(journal, NEVER));
        if journal.session.is_flushed(journal.session.goal())
            && !journal.session.shared.roll_pending.load(Ordering::Acquire)
        {
            return;
        }
    }
    panic!("the helper does not come to an end");
}

#[derive(Debug, PartialEq, Eq, Clone)]
enum Seen {
    Keyframe(u64, Vec<u8>),
    Mark(u64, String),
    Resize(u64, Size),
    Other(u64),
    Gap(u64, u64),
}

/// A whole replay: everything but output, and the output with its start.
fn replay(reader: &JournalReader, from: ReplayFrom) -> (Vec<Seen>, u64, Vec<u8>) {
    let (mut seen, mut output, mut first, mut at, mut last_time) = (vec![], vec![], None, None, 0);
    let end = reader.replay(from, &mut |item| {
        let place = match &item {
            Item::Keyframe { seq, bytes, .. } => {
                seen.push(Seen::Keyframe(seq.0, bytes.to_vec()));
                seq.0
            }
            Item::Output { seq, bytes, time_ns } => {
                assert!(!bytes.is_empty());
                assert!(*time_ns >= last_time, "times grow");
                last_time = *time_ns;
                first.get_or_insert(seq.0);
                output.extend_from_slice(bytes);
                assert!(at.is_none_or(|at| at == seq.0), "output at {seq}, expected {at:?}");
                at = Some(seq.0 + bytes.len() as u64);
                return ControlFlow::Continue(());
            }
            Item::Note { seq, note, .. } => {
                seen.push(match note {
                    Note::Mark(text) => Seen::Mark(seq.0, text.clone()),
                    Note::Resize(size) => Seen::Resize(seq.0, *size),
                    _ => Seen::Other(seq.0),
                });
                seq.0
            }
            Item::Gap { from, to } => {
                seen.push(Seen::Gap(from.0, to.0));
                at = Some(to.0);
                return ControlFlow::Continue(());
            }
        };
        assert!(at.is_none_or(|at| at == place), "an item at {place} after output up to {at:?}");
        at = Some(place);
        ControlFlow::Continue(())
    });
    let end = end.unwrap().0;
    assert!(at.is_none_or(|at| at == end), "stopped at {at:?}, said {end}");
    (seen, first.unwrap_or(end), output)
}

/// The byte numbered `seq`: NULs and every other value occur, neighbours and wraps differ.
fn byte(seq: u64) -> u8 {
    let mixed = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    if mixed.is_multiple_of(5) { 0 } else { mixed as u8 }
}

fn stream(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(byte).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize),
    Pump(usize),
    /// Takes bytes and dies after this many of the four steps.
    PumpAndDie(u8),
    Mark,
    Roll,
    Turn,
    /// A turn of the helper that dies at this step.
    TurnAndDie(u64),
    Die,
    Trim,
}

fn some_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => prop_oneof![1usize..10, 1usize..9000].prop_map(Op::Write),
        4 => prop_oneof![Just(64 * 1024usize), 1usize..5000].prop_map(Op::Pump),
        2 => (0u8..5).prop_map(Op::PumpAndDie),
        2 => Just(Op::Mark),
        1 => Just(Op::Roll),
        4 => Just(Op::Turn),
        2 => (0u64..9).prop_map(Op::TurnAndDie),
        1 => Just(Op::Die),
        1 => Just(Op::Trim),
    ];
    proptest::collection::vec(op, 1..60)
}

/// The model: what was written, pumped, noted.
struct Model {
    keeper: Keeper,
    spiller: Spiller,
    journal: Option<Journal>,
    written: u64,
    queued: u64,
    marks: Vec<(u64, String)>,
}

impl Model {
    fn new(limits: Limits, spiller: Spiller) -> Model {
        let keeper = Keeper::new(limits);
        let journal = Some(keeper.create(&spiller));
        Model { keeper, spiller, journal, written: 0, queued: 0, marks: vec![] }
    }

    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().expect("a daemon runs")
    }

    fn die(&mut self) {
        kill(self.journal.take().expect("a daemon runs"));
        let (journal, found) = self.keeper.recover(&self.spiller);
        assert_eq!(found.lost, vec![], "a kill loses nothing");
        let tail = found.tail.0;
        assert!(tail <= self.written);
        self.queued = self.written - tail;
        self.journal = Some(journal);
    }

    fn pump(&mut self, budget: usize) {
        let master = self.keeper.master.try_clone().unwrap();
        let before = self.written - self.queued;
        let journal = self.journal.as_mut().unwrap();
        let pumped = journal.pump(master.as_fd(), budget);
        assert_eq!(pumped.from.0, before);
        let (a, b) = journal.bytes(pumped.from, pumped.to);
        assert_eq!([a, b].concat(), stream(pumped.from.0, pumped.to.0));
        self.queued -= pumped.to.0 - pumped.from.0;
        if let PumpEnd::Failed(error) = pumped.end {
            panic!("pump: {error}");
        }
    }

    fn pump_and_die(&mut self, steps: u8) {
        let master = self.keeper.master.try_clone().unwrap();
        let room = self.journal().room_bytes();
        let intake = &mut self.journal().intake;
        if room > 0
            && steps > 0
            && let Ok(n) = intake.take(master.as_fd(), PIPE.min(room as usize))
        {
            if steps > 1 {
                intake.announce(n as u64);
            }
            if steps > 2 && n > 0 {
                intake.drain().unwrap();
            }
            if steps > 3 && intake.in_pipe() == 0 {
                intake.commit();
            }
        }
        self.die();
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Write(n) => {
                let n = (*n as u64).min(60_000 - self.queued);
                if n > 0 {
                    self.keeper.write(&stream(self.written, self.written + n));
                }
                self.written += n;
                self.queued += n;
            }
            Op::Pump(budget) => self.pump(*budget),
            Op::PumpAndDie(steps) => self.pump_and_die(*steps),
            Op::Mark => {
                let name = format!("m{}", self.marks.len());
                let at = self.written - self.queued;
                self.marks.push((at, name.clone()));
                self.journal().note(Note::Mark(name));
            }
            Op::Roll => {
                let at = self.journal().span().1;
                self.journal().roll(format!("K{at}").into_bytes(), size());
            }
            Op::Turn => assert!(turn(self.journal(), NEVER)),
            Op::TurnAndDie(at) => {
                turn(self.journal(), *at);
                self.die();
            }
            Op::Die => self.die(),
            Op::Trim => {
                self.journal().trim_idle();
            }
        }
    }

    fn finish(&mut self) {
        for _ in 0..100 {
            if self.queued == 0 {
                break;
            }
            self.pump(1 << 20);
            settle(self.journal());
        }
        assert_eq!(self.queued, 0, "everything written comes in");
        settle(self.journal());
        let reader = self.journal().reader();
        let (oldest, tail) = reader.span();
        assert_eq!(tail.0, self.written);
        self.check(&reader, oldest.0);
        let ended = open_ended(&self.keeper.path()).unwrap();
        assert_eq!(ended.span(), (oldest, tail));
        self.check(&ended, oldest.0);
    }

    fn check(&self, reader: &JournalReader, oldest: u64) {
        let (seen, first, output) = replay(reader, ReplayFrom::Oldest);
        assert_eq!(first, oldest.min(self.written));
        assert!(output == stream(oldest, self.written), "the bytes are those written");
        let key = if oldest == 0 { vec![] } else { format!("K{oldest}").into_bytes() };
        assert!(key == b"K0" || seen.first() == Some(&Seen::Keyframe(oldest, key)) || oldest == 0);
        // Marks at the very start may belong to the dropped segment,
        // or be part of its keyframe.
        let kept = |seq: u64| seq > oldest;
        let marks: Vec<_> = seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Mark(seq, text) if kept(*seq) => Some((*seq, text.clone())),
                Seen::Gap(from, to) => panic!("gap {from}..{to}"),
                _ => None,
            })
            .collect();
        let expected: Vec<_> = self.marks.iter().filter(|(seq, _)| kept(*seq)).cloned().collect();
        assert_eq!(marks, expected);
        let middle = oldest + (self.written - oldest) / 2;
        let (_, first, output) = replay(reader, ReplayFrom::Seq(Seq(middle)));
        assert_eq!((first, output.len() as u64), (middle, self.written - middle));
        let (seen, first, output) = replay(reader, ReplayFrom::KeyframeBefore(Seq(middle)));
        assert!(
            matches!(&seen[0], Seen::Keyframe(at, _) if *at == first && first <= middle)
                || output.is_empty()
        );
    }
}

fn limits(session_bytes: u64) -> Limits {
    Limits { session_bytes, segment_bytes: 8 * 1024 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn kills_between_any_two_steps_lose_and_double_nothing(ops in some_ops()) {
        let mut model = Model::new(limits(1 << 30), Spiller::by_hand(false));
        for op in &ops {
            model.run(op);
        }
        model.finish();
    }

    #[test]
    fn the_same_with_drops_from_the_front(ops in some_ops()) {
        let mut model = Model::new(limits(6_000), Spiller::by_hand(false));
        for op in &ops {
            model.run(op);
            if model.journal().roll_due() {
                model.run(&Op::Roll);
            }
        }
        model.finish();
    }
}

#[test]
fn sequences_that_once_failed() {
    for ops in [
        // The bytes were older than the file begun for them.
        vec![Op::Write(1), Op::PumpAndDie(1), Op::Write(1)],
        // A roll without output since the last one emptied its index.
        vec![Op::Write(9), Op::Pump(9), Op::Mark, Op::Turn, Op::Roll, Op::Turn, Op::Roll, Op::Mark],
    ] {
        let mut model = Model::new(limits(1 << 30), Spiller::by_hand(false));
        ops.iter().for_each(|op| model.run(op));
        model.finish();
    }
}

#[test]
fn the_fallback_loses_only_trailing_nuls() {
    let keeper = Keeper::new(limits(1 << 30));
    let spiller = Spiller::by_hand(true);
    let mut journal = keeper.create(&spiller);
    for (text, kept) in [(&b"one\0two"[..], 7), (b"three\0\0", 5), (b"", 0)] {
        let at = journal.span().1.0;
        // A read that died with its count: armed, bytes in place, not committed.
        journal.intake.arm(at + 4096);
        #[allow(unsafe_code, reason = "plays the kernel's part of a read")]
        // SAFETY: the room was armed for exactly this.
        let (a, b) = unsafe { journal.session.ring.data_mut(at, at + text.len() as u64) };
        let split = a.len();
        a.copy_from_slice(&text[..split]);
        b.copy_from_slice(&text[split..]);
        kill(journal);
        let (next, found) = keeper.recover(&spiller);
        assert_eq!((found.tail.0 - at, found.lost), (kept, vec![]));
        journal = next;
    }
    keeper.write(b"and on");
    let pumped = journal.pump(keeper.master.as_fd(), 1 << 20);
    assert_eq!(journal.bytes(pumped.from, pumped.to).0, b"and on");
    settle(&journal);
    let (_, _, output) = replay(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(output, b"one\0twothreeand on");
}

fn pumped_and_settled(keeper: &Keeper, journal: &mut Journal, to: u64) {
    let at = journal.span().1.0;
    for from in (at..to).step_by(8 * 1024) {
        keeper.write(&stream(from, to.min(from + 8 * 1024)));
        let mut end = journal.pump(keeper.master.as_fd(), 1 << 20).end;
        while !matches!(end, PumpEnd::WouldBlock) {
            end = journal.pump(keeper.master.as_fd(), 1 << 20).end;
        }
        settle(journal);
    }
}

/// Breaks something of a stopped journal, recovers, and gives what was said.
fn recover_after(damage: impl FnOnce(&Path, &Ring)) -> (Keeper, Journal, Recovered) {
    let keeper = Keeper::new(limits(1 << 30));
    let spiller = Spiller::by_hand(false);
    let mut journal = keeper.create(&spiller);
    pumped_and_settled(&keeper, &mut journal, 20_000);
    journal.roll(b"K20000".to_vec(), size());
    settle(&journal);
    pumped_and_settled(&keeper, &mut journal, 30_000);
    journal.note(Note::Mark("here".into()));
    settle(&journal);
    damage(&keeper.path(), &journal.session.ring);
    kill(journal);
    let (journal, found) = keeper.recover(&spiller);
    (keeper, journal, found)
}

fn gaps(journal: &mut Journal) -> Vec<Seen> {
    settle(journal);
    let (seen, ..) = replay(&journal.reader(), ReplayFrom::Oldest);
    seen.into_iter().filter(|seen| matches!(seen, Seen::Gap(..))).collect()
}

fn cut(path: &Path, len: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn a_truncated_segment_is_a_gap_and_is_reported() {
    let (_keeper, mut journal, found) =
        recover_after(|dir, _| cut(&segment::path(dir, 20_000, segment::SEG), 4_000));
    assert_eq!(found.lost, vec![Lost::Bytes { from: Seq(24_000), to: Seq(30_000) }]);
    assert_eq!(gaps(&mut journal), vec![Seen::Gap(24_000, 30_000)]);
    assert!(journal.roll_due(), "a keyframe makes the screen exact again");
    let (_keeper, mut journal, found) =
        recover_after(|dir, _| cut(&segment::path(dir, 0, segment::SEG), 100));
    assert_eq!(found.lost, vec![Lost::Bytes { from: Seq(100), to: Seq(20_000) }]);
    assert_eq!(gaps(&mut journal), vec![Seen::Gap(100, 20_000)]);
}

#[test]
fn a_torn_index_costs_its_torn_record_only() {
    let (_keeper, mut journal, found) = recover_after(|dir, _| {
        let path = segment::path(dir, 20_000, segment::IDX);
        let len = path.metadata().unwrap().len();
        cut(&path, len - 5);
    });
    assert_eq!(found.lost, vec![], "a torn tail is what a kill leaves");
    journal.note(Note::Mark("after".into()));
    settle(&journal);
    let (seen, _, output) = replay(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(output.len(), 30_000);
    assert!(!seen.contains(&Seen::Mark(30_000, "here".into())), "it was cut");
    assert!(seen.contains(&Seen::Mark(30_000, "after".into())), "the index goes on");
}

#[test]
fn a_damaged_index_or_key_is_reported_and_the_bytes_stay() {
    let (_keeper, mut journal, found) = recover_after(|dir, _| {
        std::fs::write(segment::path(dir, 20_000, segment::IDX), [7; 999]).unwrap();
        std::fs::remove_file(segment::path(dir, 20_000, segment::KEY)).unwrap();
        std::fs::write(dir.join("notes.txt"), "not ours").unwrap();
    });
    let start = Seq(20_000);
    let expected =
        [Lost::Foreign { files: 1 }, Lost::Index { start, bytes: 999 }, Lost::Keyframe { start }];
    assert_eq!(found.lost, expected);
    assert_eq!(gaps(&mut journal), vec![]);
    let (seen, first, output) = replay(&journal.reader(), ReplayFrom::LastKeyframe);
    assert_eq!((first, output.len()), (0, 30_000), "the keyframe before is used");
    assert_eq!(seen[0], Seen::Keyframe(0, vec![]));
    assert!(journal.roll_due());
}

#[test]
fn a_wild_ring_is_reported_and_the_files_stay() {
    for (word, value) in [
        (Word::Magic, 1),
        (Word::Version, 9),
        (Word::Tail, u64::MAX),
        (Word::Tail, intake::pack(29_999, false)),
        (Word::Tail, intake::pack(30_000 + TEST_DATA as u64 + 1, false)),
        (Word::Spilled, u64::MAX),
        (Word::Spilled, 1),
        (Word::DataBytes, 4096),
        (Word::GapTo, u64::MAX),
    ] {
        let (keeper, mut journal, found) = recover_after(|_, ring| ring.store(word, value));
        assert_eq!(found.lost, vec![Lost::Ring], "{word:?} = {value}");
        assert_eq!(found.tail, Seq(30_000));
        keeper.write(b"on");
        journal.pump(keeper.master.as_fd(), 100);
        settle(&journal);
        let (_, _, output) = replay(&journal.reader(), ReplayFrom::Oldest);
        assert_eq!(output, [stream(0, 30_000), b"on".to_vec()].concat(), "{word:?} = {value}");
    }
}

#[test]
fn a_segment_from_beyond_the_end_is_set_aside() {
    let (keeper, mut journal, found) = recover_after(|dir, _| {
        std::fs::write(segment::path(dir, 99_999, segment::SEG), "?").unwrap();
    });
    assert_eq!(found.lost, vec![Lost::SetAside { start: Seq(99_999) }]);
    assert_eq!(gaps(&mut journal), vec![]);
    assert!(keeper.path().join("00000000000000099999.seg.set-aside").exists());
}

#[test]
fn links_are_not_followed() {
    let (keeper, journal, found) = recover_after(|dir, _| {
        let seg = segment::path(dir, 20_000, segment::SEG);
        std::fs::rename(&seg, dir.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(dir.join("elsewhere"), &seg).unwrap();
    });
    assert!(found.lost.contains(&Lost::Foreign { files: 2 }), "{:?}", found.lost);
    settle(&journal);
    let before = std::fs::read(keeper.path().join("elsewhere")).unwrap();
    assert_eq!(before, stream(20_000, 30_000), "nothing was written through it");
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (keeper, journal, _) = recover_after(|_, _| {});
    settle(&journal);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&keeper.path()), 0o700);
    let mut files = 0;
    for entry in std::fs::read_dir(keeper.path()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
        files += 1;
    }
    assert_eq!(files, 6);
}

#[test]
fn a_gap_opened_just_before_the_kill_counts() {
    // The actor had stored the gap, but not yet moved `Spilled`.
    let keeper = Keeper::new(limits(1 << 30));
    let spiller = Spiller::by_hand(false);
    let mut journal = keeper.create(&spiller);
    pumped_and_settled(&keeper, &mut journal, 5_000);
    keeper.write(&stream(5_000, 9_000));
    journal.pump(keeper.master.as_fd(), 1 << 20);
    journal.session.ring.store(Word::GapFrom, 5_000);
    journal.session.ring.store(Word::GapTo, 6_000);
    kill(journal);
    let (mut journal, found) = keeper.recover(&spiller);
    assert_eq!((found.tail, found.unspilled), (Seq(9_000), 3_000));
    assert_eq!(gaps(&mut journal), vec![Seen::Gap(5_000, 6_000)]);
}

#[test]
fn a_removed_directory_is_noticed_and_recording_resumes_at_a_roll() {
    let (keeper, mut journal, _) = recover_after(|_, _| {});
    settle(&journal);
    std::fs::remove_dir_all(keeper.path()).unwrap();
    lock(&journal.session.files).look_again();
    let session = Arc::clone(&journal.session);
    let turn = || lock(&session.files).turn(&session, &Disk(None));
    assert_eq!(turn(), Err(PauseReason::Removed));
    assert_eq!(turn(), Err(PauseReason::AwaitingKeyframe));
    assert!(journal.roll_due());
    keeper.write(b"lost with the files");
    journal.pump(keeper.master.as_fd(), 1 << 20);
    let at = journal.span().1.0;
    journal.roll(b"again".to_vec(), size());
    settle(&journal);
    keeper.write(b"kept");
    journal.pump(keeper.master.as_fd(), 1 << 20);
    settle(&journal);
    assert_eq!(journal.span().0.0, at);
    let (seen, first, output) = replay(&journal.reader(), ReplayFrom::Seq(Seq(0)));
    assert_eq!(seen[..2], [Seen::Gap(0, at), Seen::Keyframe(at, b"again".to_vec())]);
    assert_eq!((first, output), (at, b"kept".to_vec()));
}

#[test]
fn a_segment_begins_exactly_where_it_was_rolled() {
    let keeper = Keeper::new(limits(1 << 30));
    let mut journal = keeper.create(&Spiller::by_hand(false));
    pumped_and_settled(&keeper, &mut journal, 1_000);
    journal.roll(b"K1000".to_vec(), size());
    // More comes before the helper gets to it.
    keeper.write(&stream(1_000, 1_500));
    journal.pump(keeper.master.as_fd(), 1 << 20);
    settle(&journal);
    let (seen, first, output) = replay(&journal.reader(), ReplayFrom::LastKeyframe);
    assert_eq!(seen, [Seen::Keyframe(1_000, b"K1000".to_vec())]);
    assert!(first == 1_000 && output == stream(1_000, 1_500));
}

#[test]
fn notes_survive_a_kill_and_come_once() {
    let keeper = Keeper::new(limits(1 << 30));
    let spiller = Spiller::by_hand(false);
    let mut journal = keeper.create(&spiller);
    let small = Size::new(40, 10).unwrap();
    journal.note(Note::Resize(small));
    journal.note(Note::Exit { code: Some(1), signal: None });
    for at in 0..8 {
        turn(&journal, at);
        kill(journal);
        journal = keeper.recover(&spiller).0;
    }
    settle(&journal);
    let (seen, ..) = replay(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(seen, [Seen::Keyframe(0, vec![]), Seen::Resize(0, small), Seen::Other(0)]);
}

#[test]
fn notes_beyond_the_area_wait_and_lost_ones_are_counted() {
    let keeper = Keeper::new(limits(1 << 30));
    let mut journal = keeper.create(&Spiller::by_hand(false));
    let names: Vec<String> = (0..40).map(|n| format!("{n:02}").repeat(400)).collect();
    for name in &names {
        journal.note(Note::Mark(name.clone()));
        journal.note(Note::Input { len: 1 });
    }
    // Each turn makes room, each look at the notepad uses it.
    for _ in 0..5 {
        settle(&journal);
        journal.notepad.put_waiting();
    }
    journal.note(Note::Input { len: 2 });
    settle(&journal);
    let (seen, ..) = replay(&journal.reader(), ReplayFrom::Oldest);
    let expected: Vec<Seen> = names.iter().map(|name| Seen::Mark(0, name.clone())).collect();
    let marks: Vec<Seen> =
        seen.iter().filter(|seen| matches!(seen, Seen::Mark(..))).cloned().collect();
    assert!(marks == expected, "{} of {} marks", marks.len(), expected.len());
    let (mut inputs, mut lost) = (0, 0);
    let reader = journal.reader();
    let count = reader.replay(ReplayFrom::Oldest, &mut |item| {
        match item {
            Item::Note { note: Note::Input { .. }, .. } => inputs += 1,
            Item::Note { note: Note::Lost(count), .. } => lost += count,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert!(count.is_ok());
    assert!(lost > 0);
    assert_eq!(inputs + lost, 41);
}

#[test]
fn idle_rings_give_their_pages_back() {
    let keeper = Keeper::new(limits(1 << 30));
    let spiller = Spiller::by_hand(false);
    let mut journal = keeper.create(&spiller);
    keeper.write(&stream(0, 9_000));
    journal.pump(keeper.master.as_fd(), 1 << 20);
    assert!(!journal.trim_idle(), "not while bytes are only here");
    settle(&journal);
    let blocks = || rustix::fs::fstat(&keeper.ring).unwrap().st_blocks * 512;
    assert!(blocks() > 8192);
    assert!(journal.trim_idle());
    assert_eq!(blocks(), 4096, "the control page stays");
    pumped_and_settled(&keeper, &mut journal, 20_000);
    let (_, _, output) = replay(&journal.reader(), ReplayFrom::Oldest);
    assert!(output[9_000..] == stream(9_000, 20_000)[..], "and it works on");
}
