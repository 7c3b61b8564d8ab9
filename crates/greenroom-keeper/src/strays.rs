//! Orphans that have come home to the keeper: of a session whose warden or stage was killed, or of
//! a plugin. They are ended.
//!
//! In: a death after which there may be some. Out: nobody below the keeper whom it does not know.
//! What a killed daemon had started (a `git` in the middle of its work) comes home too and is left
//! alone: who was there at its death is remembered. Absent on purpose: whose they were; whoever
//! held them is gone, and their session with it.

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
    left_alone: HashSet<Process>,
}

impl Keeper {
    /// A process that held others has died: its orphans may be the keeper's children now.
    pub(crate) fn look_for_strays(&mut self) {
        self.strays.looking = !self.strays.tolerated;
    }

    /// Children that are nobody the keeper knows were started by the daemon that has just died:
    /// they are left alone.
    pub(crate) fn leave_orphans_of_daemon_alone(&mut self) {
        let strays = self.unknown_children();
        self.strays.left_alone.retain(|process| Process::of(process.pid) == Some(*process));
        self.strays.left_alone.extend(strays.into_iter().filter_map(Process::of));
    }

    /// After every reaping. Each death below brings the next orphans home, so this comes to an end
    /// by itself.
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
        // A stopped process cannot fork, so none is missed by the KILL.
        for signo in [libc::SIGSTOP, libc::SIGKILL] {
            for process in &all {
                let _ = tree::signal_one(*process, signo);
            }
        }
    }

    fn unknown_children(&self) -> Vec<i32> {
        let own = std::process::id() as i32;
        let children = lineage::children(own);
        let left_alone =
            |pid: i32| Process::of(pid).is_some_and(|it| self.strays.left_alone.contains(&it));
        children.into_iter().filter(|pid| !self.knows(*pid) && !left_alone(*pid)).collect()
    }

    fn knows(&self, pid: i32) -> bool {
        self.daemon.pid() == Some(pid)
            || self.is_check(pid)
            || self.namespaces.is_made_by(pid)
            || self.piped.knows(pid)
            || self.sessions.by_pid(pid).is_some()
    }
}
