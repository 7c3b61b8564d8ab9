//! Who may talk to the host at all: nobody who is inside of a confined session.
//!
//! A confined session cannot see our socket and, at level full, cannot make one of its kind. This is the second lock:
//! should a socket be passed to it, or the first lock have a hole, whoever is inside still gets no answer. While no
//! session is confined nothing is looked at. While one is, a caller that cannot be judged is refused.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::host::Host;

/// Longest line of ancestors that is walked.
const ANCESTORS_MAX: usize = 1024;

/// Why this caller is refused, if it is.
pub fn refused(host: &Host, pid: Option<u32>) -> Option<&'static str> {
    if host.chains.confined().is_empty() {
        return None;
    }
    judge(pid, &leaders(host), u32::try_from(host.hello.keeper_pid).unwrap_or(0))
}

/// Why a process that is known is refused: only if it is inside of a confined session for certain.
pub fn inside(host: &Host, pid: u32) -> Option<&'static str> {
    let leaders = leaders(host);
    let keeper = u32::try_from(host.hello.keeper_pid).unwrap_or(0);
    let above = std::iter::successors(Some(pid), |at| parent(*at).filter(|parent| *parent > 1));
    let above = above.take(ANCESTORS_MAX).take_while(|at| *at != keeper);
    let orphan = parent(pid) == Some(keeper) && filtered(pid);
    let inside = orphan || above.into_iter().any(|at| leaders.contains(&at));
    inside.then_some("callers inside a confined session are not served")
}

fn leaders(host: &Host) -> HashSet<u32> {
    let pid = |id: greenroom_engine::SessionId| host.engine.find(&id.to_string()).ok()?.info().pid;
    host.chains.confined().into_iter().filter_map(pid).collect()
}

fn judge(pid: Option<u32>, leaders: &HashSet<u32>, keeper: u32) -> Option<&'static str> {
    // A process of a namespace we cannot see has number 0.
    let Some(pid) = pid.filter(|pid| *pid != 0) else {
        return Some("the kernel does not say which process is calling");
    };
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let (theirs, ours) = (namespace(&pid.to_string()), namespace("self"));
    if theirs.is_none() || theirs != ours {
        return Some("callers inside a confined session are not served");
    }
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        if leaders.contains(&at) {
            return Some("callers inside a confined session are not served");
        }
        let Some(parent) = parent(at) else {
            return Some("the calling process cannot be looked at");
        };
        // Whoever lost its parent came home to the keeper: it was a session's, and one with a filter was confined.
        if parent == keeper && at == pid && filtered(pid) {
            return Some("callers inside a confined session are not served");
        }
        if parent <= 1 || parent == keeper {
            return None;
        }
        at = parent;
    }
    Some("the calling process cannot be looked at")
}

fn parent(pid: u32) -> Option<u32> {
    status(pid, "PPid:")
}

/// Under a system call filter.
fn filtered(pid: u32) -> bool {
    status(pid, "Seccomp:").is_none_or(|mode| mode != 0)
}

fn status(pid: u32, field: &str) -> Option<u32> {
    let text = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/status"))).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_a_confined_leader_are_refused() {
        let us = std::process::id();
        let mother = parent(us).unwrap();
        assert_eq!(judge(Some(us), &HashSet::new(), 0), None);
        assert!(judge(Some(us), &HashSet::from([us]), 0).is_some());
        assert!(judge(Some(us), &HashSet::from([mother]), 0).is_some());
    }

    #[test]
    fn whoever_cannot_be_judged_is_refused() {
        assert!(judge(None, &HashSet::new(), 0).is_some());
        assert!(judge(Some(0), &HashSet::new(), 0).is_some());
        assert!(judge(Some(u32::MAX), &HashSet::new(), 0).is_some());
    }

    #[test]
    fn another_namespace_is_refused() {
        let mut child = match std::process::Command::new("unshare")
            .args(["--user", "--pid", "--fork", "--kill-child", "sleep", "600"])
            .spawn()
        {
            Ok(child) => child,
            Err(_) => return,
        };
        // The grandchild is the first of its namespace; its parent is the one we started.
        let inside = (0..2000).find_map(|_| {
            std::thread::park_timeout(std::time::Duration::from_millis(5));
            let path = format!("/proc/{0}/task/{0}/children", child.id());
            let found = std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok();
            found.filter(|_| child.try_wait().is_ok_and(|ended| ended.is_none()))
        });
        if let Some(inside) = inside {
            assert!(judge(Some(inside), &HashSet::new(), 0).is_some());
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
