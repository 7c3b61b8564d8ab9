//! What a process costs: memory, CPU time, wake-ups. Read from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Proportional set size in KiB: private pages, and shared ones divided by their users.
pub fn pss_kib(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    field(&text, "Pss:").with_context(|| format!("{path} has no Pss line"))
}

/// How often the threads of a process went to sleep and were woken.
pub fn wakeups(pid: u32) -> Result<u64> {
    let mut sum = 0;
    let folder = format!("/proc/{pid}/task");
    for task in std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let path = task?.path().join("status");
        // A thread that ended between the two reads has nothing more to add.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        sum += field(&text, "voluntary_ctxt_switches:").unwrap_or(0);
    }
    Ok(sum)
}

/// CPU time of several processes together.
pub fn cpu(pids: &[u32]) -> Result<Duration> {
    pids.iter()
        .map(|pid| {
            crate::sys::process_cpu(*pid).with_context(|| format!("no CPU clock of process {pid}"))
        })
        .sum()
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_can_be_read() {
        let pid = std::process::id();
        assert!(pss_kib(pid).unwrap() > 100);
        assert!(cpu(&[pid]).unwrap() > Duration::ZERO);
        wakeups(pid).unwrap();
    }

    #[test]
    fn fields_are_taken_whole() {
        let text = "nonvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t12\nPss:    34 kB\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(field(text, "Pss:"), Some(34));
        assert_eq!(field(text, "Rss:"), None);
    }
}
