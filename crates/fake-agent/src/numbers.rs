//! Numbered lines at full speed, for tests that count and benches that measure.
//!
//! Line n is `n` with ten digits, a space and a fixed text. A reader that is gone ends the program
//! quietly: that is how such a program is stopped.

use std::io::{self, ErrorKind, Write};

/// Large enough that the system call no longer counts, small enough to stay in cache.
const BLOCK: usize = 64 * 1024;

pub(crate) fn flood(out: &mut impl Write, count: u64) -> io::Result<u8> {
    let mut block = Vec::with_capacity(BLOCK + 128);
    for n in 1..=count {
        writeln!(block, "{n:010} the quick brown fox jumps over the lazy dog")?;
        if block.len() >= BLOCK {
            if let Err(error) = out.write_all(&block) {
                return ended(Err(error));
            }
            block.clear();
        }
    }
    ended(out.write_all(&block).and_then(|()| out.flush()))
}

/// The exit code after writing: a reader that left is no failure.
pub(crate) fn ended(written: io::Result<()>) -> io::Result<u8> {
    match written {
        // EIO is what a terminal says when its master is gone.
        Err(e) if e.kind() == ErrorKind::BrokenPipe || e.raw_os_error() == Some(EIO) => Ok(0),
        Err(e) => Err(e),
        Ok(()) => Ok(0),
    }
}

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
