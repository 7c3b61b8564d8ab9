//! Orphans that have come home to the keeper: of a session whose warden or stage was killed, or of a plugin. They are ended.
//!
//! In: a death after which there may be some. Out: nobody below the keeper whom it does not know. What a killed daemon had
//! started (a `git` in the middle of its work) comes home too and is left alone: who was there at its death is remembered.
//! Absent on purpose: whose they were; whoever held them is gone, and their session with it.

use std::collections::HashSet;

use greenroom_sandbox::lineage;

use crate::keeper::Keeper;
use crate::tree::{self, Process};

#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Some may be there.
    looking: bool,
    /// Sessions of an image before there were wardens may have orphans here, which live on.
    pub(crate) tolerated: bool,
    /// Left by a daemon.
    spared: HashSet<Process>,
}

impl Keeper {
    /// Somebody who held others has gone.
    pub(crate) fn look_for_strays(&mut self) {
        self.strays.looking = !self.strays.tolerated;
    }

    /// Whoever is here now and unknown was the dead daemon's.
    pub(crate) fn spare_orphans_of_daemon(&mut self) {
        let strays = self.unknown_children();
        self.strays.spared.retain(|process| Process::of(process.pid) == Some(*process));
        self.strays.spared.extend(strays.into_iter().filter_map(Process::of));
    }

    /// After every reaping. Each death below brings the next orphans home, so this comes to an end by itself.
    pub(crate) fn end_strays(&mut self) {
        if !self.strays.looking {
            return;
        }
        let strays = self.unknown_children();
        if strays.is_empty() {
            self.strays.looking = false;
            return;
        }
        let below = strays.iter().flat_map(|pid| lineage::below(*pid).into_keys());
        let all: Vec<Process> =
            strays.iter().copied().chain(below).filter_map(Process::of).collect();
        self.log.say(format_args!("ending {} strays", all.len()));
        // Who is stopped forks no more.
        for signo in [libc::SIGSTOP, libc::SIGKILL] {
            for process in &all {
                let _ = tree::signal_one(*process, signo);
            }
        }
    }

    fn unknown_children(&self) -> Vec<i32> {
        let own = std::process::id() as i32;
        let children = lineage::children(own);
        let spared = |pid: i32| Process::of(pid).is_some_and(|it| self.strays.spared.contains(&it));
        children.into_iter().filter(|pid| !self.knows(*pid) && !spared(*pid)).collect()
    }

    fn knows(&self, pid: i32) -> bool {
        self.daemon.pid() == Some(pid)
            || self.is_check(pid)
            || self.spare.is_made_by(pid)
            || self.workers.knows(pid)
            || self.sessions.by_pid(pid).is_some()
    }
}
