//! The session's terminal, made inside so that its name, its job control and its nested terminals are real there.
//!
//! In: size. Out: master (to be sent away) and slave. Absent on purpose: a single byte of traffic.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use super::Failing;
use crate::control::Fault;
use crate::layer::Layer;

pub(crate) struct Terminal {
    pub(crate) master: OwnedFd,
    pub(crate) slave: OwnedFd,
}

pub(crate) fn open(cols: u16, rows: u16) -> Result<Terminal, Fault> {
    let opened = || -> Result<Terminal, Errno> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::unlockpt(&master)?;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        let mut termios = rustix::termios::tcgetattr(&slave)?;
        termios.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &termios)?;
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&slave, size)?;
        // As the keeper's own: a blocking splice from the master would hold the pipe's lock.
        let flags = rustix::fs::fcntl_getfl(&master)?;
        rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
        Ok(Terminal { master, slave })
    };
    opened().failing(Layer::Terminal, || "open a terminal".into())
}

/// Makes `slave` the controlling terminal of a new session, and stdin, stdout and stderr.
pub(crate) fn control(slave: &OwnedFd, lead: bool) -> Result<(), Fault> {
    let taken = || -> Result<(), Errno> {
        if lead {
            rustix::process::setsid()?;
        }
        rustix::process::ioctl_tiocsctty(slave)?;
        rustix::stdio::dup2_stdin(slave)?;
        rustix::stdio::dup2_stdout(slave)?;
        rustix::stdio::dup2_stderr(slave)
    };
    taken().failing(Layer::Terminal, || "take the terminal".into())
}
