//! A way to this keeper that has vanished is made again.
//!
//! In: what the file system says of the directories on the way (inotify), or a client that found
//! nobody (SIGURG). Out: the socket bound anew and a daemon that serves it, the link in the runtime
//! directory, the claim on a state directory that was made anew. Nothing here looks by itself: an
//! idle keeper is not woken. Absent on purpose: a socket that somebody else listens on in our
//! place; that is said in the log and left alone.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

use crate::claim::{Claim, KeeperPaths};
use crate::keeper::{Keeper, UPGRADE_GRACE};
use crate::listen::{self, BoundSocket};

/// `rm -r` removes the files of a directory first, and then the directory, which must be empty by
/// then: nothing is made again before this time has passed.
const SETTLED: Duration = Duration::from_millis(200);
/// A login that has just made the runtime directory may mount something over it: the keeper looks
/// once more.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// Tells when something has changed in the directories that lead to the socket.
#[derive(Default)]
pub(crate) struct Watch {
    /// `None` where the system has no more of these: then clients ask.
    fd: Option<OwnedFd>,
    look_at: Option<Instant>,
}

impl Watch {
    pub(crate) fn over(paths: &KeeperPaths) -> Watch {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let watch = Watch { fd, look_at: None };
        watch.renew(paths);
        watch
    }

    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Watches what is there now. A directory that is watched already stays so.
    fn renew(&self, paths: &KeeperPaths) {
        let Some(fd) = &self.fd else { return };
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // The directory, and those above it: one that was taken away as a whole is made again
        // there.
        let socket = paths.socket.ancestors().skip(1).take(2);
        let alias = paths.alias.iter().flat_map(|alias| alias.ancestors().skip(1).take(3));
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
    /// Something has changed in a directory that leads to the socket. It is looked at once the
    /// changes are over.
    pub(crate) fn notice(&mut self) {
        self.watch.drain();
        self.watch.renew(&self.paths);
        let paths = &self.paths;
        let led = |alias| std::fs::read_link(alias).is_ok_and(|to| to == paths.socket);
        let noted = Claim::is_noted(paths);
        if !noted || !self.bound.is_reachable(&paths.socket) || !paths.alias.iter().all(led) {
            self.watch.look_at = Some(Instant::now() + SETTLED);
        }
    }

    /// Makes again what is missing.
    pub(crate) fn mend(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let made = self.mend_socket() | self.mend_alias();
        if self.claim.covers(&self.paths.state) && !Claim::is_noted(&self.paths) {
            self.claim.note_again(&self.paths);
        }
        self.watch.renew(&self.paths);
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
        let above = self.paths.state.parent();
        // A home that was removed as a whole is not made again.
        if self.bound.is_reachable(&self.paths.socket) || above.is_none_or(|above| !above.exists())
        {
            return false;
        }
        if !self.claim.covers(&self.paths.state) {
            match Claim::take(&self.paths) {
                Ok(claim) => self.claim = claim,
                Err(error) => {
                    self.log.say(format_args!("the state directory is no longer ours: {error}"));
                    return false;
                }
            }
        }
        listen::move_aside(&self.paths.socket);
        match BoundSocket::open(&self.paths) {
            Ok(bound) => self.bound = bound,
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
        let Some(alias) = &self.paths.alias else { return false };
        // A login that is over has no directory for it.
        listen::make_alias(alias, &self.paths.socket).unwrap_or(false)
    }

    /// Removes socket and alias of a keeper that ends: a client must not find them.
    pub(crate) fn take_away(&self) {
        if self.bound.is_reachable(&self.paths.socket) {
            // Ours: the claim is still held.
            let _ = std::fs::remove_file(&self.paths.socket);
        }
        if let Some(alias) = &self.paths.alias {
            listen::remove_alias(alias, &self.paths.socket);
        }
    }
}
