//! Who is below a process: its children, theirs, and so on, as the kernel says now.
//!
//! In: a pid. Out: pids with the parent each was seen below. Complete as far as descent goes: where
//! the one at the top reaps orphans, nothing that was ever started below it is missing. Processes
//! that have ended and wait to be reaped count too. Absent on purpose: signals, and any other sign
//! of kinship (terminals, groups, environments), which a stranger may share.

use std::collections::HashMap;

/// The most processes that one look finds; callers look again until nobody new appears.
const MOST_PER_ROUND: usize = 65_536;

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    pub parent: i32,
    pub session: i32,
    /// Clock ticks after boot.
    pub start_time: u64,
    /// Only to be reaped: it has ended with all of its threads.
    pub dead: bool,
}

impl Stat {
    /// `None` for a process that is gone.
    pub fn of(pid: i32) -> Option<Stat> {
        Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in parentheses and may itself hold any byte, parentheses included: fields count
    /// from the last one.
    pub fn parse(bytes: &[u8]) -> Option<Stat> {
        let begin = bytes.iter().position(|byte| *byte == b'(')?;
        let end = bytes.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&bytes[end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // A first thread that has ended shows as a zombie while others of its process run on.
        let threads: u64 = fields.get(17)?.parse().ok()?;
        let over = match *fields.first()? {
            "X" | "x" => true,
            state => state == "Z" && threads <= 1,
        };
        Some(Stat {
            name: String::from_utf8_lossy(bytes.get(begin + 1..end)?).into_owned(),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
            dead: over,
        })
    }
}

/// Everybody below a process: pid → parent.
pub fn below(root: i32) -> HashMap<i32, i32> {
    let mut found = HashMap::new();
    let mut to_visit = vec![root];
    while let Some(parent) = to_visit.pop() {
        for child in children_of(parent, parent == root) {
            if found.len() >= MOST_PER_ROUND {
                return found;
            }
            if found.insert(child, parent).is_none() {
                to_visit.push(child);
            }
        }
    }
    found
}

/// Its own children only.
pub fn children(pid: i32) -> Vec<i32> {
    children_of(pid, true)
}

/// The children of each of its threads. With `must`, all of `/proc` is searched if the process
/// itself cannot be looked at: it may be hidden from us while its children are not.
fn children_of(pid: i32, must: bool) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return if must { children_by_search(pid) } else { Vec::new() };
    };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(text) => {
                children
                    .extend(text.split_ascii_whitespace().filter_map(|it| it.parse::<i32>().ok()));
            }
            // A kernel without these lists, unless the thread is only gone.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && thread.path().exists() =>
            {
                return children_by_search(pid);
            }
            Err(_) => {}
        }
    }
    children
}

fn children_by_search(parent: i32) -> Vec<i32> {
    pids().filter(|pid| Stat::of(*pid).is_some_and(|it| it.parent == parent)).collect()
}

/// Every process that can be seen.
pub fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_children() {
        let own = std::process::id() as i32;
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        assert_eq!(Stat::of(pid).unwrap().parent, own);
        assert!(children_of(own, true).contains(&pid));
        assert!(children_by_search(own).contains(&pid));
        assert_eq!(below(own).get(&pid), Some(&own));
        assert_eq!(below(own).get(&1), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(below(own).get(&pid), None);
    }

    #[test]
    fn a_hostile_name_does_not_move_the_fields() {
        let line = |state: &str, threads: u32| {
            format!(
                "42 (a) Z 1 (b)) {state} 7 42 9 34816 42 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 12345 0 0"
            )
        };
        let stat = Stat::parse(line("S", 1).as_bytes()).unwrap();
        let name = "a) Z 1 (b)".to_owned();
        let expected = Stat { name, parent: 7, session: 9, start_time: 12345, dead: false };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse(b"42 (cut) S 7"), None);
        assert!(Stat::parse(line("Z", 1).as_bytes()).unwrap().dead);
        assert!(!Stat::parse(line("Z", 2).as_bytes()).unwrap().dead, "threads run on");
    }
}
