//! Keeps the cores awake during throughput rounds: a sleeping virtual CPU halves what a PTY can
//! carry, and by chance it would do so to one contender and not to the next. Where the kernel polls
//! before it sleeps they only stand in the way
//! (docs/decisions/006-no-spinners-where-the-kernel-polls.md).
//!
//! The spinners are a process in a session of its own with the least weight. Where the kernel
//! groups tasks by session (autogroup), idle priority counts only inside a group: spinners of ours
//! would yield to the bare reader, which is one of our threads, but take half a core from every
//! contender that is a daemon.

use std::hint::black_box;
use std::io::Read;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// The least weight a group can have.
const LEAST: &str = "19";

/// One idle-priority thread per core, until dropped.
pub struct Spinners {
    child: Child,
    /// Its end is their end, also when we are killed.
    until: Option<ChildStdin>,
}

/// Who decides how an idle core waits.
const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor";

impl Spinners {
    /// None on a kernel that polls before it lets a core sleep: a wake-up finds the core awake
    /// there, and a spinner on it would have to be interrupted first.
    pub fn if_needed() -> Result<Option<Spinners>> {
        let polls = std::fs::read_to_string(GOVERNOR).is_ok_and(|name| name.trim() == "haltpoll");
        (!polls).then(Spinners::start).transpose()
    }

    fn start() -> Result<Spinners> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.arg("spin").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the spinners")?;
        let until = child.stdin.take();
        let mut ready = [0];
        child
            .stdout
            .take()
            .context("the spinners have no output")?
            .read_exact(&mut ready)
            .context("the spinners did not start")?;
        Ok(Spinners { child, until })
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        drop(self.until.take());
        // Gone already is as good.
        let _ = self.child.wait();
    }
}

/// The spinners' own process: spins until stdin ends.
pub fn run() -> Result<()> {
    rustix::process::setsid().context("cannot begin a session")?;
    // A kernel without autogroups has no such file, and no such trouble.
    let _ = std::fs::write("/proc/self/autogroup", LEAST);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for core in 0..cores {
        std::thread::Builder::new()
            .name(format!("spin-{core}"))
            .spawn(move || spin(core))
            .context("cannot start a spinner thread")?;
    }
    println!();
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end")?;
    Ok(())
}

fn spin(core: usize) {
    // Without idle priority a spinner would steal from what is measured: better none.
    if crate::sys::become_idle_priority().is_err() {
        return;
    }
    let mut set = CpuSet::new();
    set.set(core);
    // Not pinned, the scheduler still spreads them: no reason to stop.
    let _ = sched_setaffinity(None, &set);
    let mut n = 0_u64;
    // Not `spin_loop`: its PAUSE makes a hypervisor take the core away, which is what we are here
    // to prevent.
    loop {
        n = black_box(n.wrapping_mul(31).wrapping_add(1));
    }
}
