//! The user's own terminal: raw while attached, as it was afterwards, whatever happens.
//!
//! In: the terminal on stdin and stdout. Out: a [`RawMode`] guard, and the escape sequences that
//! take back everything a session can have switched on. A panic and a signal leave through the
//! same door as a detach.
//! Absent on purpose: reading keys, writing output.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use greenroom_protocol::api::screen::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::error::Failure;

/// Before the first keyframe: remember title and icon on the terminal's stack.
pub const TITLE_PUSH: &[u8] = b"\x1b[22;0t";

/// Ends whatever sequence the output was cut in.
const ABORT: &[u8] = b"\x18\x1b\\";

/// Takes back every mode a program can have set.
///
/// Order matters: keyboard flags are kept per screen, so they are popped on both sides of leaving
/// the alternate screen; resetting the scroll region moves the cursor, so the caller places it
/// afterwards. 1007 (wheel as arrows) stays: it is on by default in some terminals, and harmless.
const MODES: &[u8] = b"\
    \x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\
    \x1b[?2004l\x1b[?2031l\x1b[?2048l\
    \x1b[<64u\x1b[>4m\
    \x1b[?1049l\x1b[<64u\
    \x1b[?1l\x1b>\x1b[?67l\
    \x1b[0m\x1b]8;;\x1b\\\
    \x1b[?5l\x1b[?6l\x1b[?69l\x1b[?45l\x1b[?7h\x1b[4l\x1b[20l\x1b[r\x1b[?5W\
    \x1b(B\x1b)B\x0f\
    \x1b[0 q\x1b[?25h";

/// A frame begins and ends: the terminal shows all of it at once.
const SYNC_BEGIN: &[u8] = b"\x1b[?2026h";
const SYNC_END: &[u8] = b"\x1b[?2026l";

/// A keyframe for a terminal in any state: all modes back, a blank screen, then the keyframe.
///
/// Blank line by line: many terminals push a screen that is erased at once into their scrollback,
/// where the picture before would then be a second time.
pub fn repaint(keyframe: &[u8]) -> Vec<u8> {
    let rows = window().map_or(24, |size| size.rows);
    let blank = b"\x1b[2K\x1b[B".repeat(rows.into());
    [ABORT, SYNC_BEGIN, MODES, b"\x1b[H", &blank, b"\x1b[H", keyframe, SYNC_END].concat()
}

/// Colours a program changed go back to the user's own. Only sent when one was changed: colour
/// schemes that are set by escape sequences would be lost otherwise.
const RESET_COLORS: &[u8] = b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\";

const TITLE_POP: &[u8] = b"\x1b[23;0t";

/// How long a stopped terminal (Ctrl-S, a dead line) may delay our leaving.
const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

/// What a panic needs to put back; one terminal per process.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);

struct Saved {
    termios: Termios,
    stdin: OwnedFd,
    stdout: OwnedFd,
}

/// While it lives the terminal is raw; when it goes, everything is put back.
#[derive(Debug)]
pub struct RawMode {
    _private: (),
}

/// Whether there is a terminal on both sides.
pub fn is_here() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl RawMode {
    /// Fails without a terminal on both sides.
    pub fn enter() -> Result<RawMode, Failure> {
        if !is_here() {
            return Err(Failure::failed("cannot attach: stdin and stdout are not both a terminal"));
        }
        let refuse = |error| Failure::io("cannot use the terminal", &error);
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(refuse)?;
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(refuse)?;
        let termios = tcgetattr(&stdin)
            .map_err(|error| Failure::io("cannot ask the terminal", &error.into()))?;
        if let Ok(mut saved) = SAVED.lock() {
            *saved = Some(Saved { termios, stdin, stdout });
        }
        let raw = RawMode { _private: () };
        raw.apply()?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave(&[]);
            before(info);
        }));
        Ok(raw)
    }

    /// Makes the terminal raw (again: a shell may have changed it while we were stopped).
    pub fn apply(&self) -> Result<(), Failure> {
        let saved = SAVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(saved) = saved.as_ref() else { return Ok(()) };
        let mut raw = saved.termios.clone();
        raw.make_raw();
        tcsetattr(&saved.stdin, OptionalActions::Now, &raw)
            .map_err(|error| Failure::io("cannot make the terminal raw", &error.into()))
    }

    /// Puts everything back and leaves the cursor on a fresh line at the bottom.
    pub fn leave(self, colors: bool) {
        leave(if colors { RESET_COLORS } else { &[] });
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        leave(&[]);
    }
}

/// Does its work once, however often and from wherever it is called.
fn leave(colors: &[u8]) {
    let taken = SAVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let Some(Saved { termios, stdin, stdout }) = taken else { return };
    let rows = size_of(stdout.as_fd()).map_or(24, |size| size.rows);
    let to_bottom = format!("\x1b[{rows};1H\r\n");
    let bytes = [ABORT, SYNC_END, MODES, colors, TITLE_POP, to_bottom.as_bytes()].concat();
    write_patiently(stdout.as_fd(), &bytes);
    // `Now`, not `Flush`: what the user typed ahead is for the shell.
    let _ = tcsetattr(&stdin, OptionalActions::Now, &termios);
}

/// Writes what the terminal takes before patience ends.
fn write_patiently(out: BorrowedFd<'_>, mut bytes: &[u8]) {
    let deadline = std::time::Instant::now() + LEAVE_PATIENCE;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let mut fds = [PollFd::new(&out, PollFlags::OUT)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        // Small pieces: a blocking write of more than there is room for would wait without end.
        let piece = &bytes[..bytes.len().min(256)];
        match rustix::io::write(out, piece) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The window's size, if the terminal knows it.
pub fn window() -> Option<Size> {
    size_of(io::stdout().as_fd())
}

fn size_of(fd: BorrowedFd<'_>) -> Option<Size> {
    let size = tcgetwinsize(fd).ok()?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then_some(Size {
        rows: size.ws_row,
        cols: size.ws_col,
        pixel_width: size.ws_xpixel,
        pixel_height: size.ws_ypixel,
    })
}

/// Lines below what is on the screen, the cursor on the last of them.
pub fn above(lines: &[String]) -> Vec<u8> {
    let lines: Vec<String> =
        lines.iter().map(|line| line.chars().filter(|it| !it.is_control()).collect()).collect();
    ["\r", &lines.join("\r\n")].concat().into_bytes()
}

/// Pushes what is on the screen up into the scrollback, so that painting does not destroy it.
pub fn make_room(rows: u16) -> Vec<u8> {
    let mut bytes = b"\r".to_vec();
    bytes.extend(std::iter::repeat_n(b'\n', rows.into()));
    bytes
}
