//! Watching over a program where no pid namespace holds it: nothing that it started is ever lost
//! from sight.
//!
//! In: the program's pid, and how many processes it may have. Out: this process's own end, once
//! every descendant has gone. Either everything ends with the program (`over`: sandboxes and
//! plugins), or what it left lives on and is held (`hold`: plain sessions). Orphans come home here
//! (this process is their reaper), so neither a double fork nor a session of their own leads out,
//! and a cleared environment hides nobody. Who is asked to end (SIGTERM, also when the keeper dies)
//! freezes all of them first: a stopped process cannot fork. Signals go to handles whose parent was
//! checked, never to a recycled number.
//!
//! A fork bomb could outrun that, so it is kept small from the start: by a limit on all of the
//! user's processes, as many as there are now and some more; root, whom that limit does not bind,
//! is watched with a priority no bomb has. This process never gives up. Not held: at level bare a
//! program may kill this process itself; its orphans then belong to the keeper. Absent on purpose:
//! any fd.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::sys;
use crate::lineage::{Stat, below};

/// How soon too many processes are noticed. A look costs a few microseconds for an ordinary
/// program.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Signals wake it.
const NOTHING_TO_COUNT: Duration = Duration::from_secs(3600);
/// Between two looks while frozen or killed processes are on their way out.
const NEXT_ROUND: Duration = Duration::from_millis(2);
/// The same, once so many looks have not helped: somebody left may not be killed by us, and is
/// waited for.
const MANY_ROUNDS: u32 = 500;
const LATER_ROUND: Duration = Duration::from_millis(250);

/// Room for what the user's other programs start meanwhile: the kernel counts those too.
const OTHERS: u64 = 256;

/// No user has more processes than this.
const MOST_OF_ANYBODY: u64 = 1 << 22;

/// The limit on the user's processes and threads that lets this program have so many. The kernel
/// also counts those that cannot be seen from inside of a container, so whether a limit leaves room
/// is tried.
pub(crate) fn most_of_user(own: u64) -> u64 {
    let mut most = seen_of_user() + own + OTHERS;
    while !leaves_room(most) && most < MOST_OF_ANYBODY {
        most = most * 2 + own + OTHERS;
    }
    most
}

/// Whether one more process can be made under such a limit.
fn leaves_room(most: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nproc);
    let current = Some(before.maximum.map_or(most, |maximum| most.min(maximum)));
    if setrlimit(Resource::Nproc, Rlimit { current, maximum: before.maximum }).is_err() {
        return true;
    }
    let forked = sys::fork();
    let _ = match forked {
        Ok(None) => sys::exit(0),
        Ok(Some(pid)) => sys::wait(pid).map(drop),
        Err(errno) => Err(errno),
    };
    let _ = setrlimit(Resource::Nproc, before);
    forked != Err(Errno::AGAIN)
}

fn seen_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let uid = rustix::process::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter(|entry| is_pid(&entry.file_name()));
    let of_user = pids.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == uid));
    let threads =
        |path: std::path::PathBuf| std::fs::read_dir(path.join("task")).map(Iterator::count);
    let seen: usize = of_user.map(|entry| threads(entry.path()).unwrap_or(1)).sum();
    seen as u64
}

fn is_pid(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|it| it.parse::<i32>().is_ok())
}

/// Makes this process the reaper of orphans. Call it before the program exists, so that every
/// orphan of the program comes here.
pub(crate) fn begin() -> Result<(), Errno> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Makes this process, which was forked for it and has one thread, the one that holds everything
/// `program` will start, and starts it. `program` borrows this memory and must exec or exit. `Ok`
/// once it has done either.
///
/// From here on this process takes no signal but KILL and the two that `hold` waits for; the death
/// of `starter`, its parent, is one of them.
pub fn start(starter: i32, program: impl FnOnce()) -> Result<i32, Errno> {
    sys::block_signals(true);
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // It was gone before that.
    if rustix::process::getppid().map(|it| it.as_raw_nonzero().get()) != Some(starter) {
        sys::exit(0);
    }
    begin()?;
    sys::fork_to_exec(program)
}

