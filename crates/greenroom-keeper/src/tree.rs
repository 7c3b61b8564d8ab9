//! Which processes belong to a session, and signalling all of them.
//!
//! Called by the daemon, never by the keeper's loop: it reads all of /proc.

use std::io;

/// A process, told apart from a later one with the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// Clock ticks after boot.
    pub start_time: u64,
}

impl Process {
    /// Who has this number now. Call it at `Spawned` or `Taken` while the session runs: the keeper has not reaped it then.
    pub fn of(pid: i32) -> Option<Process> {
        let _ = pid;
        None
    }
}

/// What a round of signals achieved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSignalled {
    /// Every process that got the signal.
    pub processes: Vec<Process>,
    /// No new process appeared in the last look. `false`: the tree grew faster than the bounded rounds.
    pub complete: bool,
}

/// Every process of the session: descendants of the leader, members of its session and of its terminal, and processes whose
/// environment holds `marker` (`NAME=value`). Never this process, its ancestors, or pid 1.
pub fn tree_of(leader: Process, marker: Option<&[u8]>) -> Vec<Process> {
    let _ = (leader, marker);
    Vec::new()
}

/// Signals all of `tree_of` through pidfds, again and again until nobody new appears.
pub fn signal_tree(
    leader: Process,
    marker: Option<&[u8]>,
    signo: i32,
) -> io::Result<TreeSignalled> {
    let _ = (leader, marker, signo);
    Ok(TreeSignalled { processes: Vec::new(), complete: true })
}
