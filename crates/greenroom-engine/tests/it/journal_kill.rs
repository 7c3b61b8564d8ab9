//! Real kills: a child process pumps from a flooded PTY and is SIGKILLed at a
//! random microsecond, again and again; this process holds the fds as the
//! keeper does. At the end every byte must be there, once, in order.
//!
//! A series: `make soak` kills more often.
#![allow(unsafe_code, reason = "inherited fds have no owner but their number")]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use greenroom_engine::journal::{
    Budget, Flushed, Journal, Limits, Note, PumpEnd, ReplayFrom, RingFds, Spiller,
};
use rustix::event::{PollFd, PollFlags, poll};
use test_kit::series::{Series, series};

use crate::journal_stage::{Stage, size, stream, verify};

const CHILD: &str = "GREENROOM_TEST_JOURNAL_CHILD";

fn limits(session_bytes: u64) -> Limits {
    Limits { session_bytes, segment_bytes: 128 * 1024 }
}

/// Pumps until nothing is there or `stop` says so.
fn pump_all(journal: &mut Journal, master: &OwnedFd, stop: impl Fn() -> bool) {
    loop {
        let pumped = journal.pump(master.as_fd(), 64 * 1024);
        if journal.roll_due() {
            journal.roll(vec![b'k'; 2000], size());
        }
        match pumped.end {
            PumpEnd::WouldBlock if stop() => return,
            PumpEnd::WouldBlock => {
                poll(&mut [PollFd::new(master, PollFlags::IN)], None).unwrap();
            }
            PumpEnd::RingFull => std::thread::yield_now(),
            PumpEnd::Short | PumpEnd::Budget => {}
            end => panic!("pump ended with {end:?}"),
        }
    }
}

/// Not a test by itself: what the killed process runs.
#[test]
fn child() {
    let Ok(spec) = std::env::var(CHILD) else { return };
    let mut words = spec.splitn(8, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    // SAFETY: the parent left these open for us, and nobody else owns them.
    let mut fd = || unsafe { OwnedFd::from_raw_fd(number() as i32) };
    let (master, pipe_read, pipe_write, ring, ready) = (fd(), fd(), fd(), fd(), fd());
    let (round, session_bytes) = (number(), number());
    let dir = PathBuf::from(words.next().unwrap());
    let fds = RingFds { pipe_read, pipe_write, ring };
    let spiller = Spiller::start(Budget::default()).unwrap();
    rustix::io::write(&ready, b"r").unwrap();
    let (mut journal, found) =
        Journal::recover(&dir, fds, limits(session_bytes), &spiller, size()).unwrap();
    if !found.lost.is_empty() {
        rustix::io::write(&ready, format!("{:?}", found.lost).as_bytes()).unwrap();
        std::process::exit(3);
    }
    journal.note(Note::Mark(format!("{round:06}")));
    pump_all(&mut journal, &master, || false);
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Starts a child, lets it live for `life`, kills it, reaps it.
fn kill_one(stage: &Stage, round: u64, session_bytes: u64, life: Duration) {
    let (ready, ready_child) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let inherited = [&stage.master, &stage.pipe.0, &stage.pipe.1, &stage.ring, &ready_child]
        .map(|fd| rustix::io::dup(fd).unwrap());
    let numbers: Vec<String> = inherited.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    let spec = format!("{} {round} {session_bytes} {}", numbers.join(" "), stage.dir.display());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["journal_kill::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, spec)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop((inherited, ready_child));
    let mut byte = [0; 512];
    assert_eq!(rustix::io::read(&ready, &mut byte[..1]), Ok(1), "the child did not start");
    let born = Instant::now();
    while born.elapsed() < life {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let said = rustix::io::read(&ready, &mut byte).unwrap();
    let said = String::from_utf8_lossy(&byte[..said]).into_owned();
    assert_eq!(status.signal(), Some(9), "round {round}: {status}, lost: {said}");
}

/// Writes the stream to the slave until told to stop; says how far it came.
fn flood(slave: OwnedFd, stop: Arc<AtomicBool>, written: Arc<AtomicU64>) {
    let mut dice = Dice(77);
    let mut at = 0;
    while !stop.load(Ordering::Acquire) {
        let block = stream(at, at + 1 + dice.roll(8000));
        let mut rest = &block[..];
        while !rest.is_empty() {
            let n = rustix::io::write(&slave, rest).unwrap();
            rest = &rest[n..];
            at += n as u64;
            written.store(at, Ordering::Release);
        }
    }
}

fn survive_kills(Series { cases: kills, seed }: Series, session_bytes: u64) {
    let stage = Stage::on_pty();
    let mut dice = Dice(seed | 1);
    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let flooder = {
        let (slave, stop, written) =
            (stage.slave.try_clone().unwrap(), Arc::clone(&stop), Arc::clone(&written));
        std::thread::spawn(move || flood(slave, stop, written))
    };
    let mut in_flight = 0;
    for round in 0..kills {
        let life = Duration::from_micros(dice.roll(8000));
        kill_one(&stage, round, session_bytes, life);
        in_flight += u64::from(rustix::io::ioctl_fionread(&stage.pipe.0).unwrap() > 0);
    }
    stop.store(true, Ordering::Release);
    let spiller = Spiller::start(Budget::default()).unwrap();
    let (mut journal, found) =
        Journal::recover(&stage.dir, stage.fds(), limits(session_bytes), &spiller, size()).unwrap();
    assert_eq!(found.lost, vec![], "seed {seed}");
    pump_all(&mut journal, &stage.master, || flooder.is_finished());
    flooder.join().unwrap();
    pump_all(&mut journal, &stage.master, || true);
    let (oldest, tail) = journal.span();
    assert_eq!(tail.0, written.load(Ordering::Acquire), "seed {seed}");
    let reader = journal.reader();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(runtime.block_on(reader.flush(tail)), Flushed::Done);
    let (gaps, marks) = verify(&reader, ReplayFrom::Oldest);
    assert_eq!(gaps, vec![], "seed {seed}");
    assert!(marks.windows(2).all(|pair| pair[0].1 < pair[1].1), "seed {seed}: {marks:?}");
    assert!(oldest.0 == 0 || session_bytes < tail.0);
    #[allow(clippy::print_stderr, reason = "how hard the test was belongs in its output")]
    {
        eprintln!(
            "{kills} kills, {in_flight} with bytes in the pipe, {tail} bytes, oldest {oldest}"
        );
    }
    assert!(tail.0 > 0 && in_flight > 0, "the kills met nothing in flight");
}

#[test]
fn sigkill_at_random_microseconds_loses_and_doubles_nothing() {
    survive_kills(series("kills of a journal", 100, 2000), u64::MAX);
}

#[test]
fn sigkill_while_segments_roll_and_drop() {
    survive_kills(series("kills of a rolling journal", 60, 1000), 512 * 1024);
}