/// Never returns. `tell` hears once how the program ended; what it left goes on, and is held on.
/// Ends when nobody is left: by themselves, or all at once when somebody asks (SIGTERM, also when
/// whoever started this dies).
pub fn hold(program: i32, mut tell: impl FnMut(i32)) -> ! {
    let mut program = Some(program);
    loop {
        loop {
            match sys::reap_one() {
                Ok(Some((pid, status))) if Some(pid) == program => {
                    // The number is free now.
                    program = None;
                    tell(status);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => sys::exit(0),
            }
        }
        if sys::next_signal(NOTHING_TO_COUNT) == Some(libc::SIGTERM) {
            if let Some(status) = end_all(program.unwrap_or(0)) {
                tell(status);
            }
            sys::exit(0);
        }
    }
}

/// Never returns: ends as the program ends, and after everything else it started.
pub(crate) fn over(program: i32, most: Option<u64>) -> ! {
    // Also the pipes, whose ends must be seen, and the control socket, whose end means that the
    // program runs.
    let _ = sys::close_from(0, false);
    sys::hide_memory();
    // The kernel refuses this to all but root; only root needs it, since limits on processes bind
    // everybody else.
    sys::run_before_others();
    let mut ended = None;
    let patience = if most.is_some() { LOOK_EVERY } else { NOTHING_TO_COUNT };
    loop {
        let signal = sys::next_signal(patience);
        while let Ok(Some((pid, status))) = sys::reap_one() {
            if pid == program {
                ended = Some(status);
            }
        }
        let crowded = most.is_some_and(|most| below(own_pid()).len() as u64 > most);
        if ended.is_some() || crowded || signal == Some(libc::SIGTERM) {
            let told = end_all(program);
            // Killed for having too many, or because somebody asked: as if it had been the signal
            // itself.
            sys::end_like(ended.or(told).unwrap_or(libc::SIGKILL));
        }
    }
}

/// Processes in this pid namespace besides this one, which is its first.
pub(crate) fn inhabitants() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter(|entry| is_pid(&entry.file_name())).count();
    (pids as u64).saturating_sub(1)
}

/// Freezes and kills until nobody is left. The program's status, if it ended only now.
fn end_all(program: i32) -> Option<i32> {
    let mut status = None;
    let mut frozen = HashSet::new();
    for round in 0_u32.. {
        let found = below(own_pid());
        let fresh: Vec<i32> = found.keys().copied().filter(|pid| frozen.insert(*pid)).collect();
        for pid in &fresh {
            let _ = send(*pid, &found, Signal::STOP);
        }
        if fresh.is_empty() {
            // Nobody new since the last look: nobody forks any more.
            for pid in found.keys() {
                let _ = send(*pid, &found, Signal::KILL);
            }
            // What dies leaves its number to others.
            frozen.clear();
        }
        loop {
            match sys::reap_one() {
                Ok(Some((pid, ended))) if pid == program => status = Some(ended),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return status,
            }
        }
        if fresh.is_empty() {
            let pause = if round < MANY_ROUNDS { NEXT_ROUND } else { LATER_ROUND };
            let _ = sys::next_signal(pause);
        }
    }
    status
}

/// Only if it still is the child of who was seen to be its parent, or has come home meanwhile.
fn send(pid: i32, found: &HashMap<i32, i32>, signal: Signal) -> bool {
    let Some(handle) = Pid::from_raw(pid)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return false;
    };
    let me = own_pid();
    let ours = Stat::of(pid).is_some_and(|it| it.parent == me || found.contains_key(&it.parent));
    ours && rustix::process::pidfd_send_signal(&handle, signal).is_ok()
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_leaves_no_room_is_found() {
        // Root is not bound by it.
        assert_eq!(leaves_room(0), rustix::process::getuid().is_root());
        assert!(seen_of_user() >= 1);
        assert!(most_of_user(9) > 9 + OTHERS);
    }

    #[test]
    fn a_stranger_gets_no_signal() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        // CONT, which would do nobody any harm.
        let parent = std::os::unix::process::parent_id() as i32;
        assert!(!send(parent, &HashMap::new(), Signal::CONT));
        assert!(send(child.id() as i32, &HashMap::new(), Signal::KILL));
        assert!(!child.wait().unwrap().success());
    }
}
