//! Pins that hold: what is fixed or masked inside of something writable is fixed again when it was
//! replaced from outside.
//!
//! A mount ends when somebody outside removes what it is on, or renames another over it:
//! `git config` writes a new file and renames it. From then on the session could write what was
//! fixed. So the first process of the namespace, which waits for nothing else, is told by the
//! kernel whenever a mount ends, and puts it back.
//!
//! In: the pins that were placed. Out: the same pins, always; or the end of the session, where one
//! cannot be put back. Not held: the moment in between, some tenths of a millisecond, which a
//! program that tries in a loop does not miss; what is missing outside until it is there again; and
//! a directory that is moved away outside: its mounts go with it, and nothing tells.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::mounts::{Scratch, attach, clone};
use super::paths;
use super::sys::{self, NODEV, NOSUID, RDONLY, restrict_mount};

/// How soon something that is missing is looked for again. At once, because the kernel tells of the
/// end of a mount in the middle of the renaming that ends it, when there is nothing yet that could
/// be mounted on. Then later and later: nothing tells when it is made, and what is gone for long (a
/// branch that was packed) may never come back.
const LOOK_AGAIN: Duration = Duration::from_micros(10);
const LOOK_AT_LAST: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Guards {
    pins: Vec<Pin>,
    masks: Option<Scratch>,
}

#[derive(Debug)]
struct Pin {
    at: PathBuf,
    masked: bool,
}

/// What the first process waits for: ends of children, and ends of mounts.
pub(super) struct Wakeups {
    children: OwnedFd,
    mounts: Option<OwnedFd>,
}

impl Wakeups {
    fn new(without_mounts: bool) -> Result<Wakeups, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty());
        let mounts = (!without_mounts).then(open).transpose()?;
        Ok(Wakeups { children: sys::child_signals()?, mounts })
    }

    /// Until something happened, or the time is up.
    pub(super) fn wait(&self, patience: Option<Duration>) -> Wakeup {
        let mut fds = vec![PollFd::new(&self.children, PollFlags::IN)];
        fds.extend(self.mounts.iter().map(|fd| PollFd::new(fd, PollFlags::PRI)));
        let patience = patience.and_then(|it| rustix::time::Timespec::try_from(it).ok());
        let _ = rustix::event::poll(&mut fds, patience.as_ref());
        // One for all that waited; who ended is asked for anyway.
        let _ = rustix::io::read(&self.children, &mut [0; 128]);
        let woke = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        match (woke(0), woke(1)) {
            (_, true) => Wakeup::Mounts,
            (true, _) => Wakeup::Children,
            _ => Wakeup::Timeout,
        }
    }
}

/// Why the first process woke up. Of two reasons the end of a mount counts.
pub(super) enum Wakeup {
    Mounts,
    Children,
    Timeout,
}

/// Something outside was put in the place of a pin, and cannot be pinned.
pub(super) struct Broken;

impl Guards {
    pub(super) fn fixed(&mut self, at: PathBuf) {
        self.pins.push(Pin { at, masked: false });
    }

    /// A link that leads to something masked is no place that could be masked again: it is passed
    /// over.
    pub(super) fn masked(&mut self, at: PathBuf) {
        if paths::open_real(&at).is_ok() {
            self.pins.push(Pin { at, masked: true });
        }
    }

    pub(super) fn with_masks(&mut self, masks: Scratch) {
        self.masks = Some(masks);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Closes everything but `tell` and what is needed here, and begins to listen.
    pub(super) fn keep_with(self, tell: OwnedFd) -> Result<(OwnedFd, Guards, Wakeups), Errno> {
        let masks = self.masks.filter(|_| !self.pins.is_empty());
        // To the lowest numbers, so that one call closes the rest.
        rustix::stdio::dup2_stdin(&tell)?;
        if let Some(masks) = &masks {
            rustix::stdio::dup2_stdout(&masks.root)?;
        }
        let kept = 1 + u32::from(masks.is_some());
        std::mem::forget((tell, masks));
        sys::close_from(kept, false)?;
        let masks = if kept > 1 { Some(Scratch { root: sys::own(1)? }) } else { None };
        let guards = Guards { pins: self.pins, masks };
        let wakeups = Wakeups::new(guards.is_empty())?;
        Ok((sys::own(0)?, guards, wakeups))
    }

    /// Puts back every pin that is gone. Says when to look again, if something is not there; `last`
    /// is what it said before.
    pub(super) fn look(&self, last: Option<Duration>) -> Result<Option<Duration>, Broken> {
        let mut missing = false;
        for pin in &self.pins {
            match self.hold(pin) {
                Ok(()) => {}
                // A mask without anything behind it hides nothing.
                Err(Errno::NOENT | Errno::NOTDIR) => missing = true,
                Err(_) => return Err(Broken),
            }
        }
        let next = last.map_or(LOOK_AGAIN, |last| (last * 2).min(LOOK_AT_LAST));
        Ok(missing.then_some(next))
    }

    fn hold(&self, pin: &Pin) -> Result<(), Errno> {
        let there = paths::open(&pin.at)?;
        let about = rustix::fs::statx(&there, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        if about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Ok(());
        }
        let tree = match &self.masks {
            Some(masks) if pin.masked => {
                let directory =
                    FileType::from_raw_mode(about.stx_mode.into()) == FileType::Directory;
                masks.take_mask(directory)?
            }
            _ => clone(there.as_fd())?,
        };
        restrict_mount(tree.as_fd(), RDONLY | NOSUID | NODEV)?;
        attach(tree.as_fd(), there.as_fd())
    }
}
