//! The bare PTY: the limit nobody can pass. One reader that does nothing but read.
//!
//! In: a command. Out: its bytes. No screen, no record, no second reader.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::time::{ClockId, clock_gettime};

use crate::contender::{Contender, Drained, KEYS, Programs};
use crate::programs::{READY, ready_received};
use greenroom_bench::payload::{ANSWER, END, Kind, Payload};

/// A child on a PTY of 80 × 24. Killed and reaped when dropped.
pub struct Terminal {
    pub master: File,
    child: Child,
}

impl Terminal {
    pub fn spawn(argv: &[String]) -> Result<Terminal> {
        Terminal::spawn_with(argv, &[])
    }

    pub fn spawn_with(argv: &[String], env: &[(&str, &str)]) -> Result<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .context("cannot open a PTY")?;
        grantpt(&master).context("cannot grant the PTY")?;
        unlockpt(&master).context("cannot unlock the PTY")?;
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).context("cannot size the PTY")?;
        let name = ptsname(&master, Vec::new()).context("cannot name the PTY")?;
        let slave = rustix::fs::open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .context("cannot open the PTY's other side")?;
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env("TERM", "xterm-256color").envs(env.iter().copied());
        command.stdin(dup(&slave)?).stdout(dup(&slave)?).stderr(slave);
        let child = crate::sys::spawn_on_terminal(&mut command)
            .with_context(|| format!("cannot start {}", argv[0]))?;
        Ok(Terminal { master: File::from(master), child })
    }

    /// Reads until `needle` has come; what comes with it in the same read is dropped.
    pub fn read_until(&mut self, needle: &[u8]) -> Result<()> {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !contains(&seen, needle) {
            let n = self.master.read(&mut buffer).context("the program ended early")?;
            seen.extend_from_slice(&buffer[..n]);
        }
        Ok(())
    }

    /// Throws away what is there now.
    pub fn discard(&mut self) -> Result<()> {
        let mut buffer = [0; 4096];
        while readable(&self.master, Duration::ZERO)? {
            let n = self.master.read(&mut buffer).context("the program ended early")?;
            ensure!(n > 0, "the program ended early");
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Already ended is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dup(fd: &OwnedFd) -> Result<Stdio> {
    Ok(Stdio::from(fd.try_clone().context("cannot duplicate a descriptor")?))
}

/// Whether something can be read within `wait`.
pub fn readable(fd: impl AsFd, wait: Duration) -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let wait = Timespec::try_from(wait).context("a wait is too long")?;
    Ok(poll(&mut fds, Some(&wait)).context("cannot poll")? > 0)
}

pub fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// A program on a bare PTY, with nobody between.
pub struct Bare {
    programs: Programs,
}

impl Bare {
    pub fn new(programs: Programs) -> Bare {
        Bare { programs }
    }
}

/// A flood that waits at its barrier, and what must come out of it.
struct Flood {
    terminal: Terminal,
    expected: u64,
    end: Vec<u8>,
}

impl Flood {
    fn start(programs: &Programs, kind: Kind, bytes: usize, raw: bool) -> Result<Flood> {
        let mut terminal = Terminal::spawn(&programs.flood(kind, bytes, raw, None))?;
        let mut ready = vec![0; usize::try_from(ready_received(raw)).context("ready is short")?];
        terminal.master.read_exact(&mut ready).context("the flooder did not get ready")?;
        ensure!(contains(&ready, READY.trim_end().as_bytes()), "the flooder did not say ready");
        let expected = Payload::new(kind, bytes, raw).received(raw);
        Ok(Flood { terminal, expected, end: format!("{END} {bytes}").into_bytes() })
    }

    fn release(&mut self) -> Result<()> {
        self.terminal.master.write_all(b"\n").context("cannot start the flooder")
    }

    /// Reads everything; the last bytes must hold the end line.
    fn drain(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut received = 0;
        let mut tail: Vec<u8> = Vec::new();
        while received < self.expected {
            let n = self.terminal.master.read(buffer).context("the flood ended early")?;
            if n == 0 {
                bail!("the flood ended after {received} of {} bytes", self.expected);
            }
            received += n as u64;
            if received + 64 > self.expected {
                tail.extend_from_slice(&buffer[n.saturating_sub(64)..n]);
            }
        }
        ensure!(received == self.expected, "{received} bytes came instead of {}", self.expected);
        ensure!(contains(&tail, &self.end), "the end line did not come");
        Ok(())
    }

    /// Lets the program end, as a terminal would.
    fn answer(&mut self) -> Result<()> {
        self.terminal.master.write_all(ANSWER).context("cannot answer the flooder")
    }
}

fn thread_cpu() -> Result<Duration> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).context("the thread's clock is negative")
}

const READ_BUFFER: usize = 64 * 1024;

impl Contender for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn drain(&mut self, kind: Kind, bytes: usize, raw: bool) -> Result<Drained> {
        let mut flood = Flood::start(&self.programs, kind, bytes, raw)?;
        let mut buffer = vec![0; READ_BUFFER];
        let cpu = thread_cpu()?;
        let start = Instant::now();
        flood.release()?;
        flood.drain(&mut buffer)?;
        let wall = start.elapsed();
        let cpu = thread_cpu()?.saturating_sub(cpu);
        flood.answer()?;
        Ok(Drained { wall, cpu, bytes: flood.expected })
    }

    /// A thread per PTY: for many terminals this is the fastest bare reader.
    fn drain_many(&mut self, count: usize, bytes: usize) -> Result<Drained> {
        let mut floods = (0..count)
            .map(|_| Flood::start(&self.programs, Kind::Plain, bytes, false))
            .collect::<Result<Vec<_>>>()?;
        let total = floods.iter().map(|flood| flood.expected).sum();
        let start = Instant::now();
        let cpu = std::thread::scope(|scope| -> Result<Duration> {
            let readers: Vec<_> = floods
                .iter_mut()
                .map(|flood| {
                    scope.spawn(move || -> Result<Duration> {
                        flood.release()?;
                        flood.drain(&mut vec![0; READ_BUFFER])?;
                        thread_cpu()
                    })
                })
                .collect();
            let mut cpu = Duration::ZERO;
            for reader in readers {
                cpu += reader.join().expect("a reader does not panic")?;
            }
            Ok(cpu)
        })?;
        Ok(Drained { wall: start.elapsed(), cpu, bytes: total })
    }

    fn echo(&mut self, keys: usize) -> Result<Vec<Duration>> {
        let mut terminal = Terminal::spawn(&self.programs.echo())?;
        terminal.read_until(READY.trim_end().as_bytes())?;
        echo_on(&mut terminal, keys)
    }

    fn create(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let mut terminal = Terminal::spawn(&self.programs.hello())?;
            let mut byte = [0];
            terminal.master.read_exact(&mut byte).context("the program said nothing")?;
            times.push(start.elapsed());
        }
        Ok(times)
    }
}

/// Types keys into a terminal one at a time; each must come back before the next.
pub fn echo_on(terminal: &mut Terminal, keys: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(keys);
    let mut buffer = [0; 4096];
    for key in KEYS.iter().cycle().take(keys) {
        terminal.discard()?;
        let start = Instant::now();
        terminal.master.write_all(&[*key]).context("cannot type")?;
        loop {
            let n = terminal.master.read(&mut buffer).context("the echo ended")?;
            ensure!(n > 0, "the echo ended");
            if buffer[..n].contains(key) {
                break;
            }
        }
        times.push(start.elapsed());
    }
    Ok(times)
}
