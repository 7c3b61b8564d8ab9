//! A PTY, and reading one until a text comes.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wait::{PATIENCE, readable};

/// A terminal of this size: the side that shows, and the side for a program.
pub fn open(cols: u16, rows: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    (master, slave)
}

/// Reads the terminal until `stop` is in it.
#[track_caller]
pub fn read_until(master: impl AsFd, stop: &str) -> String {
    read(&master, Some(stop))
}

/// Everything until the last program has closed the other side.
#[track_caller]
pub fn read_all(master: impl AsFd) -> String {
    read(&master, None)
}

#[track_caller]
fn read(master: &impl AsFd, stop: Option<&str>) -> String {
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if stop.is_some_and(|stop| text.contains(stop)) {
            return text;
        }
        assert!(readable(master, PATIENCE), "waited for {stop:?}, got {text:?}");
        let mut bytes = [0; 4096];
        match rustix::io::read(master, &mut bytes) {
            Ok(0) | Err(Errno::IO) => {
                assert!(stop.is_none(), "ended before {stop:?}: {text:?}");
                return text;
            }
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN) => {}
            Err(errno) => panic!("read: {errno}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_is_read_until_a_text_and_to_its_end() {
        let (master, slave) = open(91, 17);
        let mut command = Command::new("sh");
        command.args(["-c", "stty size; echo more"]).stdin(slave.try_clone().unwrap());
        command.stdout(slave);
        let mut child = command.spawn().unwrap();
        drop(command);
        assert!(read_until(&master, "91").starts_with("17 91"));
        child.wait().unwrap();
        assert!(!read_all(&master).contains("17 91"));
    }
}
