//! Keeps the cores awake during throughput rounds: a sleeping virtual CPU halves what a PTY can carry, and by
//! chance it would do so to one contender and not to the next.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// One idle-priority thread per core, until dropped.
pub struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    pub fn start() -> Result<Spinners> {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores)
            .map(|core| {
                let stop = Arc::clone(&stop);
                std::thread::Builder::new()
                    .name(format!("spin-{core}"))
                    .spawn(move || spin(core, &stop))
                    .context("cannot start a spinner thread")
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Spinners { stop, threads })
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A spinner that panicked has stopped spinning, which is all that is wanted here.
            let _ = thread.join();
        }
    }
}

fn spin(core: usize, stop: &AtomicBool) {
    // Without idle priority a spinner would steal from what is measured: better none.
    if crate::sys::become_idle_priority().is_err() {
        return;
    }
    let mut set = CpuSet::new();
    set.set(core);
    // Not pinned, the scheduler still spreads them: no reason to stop.
    let _ = sched_setaffinity(None, &set);
    let mut n = 0_u64;
    // Not `spin_loop`: its PAUSE makes a hypervisor take the core away, which is what we are here to prevent.
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            n = black_box(n.wrapping_mul(31).wrapping_add(1));
        }
    }
}
