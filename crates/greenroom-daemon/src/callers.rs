//! Who may talk to the host at all: nobody who is inside of a confined session, or ever was.
//!
//! A confined session cannot see our socket and, at level full, cannot make one of its kind. This
//! is the second lock: should a socket be passed to it, or the first lock have a hole, whoever is
//! inside still gets no answer.
//!
//! What decides: every confined process is under one system call filter more than we are, and can
//! never shed it, nor can what it starts, whoever its parents are now. So a caller with no more
//! filters than ours, in our pid namespace, is none. Any other is one unless it is below the warden
//! of a plain session (the kernel's word, not its own: `greenroom_keeper`), where people may run
//! what they like. While no session was ever confined under this state directory nothing is looked
//! at; since then a caller that cannot be judged is refused.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_keeper::KeeperHello;

use crate::chains::Sessions;
use crate::keeper::Keeper;

/// Longest line of ancestors that is walked.
const ANCESTORS_MAX: usize = 1024;

const INSIDE: &str = "callers inside a confined session are not served";
const UNKNOWN: &str = "the calling process cannot be looked at";
const DOUBTFUL: &str = "the calling process is confined by something, perhaps by us";

/// Judges callers by what is known of sessions.
pub(crate) struct Callers {
    sessions: Arc<Sessions>,
    keeper: Arc<Keeper>,
    keeper_pid: u32,
}

impl Callers {
    pub(crate) fn new(
        sessions: Arc<Sessions>,
        keeper: Arc<Keeper>,
        hello: &KeeperHello,
    ) -> Callers {
        let keeper_pid = u32::try_from(hello.keeper_pid).unwrap_or(0);
        Callers { sessions, keeper, keeper_pid }
    }

    /// Why this caller is refused, if it is.
    pub(crate) fn refused(&self, pid: Option<u32>) -> Option<&'static str> {
        if !self.are_judged() {
            return None;
        }
        // A process of a namespace we cannot see has number 0.
        let Some(pid) = pid.filter(|pid| *pid != 0) else {
            return Some("the kernel does not say which process is calling");
        };
        match judge(pid, &self.wardens()) {
            Verdict::Outside => None,
            Verdict::Inside => Some(INSIDE),
            Verdict::Doubtful => Some(DOUBTFUL),
            Verdict::Unknown => Some(UNKNOWN),
        }
    }

    /// Why a caller by HTTP is refused. It has the token; browsers have fences of their own, so one
    /// that cannot be told from ours is refused only where ours could have lost somebody.
    pub(crate) fn inside(&self, pid: u32) -> Option<&'static str> {
        match judge(pid, &self.wardens()) {
            Verdict::Inside => Some(INSIDE),
            Verdict::Doubtful if self.keeper.confined().lost => Some(DOUBTFUL),
            Verdict::Doubtful | Verdict::Outside | Verdict::Unknown => None,
        }
    }

    /// Whether a session was ever confined here.
    pub(crate) fn are_judged(&self) -> bool {
        self.keeper.confined().ever || !self.sessions.chains().confined().is_empty()
    }

    fn wardens(&self) -> Wardens {
        let (plain, confined) = self.keeper.wardens();
        Wardens { plain, confined, keeper: self.keeper_pid }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Outside,
    Inside,
    /// The process is confined, and it is not known by whom.
    Doubtful,
    Unknown,
}

/// Below whom sessions are.
#[derive(Default)]
struct Wardens {
    plain: Vec<u32>,
    confined: Vec<u32>,
    /// An orphan that became its child was a session's process, and no warden holds it.
    keeper: u32,
}

fn judge(pid: u32, wardens: &Wardens) -> Verdict {
    let (Some(seen), Some(own)) = (Fence::of(&pid.to_string()), Fence::of("self")) else {
        return Verdict::Unknown;
    };
    let fenced = seen.filters > own.filters || seen.namespace != own.namespace;
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        if wardens.confined.contains(&at) {
            return Verdict::Inside;
        }
        if wardens.plain.contains(&at) || !fenced {
            return Verdict::Outside;
        }
        match parent(at) {
            Some(parent) if parent == wardens.keeper => return Verdict::Inside,
            Some(0 | 1) => return Verdict::Doubtful,
            Some(parent) => at = parent,
            None => return Verdict::Unknown,
        }
    }
    Verdict::Unknown
}

/// What a process can never shed.
#[derive(Debug, PartialEq, Eq)]
struct Fence {
    filters: u32,
    namespace: PathBuf,
}

impl Fence {
    fn of(pid: &str) -> Option<Fence> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| -> Option<u32> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        // Kernels before 5.9 say whether, not how many.
        let filters = field("Seccomp_filters:").or_else(|| field("Seccomp:"))?;
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
        Some(Fence { filters, namespace })
    }
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_a_confined_leader_are_refused() {
        let us = std::process::id();
        assert_eq!(judge(us, &Wardens::default()), Verdict::Outside);
        let confined = |pid| Wardens { confined: vec![pid], ..Wardens::default() };
        assert_eq!(judge(us, &confined(us)), Verdict::Inside);
    }

    #[test]
    fn whoever_cannot_be_looked_at_is_unknown() {
        assert_eq!(judge(u32::MAX, &Wardens::default()), Verdict::Unknown);
    }

    #[test]
    fn another_namespace_is_judged_by_who_holds_it() {
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
            let us = std::process::id();
            let verdict = |wardens: Wardens| judge(inside, &wardens);
            let found = verdict(Wardens::default());
            assert!(matches!(found, Verdict::Doubtful | Verdict::Unknown), "{found:?}");
            let plain = Wardens { plain: vec![us], ..Wardens::default() };
            assert_eq!(verdict(plain), Verdict::Outside, "people may run what they like");
            let confined = Wardens { confined: vec![child.id()], ..Wardens::default() };
            assert_eq!(verdict(confined), Verdict::Inside);
            // The child of an orphan that came home to the keeper: its parent is not the keeper
            // itself.
            let orphan = Wardens { keeper: us, ..Wardens::default() };
            assert_eq!(verdict(orphan), Verdict::Inside);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
