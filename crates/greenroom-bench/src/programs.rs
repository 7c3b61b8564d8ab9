//! The programs that run inside the measured terminals: this same binary under other verbs, so that
//! every contender carries exactly the same load.
//!
//! In: a terminal on stdin and stdout. Out: bytes on it. Each says `ready` before it takes part.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};

use greenroom_bench::payload::{ANSWER, Kind, Payload};

/// Printed by each program when it is set up; its length counts in the bytes a reader sees.
pub const READY: &str = "ready\r\n";

/// Bytes the terminal delivers for `READY`.
pub fn ready_received(raw: bool) -> u64 {
    READY.len() as u64 + u64::from(!raw)
}

/// Waits for a byte on stdin, then prints the payload, and ends when its last question is answered.
pub fn flood(kind: Kind, bytes: usize, raw: bool, finish: Option<&Path>) -> Result<()> {
    // No echo of the start line and of the answer: they would be counted.
    change_terminal(|modes| {
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        if raw {
            modes.make_raw();
        }
        // A host may leave zeros here, and a read would then come back empty at once.
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    })?;
    let payload = Payload::new(kind, bytes, raw);
    let mut out = unbuffered_stdout();
    out.write_all(READY.as_bytes())?;
    ensure!(read_byte()?.is_some(), "the terminal closed before the start");
    for chunk in payload.chunks() {
        // As stdio does it: a program prints in pieces of some KiB.
        for piece in chunk.chunks(16 * 1024) {
            out.write_all(piece)?;
        }
    }
    for expected in ANSWER {
        ensure!(read_byte()? == Some(*expected), "the question was not answered");
    }
    if let Some(finish) = finish {
        crate::finish::cross(finish)?;
    }
    Ok(())
}

/// Gives every byte back at once, as an editor in raw mode would.
pub fn echo() -> Result<()> {
    change_terminal(Termios::make_raw)?;
    let mut out = unbuffered_stdout();
    out.write_all(READY.as_bytes())?;
    let mut column = 0;
    while let Some(byte) = read_byte()? {
        column += 1;
        // Stay on one line: scrolling is another cost than echo.
        if column > 70 {
            column = 1;
            out.write_all(&[b'\r', byte])?;
        } else {
            out.write_all(&[byte])?;
        }
    }
    Ok(())
}

/// Says hello and waits for the end of its input: what an idle session is.
pub fn hello() -> Result<()> {
    unbuffered_stdout().write_all(READY.as_bytes())?;
    while read_byte()?.is_some() {}
    Ok(())
}

/// Fills the screen with text and waits: what a snapshot is taken of.
pub fn page() -> Result<()> {
    let mut text = String::new();
    for row in 1..24 {
        text.push_str(&format!("{row:>2} {:-<70}\r\n", "a line of an ordinary program "));
    }
    unbuffered_stdout().write_all(text.as_bytes())?;
    hello()
}

/// Waits for a line, then prints the monotonic clock `count` times, one line every `every_us`.
pub fn tick(count: usize, every_us: u64) -> Result<()> {
    change_terminal(|modes| modes.local_modes.remove(LocalModes::ECHO))?;
    let mut out = unbuffered_stdout();
    out.write_all(READY.as_bytes())?;
    ensure!(read_byte()?.is_some(), "the terminal closed before the start");
    for _ in 0..count {
        let pause = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(every_us * 1000).context("a tick is shorter than a second")?,
        };
        // A load generator paces itself; nothing waits for this to have happened.
        let _ = rustix::thread::nanosleep(&pause);
        out.write_all(format!("{TICK}{}.\r\n", now_ns()).as_bytes())?;
    }
    out.write_all(b"tick-end\r\n")?;
    while read_byte()?.is_some() {}
    Ok(())
}

/// Before each time stamp; a full stop is behind it.
pub const TICK: &str = "tick:";

/// CLOCK_MONOTONIC, the same for every process of the machine.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the monotonic clock is not negative");
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("nanoseconds are not negative")
}

fn change_terminal(change: impl FnOnce(&mut Termios)) -> Result<()> {
    let stdin = rustix::stdio::stdin();
    if !isatty(stdin) {
        return Ok(());
    }
    let mut modes = tcgetattr(stdin).context("cannot read the terminal's modes")?;
    change(&mut modes);
    tcsetattr(stdin, OptionalActions::Now, &modes).context("cannot set the terminal's modes")
}

/// stdout without std's line buffer, which would write every line by itself.
fn unbuffered_stdout() -> std::fs::File {
    use std::os::fd::AsFd;
    let fd = std::io::stdout().as_fd().try_clone_to_owned().expect("stdout is open");
    std::fs::File::from(fd)
}

fn read_byte() -> Result<Option<u8>> {
    let mut byte = [0];
    let n = std::io::stdin().lock().read(&mut byte).context("cannot read stdin")?;
    Ok((n == 1).then_some(byte[0]))
}
