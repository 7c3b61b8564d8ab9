//! Which processes belong to a session, and signalling all of them.
//!
//! In: the leader and, if there is one, the environment variable that marks the session. Out: processes, each pinned by its
//! start time. Four rules find them: descendants of a member, the leader's session id, the leader's terminal, and the marker;
//! the last one finds what has been double-forked out of all others. Signals go through pidfds whose start time was checked
//! again, so never to a stranger with a recycled number. Called by the daemon, never by the keeper's loop: it reads all of
//! /proc. Not found: a process that left by setsid and a dead parent *and* cleared its environment. Only a cgroup holds that
//! one (`cgroup.rs`).

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Looks at /proc before giving up on a tree that grows faster than it is stopped.
const MAX_ROUNDS: usize = 20;
/// The kernel allows more, but a marker is set by us and early; 1 MiB bounds the read per process.
const MAX_ENVIRON_BYTES: u64 = 1024 * 1024;
/// One line; names are at most 64 bytes.
const MAX_STAT_BYTES: u64 = 4096;

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
        let stat = read_stat(pid)?;
        Some(Process { pid, start_time: stat.start_time })
    }
}

/// Whether nobody with this number is left to do anything.
pub(crate) fn is_dead(pid: i32) -> bool {
    read_stat(pid).is_none_or(|stat| stat.dead)
}

/// What signalling a tree achieved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeSignalled {
    /// Every process that got the signal.
    pub processes: Vec<Process>,
    /// Those this user may not signal (they changed their uid).
    pub denied: Vec<Process>,
    /// No new process appeared in the last look. `false`: the tree grew faster than the bounded rounds.
    pub complete: bool,
}

/// Every living process of the session. Never this process, its ancestors, or pid 1.
///
/// `marker` is a whole `NAME=value`. If the leader's number was recycled, the rules that rest on it are not used.
pub fn tree_of(leader: Process, marker: Option<&[u8]>) -> Vec<Process> {
    let table = read_table();
    let untouchable = ancestors(&table);
    let owner = table.get(&leader.pid);
    let recycled = owner.is_some_and(|stat| stat.start_time != leader.start_time);
    let terminal = owner.filter(|stat| !recycled && stat.terminal != 0).map(|stat| stat.terminal);
    let is_member = |pid: i32, stat: &Stat| {
        let by_leader = !recycled && (pid == leader.pid || stat.session == leader.pid);
        by_leader
            || terminal == Some(stat.terminal)
            || marker.is_some_and(|marker| has_marker(pid, marker))
    };
    let mut members: HashSet<i32> = table
        .iter()
        .filter(|(pid, stat)| !untouchable.contains(pid) && is_member(**pid, stat))
        .map(|(pid, _)| *pid)
        .collect();
    loop {
        let children: Vec<i32> = table
            .iter()
            .filter(|(pid, stat)| {
                members.contains(&stat.parent)
                    && !members.contains(pid)
                    && !untouchable.contains(pid)
            })
            .map(|(pid, _)| *pid)
            .collect();
        if children.is_empty() {
            break;
        }
        members.extend(children);
    }
    let mut tree: Vec<Process> = members
        .into_iter()
        .filter_map(|pid| {
            let stat = table.get(&pid)?;
            (!stat.dead).then_some(Process { pid, start_time: stat.start_time })
        })
        .collect();
    tree.sort_unstable();
    tree
}

/// Signals all of `tree_of`, looking again until nobody new appears.
///
/// SIGKILL freezes first: a stopped process cannot fork, so the looking comes to an end even with a fork bomb. Other signals
/// are delivered as found; freezing for them would show every shell its jobs as stopped.
pub fn signal_tree(
    leader: Process,
    marker: Option<&[u8]>,
    signo: i32,
) -> io::Result<TreeSignalled> {
    let signal =
        Signal::from_named_raw(signo).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let first = if signal == Signal::KILL { Signal::STOP } else { signal };
    let mut outcome = TreeSignalled::default();
    let mut seen: HashMap<Process, Option<OwnedFd>> = HashMap::new();
    for _ in 0..MAX_ROUNDS {
        let tree = tree_of(leader, marker);
        let fresh: Vec<Process> =
            tree.into_iter().filter(|process| !seen.contains_key(process)).collect();
        if fresh.is_empty() {
            outcome.complete = true;
            break;
        }
        for process in fresh {
            let fd = pin(process);
            match fd.as_ref().map(|fd| send(fd, first)) {
                Some(Ok(())) => outcome.processes.push(process),
                Some(Err(rustix::io::Errno::PERM)) => outcome.denied.push(process),
                // Ended in between.
                Some(Err(_)) | None => {}
            }
            seen.insert(process, fd);
        }
    }
    if signal == Signal::KILL {
        for fd in seen.values().flatten() {
            let _ = send(fd, Signal::KILL);
        }
    }
    Ok(outcome)
}

fn send(fd: &OwnedFd, signal: Signal) -> Result<(), rustix::io::Errno> {
    rustix::process::pidfd_send_signal(fd, signal)
}

/// A handle to exactly this process: the number is checked after the handle is held.
fn pin(process: Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(process.pid)?;
    let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    (Process::of(process.pid) == Some(process)).then_some(fd)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    session: i32,
    terminal: i32,
    start_time: u64,
    /// A zombie, or about to vanish: nothing left to signal.
    dead: bool,
}

fn read_table() -> HashMap<i32, Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return HashMap::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| Some((pid, read_stat(pid)?)))
        .collect()
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&read_capped(&format!("/proc/{pid}/stat"), MAX_STAT_BYTES)?)
}

/// The name is in parentheses and may itself hold any byte, parentheses included: fields count from the last one.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&bytes[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        terminal: fields.get(4)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// This process, everything above it, and init.
fn ancestors(table: &HashMap<i32, Stat>) -> HashSet<i32> {
    let mut above = HashSet::from([0, 1]);
    let mut pid = std::process::id() as i32;
    while above.insert(pid) {
        match table.get(&pid) {
            Some(stat) => pid = stat.parent,
            None => break,
        }
    }
    above
}

fn has_marker(pid: i32, marker: &[u8]) -> bool {
    read_capped(&format!("/proc/{pid}/environ"), MAX_ENVIRON_BYTES)
        .is_some_and(|environ| environ.split(|byte| *byte == 0).any(|it| it == marker))
}

/// `None` for a process that is gone or not ours to read.
fn read_capped(path: &str, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hostile_name_does_not_move_the_fields() {
        let line = b"42 (a) Z 1 (b)) S 7 42 9 34816 42 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        let expected =
            Stat { parent: 7, session: 9, terminal: 34816, start_time: 12345, dead: false };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat(b"42 (cut) S 7"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_panic(bytes: Vec<u8>) {
            parse_stat(&bytes);
        }
    }

    #[test]
    fn a_process_knows_itself_and_never_signals_upwards() {
        let me = Process::of(std::process::id() as i32).unwrap();
        let tree = tree_of(me, None);
        assert!(!tree.contains(&me), "{tree:?}");
        let parent = Process::of(std::os::unix::process::parent_id() as i32).unwrap();
        assert!(!tree_of(parent, None).contains(&parent));
        assert_eq!(Process::of(-1), None);
    }

    #[test]
    fn a_recycled_leader_finds_nobody() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let real = Process::of(child.id() as i32).unwrap();
        assert_eq!(tree_of(real, None), [real]);
        let earlier = Process { start_time: real.start_time - 1, ..real };
        assert_eq!(tree_of(earlier, None), []);
        assert_eq!(pin(earlier).map(|_| ()), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
