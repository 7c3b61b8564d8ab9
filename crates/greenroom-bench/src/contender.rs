//! What every contender must do, so that the rounds can treat them alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use greenroom_bench::payload::Kind;

/// Keys that occur in no escape sequence a terminal host sends for a plain line.
pub const KEYS: &[u8] = b"QVWYjqvz";

/// One drain: how long from the start signal until every byte had arrived, and what the host paid.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    pub wall: Duration,
    pub cpu: Duration,
    pub bytes: u64,
}

impl Drained {
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.wall.as_secs_f64()
    }

    pub fn mb_per_cpu_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.cpu.as_secs_f64()
    }
}

/// A host of terminals.
pub trait Contender {
    fn name(&self) -> &'static str;

    /// Drains one flood with nobody watching.
    fn drain(&mut self, kind: Kind, bytes: usize, raw: bool) -> Result<Drained>;

    /// Drains `count` floods of `bytes` each at once.
    fn drain_many(&mut self, count: usize, bytes: usize) -> Result<Drained>;

    /// Time of each key from being typed to being seen.
    fn echo(&mut self, keys: usize) -> Result<Vec<Duration>>;

    /// Time of each start of a program until its first byte is seen; each is ended before the next.
    fn create(&mut self, count: usize) -> Result<Vec<Duration>>;
}

/// A contender that is a server: it holds sessions and answers questions.
pub trait Host: Contender {
    /// The processes that make it up.
    fn pids(&mut self) -> Result<Vec<u32>>;

    /// Starts idle sessions that stay.
    fn hold(&mut self, count: usize) -> Result<()>;

    /// Ends what `hold` started.
    fn let_go(&mut self) -> Result<()>;

    /// Takes `count` text snapshots of a filled screen, one after the other.
    fn snapshots(&mut self, count: usize) -> Result<Duration>;

    /// Delay of each pushed piece of output, from the program's write to its arrival here.
    fn pushed(&mut self, count: usize, every_us: u64) -> Result<Vec<Duration>>;
}

/// The command lines of the programs that run inside: this binary under other verbs.
#[derive(Clone)]
pub struct Programs {
    pub exe: PathBuf,
}

impl Programs {
    fn argv(&self, args: &[&str]) -> Vec<String> {
        let exe = self.exe.to_string_lossy().into_owned();
        std::iter::once(exe).chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    }

    pub fn flood(&self, kind: Kind, bytes: usize, raw: bool, finish: Option<&Path>) -> Vec<String> {
        let bytes = bytes.to_string();
        let finish = finish.map(|path| path.to_string_lossy().into_owned());
        let mut args = vec!["flood", "--kind", kind.name(), "--bytes", &bytes];
        if raw {
            args.push("--raw");
        }
        if let Some(finish) = &finish {
            args.extend(["--finish", finish]);
        }
        self.argv(&args)
    }

    pub fn echo(&self) -> Vec<String> {
        self.argv(&["echo"])
    }

    pub fn hello(&self) -> Vec<String> {
        self.argv(&["hello"])
    }

    pub fn page(&self) -> Vec<String> {
        self.argv(&["page"])
    }

    pub fn tick(&self, count: usize, every_us: u64) -> Vec<String> {
        self.argv(&["tick", "--count", &count.to_string(), "--every-us", &every_us.to_string()])
    }
}
