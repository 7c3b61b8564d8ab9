//! Who runs: by pid, by parent, by what stands on the command line.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process};

use crate::wait::readable;

/// Sends a signal to a process that must be there.
#[track_caller]
pub fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Whether there is such a process; one that ended and was not waited for counts.
pub fn exists(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()) != Err(Errno::SRCH)
}

/// Whether the process ends in time. A process that nobody waited for has ended.
pub fn gone_within(pid: Pid, limit: Duration) -> bool {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(end) => readable(end, limit),
        Err(errno) => {
            assert_eq!(errno, Errno::SRCH, "{pid:?}");
            true
        }
    }
}

/// Everybody who runs now.
pub fn all() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A file of `/proc` about a process; empty if it is gone.
pub fn about(pid: i32, file: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// The words it was started with.
pub fn arguments(pid: i32) -> Vec<String> {
    let line = String::from_utf8_lossy(&about(pid, "cmdline")).into_owned();
    line.split_terminator('\0').map(str::to_owned).collect()
}

/// What a link of `/proc` about a process points to: `cwd`, `exe`, `fd/0`.
pub fn link(pid: i32, name: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/{name}")).ok()
}

/// Its direct children, also those that ended and were not waited for.
pub fn children(pid: i32) -> Vec<i32> {
    let text = about(pid, &format!("task/{pid}/children"));
    let text = String::from_utf8(text).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The fields of its `stat` behind the name: the state, the parent, and so on.
fn stat(pid: i32) -> Vec<String> {
    let text = String::from_utf8_lossy(&about(pid, "stat")).into_owned();
    let fields = text.rsplit(") ").next().unwrap_or_default();
    fields.split_whitespace().map(str::to_owned).collect()
}

/// Its parent, if it is still there.
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid).get(1)?.parse().ok()
}

/// Whether it has ended and nobody has waited for it yet.
pub fn is_zombie(pid: i32) -> bool {
    stat(pid).first().is_some_and(|state| state == "Z")
}

/// How many files it has open.
pub fn open_files(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Those with this word among their arguments.
pub fn with_argument(word: &str) -> Vec<i32> {
    all().into_iter().filter(|pid| arguments(*pid).iter().any(|one| one == word)).collect()
}

/// Those with this text anywhere on their command line, also inside of a script.
pub fn mentioning(text: &str) -> Vec<i32> {
    all().into_iter().filter(|pid| arguments(*pid).iter().any(|one| one.contains(text))).collect()
}

/// All that work in a directory, or somewhere below it.
pub fn working_below(dir: &Path) -> Vec<i32> {
    let here = |pid: &i32| link(*pid, "cwd").is_some_and(|cwd| cwd.starts_with(dir));
    all().into_iter().filter(here).collect()
}

/// A number of seconds that nobody else sleeps: `sleep MARK` can be found on a command line.
pub fn sleep_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("86400.{:08}{next:04}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::PATIENCE;
    use std::process::Command;

    #[test]
    fn a_process_is_found_in_every_way_and_its_end_is_seen() {
        let (mark, other) = (sleep_mark(), sleep_mark());
        let dir = crate::place::private();
        let mut child = Command::new("sleep").arg(&mark).current_dir(dir.path()).spawn().unwrap();
        let (pid, own) = (child.id() as i32, std::process::id() as i32);
        crate::wait::until("it runs", || with_argument(&mark) == [pid]);
        assert_eq!(mentioning(&mark[1..]), [pid]);
        assert_eq!(working_below(&dir.path().canonicalize().unwrap()), [pid]);
        assert_eq!(with_argument(&other), [] as [i32; 0]);
        assert_eq!(parent(pid), Some(own));
        assert_eq!(arguments(pid), ["sleep", &mark]);
        assert!(exists(pid) && !is_zombie(pid) && open_files(pid) >= 3);
        assert!(!gone_within(Pid::from_child(&child), Duration::from_millis(1)));
        signal(pid, Signal::KILL);
        assert!(gone_within(Pid::from_child(&child), PATIENCE));
        assert!(exists(pid) && is_zombie(pid), "nobody has waited for it");
        child.wait().unwrap();
        assert!(!exists(pid) && parent(pid).is_none());
        assert!(gone_within(Pid::from_raw(pid).unwrap(), Duration::ZERO));
    }
}
