//! A terminal for a program: opened here for every session. For a sandboxed one that happens
//! inside, so that its name, its job control and its nested terminals are real there.
//!
//! In: size. Out: master (to be sent away) and slave. Absent on purpose: a single byte of traffic.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

pub struct Terminal {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

impl Terminal {
    pub fn open(cols: u16, rows: u16) -> Result<Terminal, Errno> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::unlockpt(&master)?;
        // By fd, not by path: works in any mount namespace.
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        let mut termios = rustix::termios::tcgetattr(&slave)?;
        termios.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &termios)?;
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&slave, size)?;
        // A blocking splice from the master would hold the pipe's lock.
        let flags = rustix::fs::fcntl_getfl(&master)?;
        rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
        Ok(Terminal { master, slave })
    }

    /// Makes it the controlling terminal of a new session, and stdin, stdout and stderr.
    pub(crate) fn control(&self) -> Result<(), Errno> {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(&self.slave)?;
        rustix::stdio::dup2_stdin(&self.slave)?;
        rustix::stdio::dup2_stdout(&self.slave)?;
        rustix::stdio::dup2_stderr(&self.slave)
    }
}
