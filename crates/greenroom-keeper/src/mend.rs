//! A way to this keeper that has vanished is made again.
//!
//! In: what the file system says of the directories on the way (inotify), or a client that found nobody (SIGURG). Out: the
//! socket bound anew and a daemon that serves it, the link in the runtime directory, the claim on a state directory that was
//! made anew. Nothing here looks by itself: an idle keeper is not woken. Absent on purpose: a socket that somebody else
//! listens on in our place; that is said in the log and left alone.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

use crate::claim::{Claim, Seat};
use crate::keeper::{Keeper, UPGRADE_GRACE};
use crate::listen::{self, Door};

/// Whoever takes a directory away takes its files first, and must find it empty in the end.
const SETTLED: Duration = Duration::from_millis(200);
/// Whoever has just made the runtime directory may mount something over it: look once more.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// The file system's word that something on the way has changed.
#[derive(Default)]
pub(crate) struct Watch {
    /// `None` where the system has no more of these: then clients ask.
    fd: Option<OwnedFd>,
    look_at: Option<Instant>,
}

impl Watch {
    pub(crate) fn over(seat: &Seat) -> Watch {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let watch = Watch { fd, look_at: None };
        watch.renew(seat);
        watch
    }

    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Watches what is there now. A directory that is watched already stays so.
    fn renew(&self, seat: &Seat) {
        let Some(fd) = &self.fd else { return };
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // The directory, and those above it: one that was taken away as a whole is made again there.
        let socket = seat.socket.ancestors().skip(1).take(2);
        let alias = seat.alias.iter().flat_map(|alias| alias.ancestors().skip(1).take(3));
        for dir in socket.chain(alias).filter(|dir| *dir != Path::new("/")) {
            let _ = inotify::add_watch(fd, dir, flags);
        }
    }

    fn drain(&self) {
        let Some(fd) = &self.fd else { return };
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(fd.as_fd(), &mut space);
        while reader.next().is_ok() {}
    }
}

impl Keeper {
    /// The file system says that something on the way has changed. It is left alone while it changes.
    pub(crate) fn notice(&mut self) {
        self.watch.drain();
        self.watch.renew(&self.seat);
        let seat = &self.seat;
        let led = |alias| std::fs::read_link(alias).is_ok_and(|to| to == seat.socket);
        let noted = Claim::is_noted(seat);
        if !noted || !self.door.is_reachable(&seat.socket) || !seat.alias.iter().all(led) {
            self.watch.look_at = Some(Instant::now() + SETTLED);
        }
    }

    /// Makes again what is missing.
    pub(crate) fn mend(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let made = self.mend_socket() | self.mend_alias();
        if self.claim.covers(&self.seat.state) && !Claim::is_noted(&self.seat) {
            self.claim.note_again(&self.seat);
        }
        self.watch.renew(&self.seat);
        if made {
            self.watch.look_at = Some(Instant::now() + SECOND_LOOK);
        }
    }

    pub(crate) fn mend_on_time(&mut self, now: Instant) {
        if self.watch.look_at.is_some_and(|at| at <= now) {
            self.watch.look_at = None;
            self.mend();
        }
    }

    fn mend_socket(&mut self) -> bool {
        let above = self.seat.state.parent();
        // A home that was removed as a whole is not made again.
        if self.door.is_reachable(&self.seat.socket) || above.is_none_or(|above| !above.exists()) {
            return false;
        }
        if !self.claim.covers(&self.seat.state) {
            match Claim::take(&self.seat) {
                Ok(claim) => self.claim = claim,
                Err(error) => {
                    self.log.say(format_args!("the state directory is no longer ours: {error}"));
                    return false;
                }
            }
        }
        listen::move_aside(&self.seat.socket);
        match Door::open(&self.seat) {
            Ok(door) => self.door = door,
            Err(error) => {
                self.log.say(format_args!("the socket has vanished and cannot be made: {error}"));
                return false;
            }
        }
        self.log.say(format_args!("the socket had vanished and was made again"));
        // Sessions go on; the next daemon serves the new socket.
        self.daemon.leave(UPGRADE_GRACE);
        true
    }

    pub(crate) fn mend_alias(&mut self) -> bool {
        let Some(alias) = &self.seat.alias else { return false };
        // A login that is over has no directory for it.
        listen::lead(alias, &self.seat.socket).unwrap_or(false)
    }

    /// Nobody shall find what is no longer served.
    pub(crate) fn take_away(&self) {
        if self.door.is_reachable(&self.seat.socket) {
            // Ours: the claim is still held.
            let _ = std::fs::remove_file(&self.seat.socket);
        }
        if let Some(alias) = &self.seat.alias {
            listen::unlead(alias, &self.seat.socket);
        }
    }
}
