//! What the keeper holds for a session, for tests of the journal, and a stream
//! whose every byte is known from its number.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use greenroom_engine::Seq;
use greenroom_engine::journal::{
    Item, Journal, JournalReader, Limits, Note, PIPE_BYTES, PumpEnd, RING_BYTES, ReplayFrom,
    RingFds, Spiller,
};
use greenroom_term::Size;
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The byte numbered `seq`: a fifth of them NUL, all other values too.
pub fn byte(seq: u64) -> u8 {
    let mixed = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    if mixed.is_multiple_of(5) { 0 } else { mixed as u8 }
}

pub fn stream(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(byte).collect()
}

pub fn size() -> Size {
    Size::new(80, 24).unwrap()
}

pub struct Stage {
    pub root: tempfile::TempDir,
    pub dir: PathBuf,
    pub master: OwnedFd,
    pub slave: OwnedFd,
    pub pipe: (OwnedFd, OwnedFd),
    pub ring: OwnedFd,
}

impl Stage {
    /// With a pipe in the place of the PTY: what is written is there at once.
    pub fn on_pipe() -> Stage {
        let (master, slave) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        Stage::with(master, slave)
    }

    /// With a PTY that passes every byte as it is.
    pub fn on_pty() -> Stage {
        let (master, slave) = test_kit::terminal::open(80, 24);
        let mut raw = tcgetattr(&slave).unwrap();
        raw.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &raw).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        Stage::with(master, slave)
    }

    fn with(master: OwnedFd, slave: OwnedFd) -> Stage {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("journal");
        let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        fcntl_setpipe_size(&pipe.1, PIPE_BYTES).unwrap();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let ring = rustix::fs::memfd_create("ring", flags).unwrap();
        rustix::fs::ftruncate(&ring, RING_BYTES as u64).unwrap();
        Stage { root, dir, master, slave, pipe, ring }
    }

    pub fn fds(&self) -> RingFds {
        let dup = |fd: &OwnedFd| fd.try_clone().unwrap();
        RingFds {
            pipe_read: dup(&self.pipe.0),
            pipe_write: dup(&self.pipe.1),
            ring: dup(&self.ring),
        }
    }

    pub fn create(&self, limits: Limits, spiller: &Spiller) -> Journal {
        Journal::create(&self.dir, self.fds(), limits, spiller, size()).unwrap()
    }

    /// Writes the next `n` bytes of the stream and pumps them in.
    pub fn pump_stream(&self, journal: &mut Journal, n: u64) {
        let from = journal.span().1.0;
        for at in (from..from + n).step_by(32 * 1024) {
            let bytes = stream(at, (from + n).min(at + 32 * 1024));
            assert_eq!(rustix::io::write(&self.slave, &bytes), Ok(bytes.len()));
            loop {
                match journal.pump(self.master.as_fd(), 1 << 20).end {
                    PumpEnd::WouldBlock => break,
                    PumpEnd::RingFull => std::thread::yield_now(),
                    PumpEnd::Short | PumpEnd::Budget => {}
                    end => panic!("pump ended with {end:?}"),
                }
            }
        }
    }
}

/// Replays all of it; checks that each byte is the one its number says, and
/// that items come in order. Gives gaps, and marks with their places.
pub type Gaps = Vec<(u64, u64)>;

pub fn verify(reader: &JournalReader, from: ReplayFrom) -> (Gaps, Vec<(u64, String)>) {
    let (mut gaps, mut marks, mut at) = (vec![], vec![], None);
    let mut place = |seq: Seq, to: u64| {
        assert!(at.is_none_or(|at| at == seq.0), "an item at {seq}, expected {at:?}");
        at = Some(to);
    };
    let end = reader.replay(from, &mut |item| {
        match item {
            Item::Output { seq, bytes, .. } => {
                place(seq, seq.0 + bytes.len() as u64);
                let wrong = (seq.0..).zip(bytes).find(|(seq, b)| byte(*seq) != **b);
                assert_eq!(wrong, None, "a wrong byte");
            }
            Item::Gap { from, to } => {
                place(from, to.0);
                gaps.push((from.0, to.0));
            }
            Item::Note { seq, note, .. } => {
                place(seq, seq.0);
                if let Note::Mark(text) = note {
                    marks.push((seq.0, text.clone()));
                }
            }
            Item::Keyframe { seq, .. } => place(seq, seq.0),
        }
        ControlFlow::Continue(())
    });
    let end = end.unwrap();
    assert!(at.is_none_or(|at| at == end.0), "stopped at {at:?}, said {end}");
    assert_eq!(end, reader.span().1, "all of it");
    (gaps, marks)
}
