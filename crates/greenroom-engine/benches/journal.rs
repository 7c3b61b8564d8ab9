//! The journal's pump beside a bare read from the same kind of PTY.
//!
//! `cargo bench -p greenroom-engine --bench journal [-- seconds-per-cell]` Contenders take turns
//! within each round; medians of the rounds are printed, and their ratio to the bare reader of the
//! same termios. A SCHED_IDLE spinner per core keeps the cores awake (an idle vCPU halves PTY
//! throughput). Trust ratios of one run, not digits.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use greenroom_engine::journal::{
    Budget, DATA_BYTES, Journal, Limits, PIPE_BYTES, PumpEnd, RING_BYTES, RingFds, Spiller,
};
use greenroom_term::Size;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustix::thread::ClockId;

const ROUNDS: usize = 7;
const ECHOES: u32 = 20_000;

fn pty(raw: bool) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    if raw {
        let mut mode = tcgetattr(&slave).unwrap();
        mode.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &mode).unwrap();
    }
    rustix::io::ioctl_fionbio(&master, true).unwrap();
    (master, slave)
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Something that empties a master.
trait Reader {
    /// Takes what is there; bytes taken, and whether more may be there.
    fn take(&mut self, master: &OwnedFd) -> (u64, bool);
}

struct Bare(Vec<u8>);

impl Reader for Bare {
    fn take(&mut self, master: &OwnedFd) -> (u64, bool) {
        match rustix::io::read(master, &mut self.0[..]) {
            Ok(n) => (n as u64, true),
            Err(_) => (0, false),
        }
    }
}

struct Pump {
    journal: Journal,
    runtime: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Pump {
    fn new(spiller: &Spiller, data_bytes: usize) -> Pump {
        let dir = tempfile::tempdir().unwrap();
        let (pipe_read, pipe_write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        fcntl_setpipe_size(&pipe_write, PIPE_BYTES).unwrap();
        let ring = rustix::fs::memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&ring, (RING_BYTES - DATA_BYTES + data_bytes) as u64).unwrap();
        let fds = RingFds { pipe_read, pipe_write, ring };
        let size = Size::new(80, 24).unwrap();
        let limits = Limits { session_bytes: 16 << 20, ..Limits::default() };
        let journal =
            Journal::create(&dir.path().join("journal"), fds, limits, spiller, size).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Pump { journal, runtime, _dir: dir }
    }
}

impl Reader for Pump {
    fn take(&mut self, master: &OwnedFd) -> (u64, bool) {
        let pumped = self.journal.pump(master.as_fd(), 64 * 1024);
        if self.journal.roll_due() {
            self.journal.roll(vec![b'k'; 4000], Size::new(80, 24).unwrap());
        }
        let bytes = pumped.to.since(pumped.from);
        match pumped.end {
            PumpEnd::WouldBlock => (bytes, false),
            PumpEnd::RingFull => {
                let room = self.journal.room();
                self.runtime.block_on(room);
                (bytes, true)
            }
            PumpEnd::Short | PumpEnd::Budget => (bytes, true),
            end => panic!("pump ended with {end:?}"),
        }
    }
}

/// Floods a PTY for `span`; MB per second of wall time and of reader CPU.
fn flood(reader: &mut dyn Reader, raw: bool, span: Duration) -> (f64, f64) {
    let (master, slave) = pty(raw);
    let stop = Arc::new(AtomicBool::new(false));
    let flooder = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let line = b"the quick brown fox jumps over the lazy dog, and again, and again\n";
            let block = line.repeat(1000);
            while !stop.load(Ordering::Acquire) {
                let mut rest = &block[..];
                while !rest.is_empty() {
                    rest = &rest[rustix::io::write(&slave, rest).unwrap()..];
                }
            }
            slave
        })
    };
    let (start, start_cpu, mut bytes) = (Instant::now(), cpu(), 0);
    let mut figures = None;
    loop {
        let (n, more) = reader.take(&master);
        bytes += n;
        if figures.is_none() && start.elapsed() >= span {
            let per = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
            figures = Some((per(start.elapsed()), per(cpu() - start_cpu)));
            stop.store(true, Ordering::Release);
        }
        match figures {
            Some(figures) if !more && flooder.is_finished() => {
                drop(flooder.join());
                return figures;
            }
            _ if !more => {
                let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                let _ = poll(&mut [PollFd::new(&master, PollFlags::IN)], Some(&soon));
            }
            _ => {}
        }
    }
}

/// Reader CPU per one-byte echo, ns, the look that finds nothing more included.
fn echo(reader: &mut dyn Reader) -> f64 {
    let (master, slave) = pty(true);
    let mut spent = Duration::ZERO;
    for _ in 0..ECHOES {
        rustix::io::write(&slave, b"x").unwrap();
        poll(&mut [PollFd::new(&master, PollFlags::IN)], None).unwrap();
        let start = cpu();
        while reader.take(&master).1 {}
        spent += cpu() - start;
    }
    spent.as_nanos() as f64 / f64::from(ECHOES)
}

/// Keeps the cores awake while it lives.
struct Spinners(Vec<Child>);

impl Spinners {
    fn start() -> Spinners {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            Command::new("chrt")
                .args(["-i", "0", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
        };
        Spinners((0..cores).filter_map(|_| spin().ok()).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let span = std::env::args().filter_map(|arg| arg.parse::<f64>().ok()).next().unwrap_or(0.3);
    let span = Duration::from_secs_f64(span);
    let spinners = Spinners::start();
    println!("{} spinners, {ROUNDS} rounds of {span:?}, medians", spinners.0.len());
    let sizes = [64, 128, 256, 512];
    for raw in [false, true] {
        let mut wall = vec![Vec::new(); 1 + sizes.len()];
        let mut per_cpu = wall.clone();
        for _ in 0..ROUNDS {
            for (i, size) in std::iter::once(&0).chain(&sizes).enumerate() {
                let figures = if i == 0 {
                    flood(&mut Bare(vec![0; 64 * 1024]), raw, span)
                } else {
                    let spiller = Spiller::start(Budget::default()).unwrap();
                    flood(&mut Pump::new(&spiller, size * 1024), raw, span)
                };
                wall[i].push(figures.0);
                per_cpu[i].push(figures.1);
            }
        }
        let wall: Vec<f64> = wall.into_iter().map(median).collect();
        let per_cpu: Vec<f64> = per_cpu.into_iter().map(median).collect();
        let name = if raw { "raw" } else { "OPOST" };
        println!("{name}: bare {:.0} MB/s wall, {:.0} MB per CPU second", wall[0], per_cpu[0]);
        for (i, size) in sizes.iter().enumerate() {
            let (w, c) = (wall[i + 1] / wall[0], per_cpu[i + 1] / per_cpu[0]);
            println!("{name}: journal, ring {size} KiB: wall {w:.2}, CPU {c:.2} of bare");
        }
    }
    let spiller = Spiller::start(Budget::default()).unwrap();
    let (mut bare, mut pumps) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bare.push(echo(&mut Bare(vec![0; 4096])));
        pumps.push(echo(&mut Pump::new(&spiller, DATA_BYTES)));
    }
    println!(
        "echo of 1 byte, reader CPU: bare {:.0} ns, journal {:.0} ns",
        median(bare),
        median(pumps)
    );
}
