//! Which processes belong to a session, and signalling all of them.
//!
//! In: the session's warden, or what was noted of it. Out: processes, each pinned by its start
//! time. While its warden lives, the members are exactly those below it
//! (`greenroom_sandbox::lineage`): no other sign is looked at, so a stranger with the same number
//! of terminal, or with a copied environment, is never one. Without a warden (it was killed
//! together with its keeper; or an older image started the session) there is only what was noted:
//! processes with their start times, who is below them, who is in the session the program led while
//! that lives, and who carries the session's marker.
//!
//! Signals go through pidfds whose start time was checked again, so never to somebody with a
//! recycled number. Called by the daemon, never by the keeper's loop.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use greenroom_sandbox::lineage::{self, Stat};
use rustix::process::{Pid, PidfdFlags, Signal};

/// Looks before giving up on a tree that grows faster than it is stopped; its warden never gives
/// up.
const MAX_ROUNDS: usize = 20;
/// The kernel allows more, but a marker is set by us and early; 1 MiB bounds the read per process.
const MAX_ENVIRON_BYTES: u64 = 1024 * 1024;

/// A process, told apart from a later one with the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// Clock ticks after boot.
    pub start_time: u64,
}

impl Process {
    /// Who has this number now.
    pub fn of(pid: i32) -> Option<Process> {
        let stat = Stat::of(pid)?;
        Some(Process { pid, start_time: stat.start_time })
    }

    /// What it calls itself, as long as it is there.
    pub fn name(self) -> Option<String> {
        Stat::of(self.pid).filter(|stat| stat.start_time == self.start_time).map(|stat| stat.name)
    }

    /// Not ended, or not with all of its threads.
    pub fn lives(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.dead)
    }
}

/// What is known of a session's processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Everything is below this one. While it lives the rest is not looked at.
    pub warden: Option<Process>,
    /// The session's program.
    pub program: Option<Process>,
    /// Others that were seen to belong to it.
    pub noted: Vec<Process>,
    /// A whole `NAME=value` of the environment.
    pub marker: Option<Vec<u8>>,
}

/// What signalling a tree achieved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signalled {
    /// Every process that got the signal.
    pub processes: Vec<Process>,
    /// Those this user may not signal (they changed their uid).
    pub denied: Vec<Process>,
    /// No new process appeared in the last look. `false`: the tree grew faster than the bounded
    /// rounds.
    pub complete: bool,
}

impl Tree {
    /// Every living process of the session. Never this process, its ancestors, or pid 1.
    pub fn members(&self) -> Vec<Process> {
        let mut members = match self.warden.filter(|warden| warden.lives()) {
            Some(warden) => below(warden),
            None => self.as_noted(),
        };
        members.sort_unstable();
        members
    }

    fn as_noted(&self) -> Vec<Process> {
        if *self == Tree::default() {
            return Vec::new();
        }
        let table: HashMap<i32, Stat> =
            lineage::pids().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
        let untouchable = ancestors(&table);
        let is = |process: &Process, pid: i32, stat: &Stat| {
            process.pid == pid && process.start_time == stat.start_time
        };
        // Only while it lives does its number mean its session and no other.
        let leader = self.program.filter(|program| {
            table.get(&program.pid).is_some_and(|stat| is(program, program.pid, stat))
        });
        let is_member = |pid: i32, stat: &Stat| {
            self.program.iter().chain(&self.noted).any(|process| is(process, pid, stat))
                || leader.is_some_and(|leader| stat.session == leader.pid)
                || self.marker.as_ref().is_some_and(|marker| has_marker(pid, marker))
        };
        let mut members: HashSet<i32> = table
            .iter()
            .filter(|(pid, stat)| !untouchable.contains(pid) && is_member(**pid, stat))
            .map(|(pid, _)| *pid)
            .collect();
        loop {
            let more = |(pid, stat): &(&i32, &Stat)| {
                members.contains(&stat.parent)
                    && !members.contains(pid)
                    && !untouchable.contains(pid)
            };
            let children: Vec<i32> = table.iter().filter(more).map(|(pid, _)| *pid).collect();
            if children.is_empty() {
                break;
            }
            members.extend(children);
        }
        let living = |pid: i32| {
            let stat = table.get(&pid).filter(|stat| !stat.dead)?;
            Some(Process { pid, start_time: stat.start_time })
        };
        members.into_iter().filter_map(living).collect()
    }

    /// Signals all of them, looking again until nobody new appears.
    ///
    /// SIGKILL freezes first: a stopped process cannot fork, so the looking comes to an end even
    /// with a fork bomb. Other signals are delivered as found; freezing for them would show every
    /// shell its jobs as stopped.
    pub fn signal(&self, signo: i32) -> io::Result<Signalled> {
        let signal = Signal::from_named_raw(signo)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let first = if signal == Signal::KILL { Signal::STOP } else { signal };
        let mut outcome = Signalled::default();
        let mut seen: HashMap<Process, Option<OwnedFd>> = HashMap::new();
        for _ in 0..MAX_ROUNDS {
            let members = self.members();
            let fresh: Vec<Process> =
                members.into_iter().filter(|process| !seen.contains_key(process)).collect();
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
}

/// Those below a warden. One whose parent is not among them any more was somebody else when it was
/// seen.
fn below(warden: Process) -> Vec<Process> {
    let found = lineage::below(warden.pid);
    let living = |pid: &i32| {
        let stat = Stat::of(*pid).filter(|stat| !stat.dead)?;
        let ours = stat.parent == warden.pid || found.contains_key(&stat.parent);
        ours.then_some(Process { pid: *pid, start_time: stat.start_time })
    };
    let members = found.keys().filter_map(living).collect();
    // Its number may have become somebody else's meanwhile.
    if Process::of(warden.pid) == Some(warden) { members } else { Vec::new() }
}

fn send(fd: &OwnedFd, signal: Signal) -> Result<(), rustix::io::Errno> {
    rustix::process::pidfd_send_signal(fd, signal)
}

/// One signal to exactly this process.
pub(crate) fn signal_one(process: Process, signo: i32) -> Result<(), i32> {
    let fd = pin(process).ok_or(libc::ESRCH)?;
    crate::signals::signal_pidfd(fd.as_fd(), signo, false)
}

/// A handle to exactly this process: the number is checked after the handle is held.
pub(crate) fn pin(process: Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(process.pid)?;
    let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    (Process::of(process.pid) == Some(process)).then_some(fd)
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
    environ(pid).split(|byte| *byte == 0).any(|it| it == marker)
}

/// Everybody who has this variable in the environment, by its value. Never this process, its
/// ancestors, or pid 1.
pub fn marked(variable: &str) -> HashMap<Vec<u8>, Vec<Process>> {
    let start = format!("{variable}=").into_bytes();
    let mut found: HashMap<Vec<u8>, Vec<Process>> = HashMap::new();
    let table = lineage::pids().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let untouchable = ancestors(&table);
    for (pid, stat) in table.iter().filter(|(pid, _)| !untouchable.contains(pid)) {
        let environ = environ(*pid);
        let value = environ.split(|byte| *byte == 0).find_map(|it| it.strip_prefix(&start[..]));
        if let Some(value) = value {
            let process = Process { pid: *pid, start_time: stat.start_time };
            found.entry(value.to_vec()).or_default().push(process);
        }
    }
    found
}

/// Empty for a process that is gone or not ours to read.
fn environ(pid: i32) -> Vec<u8> {
    let mut environ = Vec::new();
    if let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) {
        let _ = file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ);
    }
    environ
}
