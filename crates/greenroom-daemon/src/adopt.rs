//! What an earlier daemon left: the store's records and the keeper's holdings, put together.
//!
//! A record the keeper knows nothing of belongs to a session that is over. A session without a
//! record (the database was lost) is not thrown away: its record is made anew from what the
//! kernel says of its process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_engine::engine::Known;
use greenroom_engine::process::{Held, KEY_VARIABLE};
use greenroom_engine::store::{RecordState, SessionRecord};
use greenroom_keeper::{SessionEntry, SessionState};

use crate::keeper::exit_status;

/// Longest file of `/proc` that is read: an environment of the largest kind.
const PROC_MAX: usize = 4 * 1024 * 1024;

/// Pairs records with what the keeper holds. Sessions from `noted_since` on had noted what governs
/// their output.
pub(crate) fn known(
    records: Vec<SessionRecord>,
    held: Vec<(SessionEntry, Option<Held>)>,
    noted_since: u64,
) -> Vec<Known> {
    let mut held: BTreeMap<u64, (SessionEntry, Option<Held>)> =
        held.into_iter().map(|(entry, held)| (entry.id.0, (entry, held))).collect();
    let mut known: Vec<Known> = records
        .into_iter()
        .map(|record| {
            let noted = record.id.0 >= noted_since;
            match held.remove(&record.id.0) {
                Some((entry, held)) => Known { record, held, status: status(&entry), noted },
                None => Known { record, held: None, status: None, noted },
            }
        })
        .collect();
    for (_, (entry, held)) in held {
        tracing::warn!(session = entry.id.0, pid = entry.pid, "a session without a record");
        let noted = entry.id.0 >= noted_since;
        known.push(Known { record: made_anew(&entry), held, status: status(&entry), noted });
    }
    known
}

/// Sessions whose record is lost and that run no more: their recordings are there, and can be read.
pub(crate) fn without_record(sessions: &Path, known: &[Known]) -> Vec<Known> {
    let ended = |id: u64| {
        let at = std::fs::metadata(sessions.join(SessionId(id).to_string()))
            .and_then(|meta| meta.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let status = greenroom_engine::process::ExitStatus::Unknown;
        SessionRecord {
            created: at,
            state: RecordState::Ended { pid: 0, at, status },
            ..SessionRecord::new(SessionId(id))
        }
    };
    // A directory without terms is what is left of a session that never ran.
    let began = |id: &u64| sessions.join(SessionId(*id).to_string()).join("terms").exists();
    directories(sessions)
        .filter(|id| !known.iter().any(|one| one.record.id.0 == *id))
        .filter(began)
        .map(|id| Known { record: ended(id), held: None, status: None, noted: true })
        .collect()
}

/// The greatest id that has a directory: it must not come again, whatever the database knows.
pub(crate) fn last_directory(sessions: &Path) -> u64 {
    directories(sessions).max().unwrap_or(0)
}

fn directories(sessions: &Path) -> impl Iterator<Item = u64> {
    let names = std::fs::read_dir(sessions).into_iter().flatten().flatten();
    names.filter_map(|entry| Some(entry.file_name().to_str()?.parse::<SessionId>().ok()?.0))
}

fn status(entry: &SessionEntry) -> Option<greenroom_engine::process::ExitStatus> {
    match entry.state {
        SessionState::Exited(status) => Some(exit_status(status)),
        SessionState::Starting | SessionState::Running => None,
    }
}

fn made_anew(entry: &SessionEntry) -> SessionRecord {
    let proc = PathBuf::from(format!("/proc/{}", entry.pid));
    let words = |name: &str| -> Vec<OsString> {
        let bytes = read_capped(&proc.join(name));
        bytes
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect()
    };
    let key = words("environ")
        .into_iter()
        .filter_map(|word| word.into_string().ok())
        .find_map(|word| Some(word.strip_prefix(KEY_VARIABLE)?.strip_prefix('=')?.to_owned()));
    SessionRecord {
        argv: words("cmdline"),
        cwd: std::fs::read_link(proc.join("cwd")).unwrap_or_else(|_| "/".into()),
        key: key.unwrap_or_default(),
        state: RecordState::Running { pid: u32::try_from(entry.pid).unwrap_or(0) },
        ..SessionRecord::new(SessionId(entry.id.0))
    }
}

fn read_capped(path: &Path) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // What could not be read is missing from the record, which is a guess anyway.
        let _ = file.take(PROC_MAX as u64).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use greenroom_keeper as keeper;

    use super::*;

    fn entry(id: u64, state: SessionState) -> SessionEntry {
        SessionEntry { id: keeper::SessionId(id), pid: std::process::id() as i32, state }
    }

    #[test]
    fn records_and_holdings_are_paired() {
        let mut record = made_anew(&entry(1, SessionState::Running));
        record.name = "mine".to_owned();
        let mut over = record.clone();
        over.id = SessionId(2);
        let exited = SessionState::Exited(keeper::ExitStatus::Code(3));
        let held = vec![(entry(1, exited), None), (entry(9, SessionState::Running), None)];
        let known = known(vec![record, over], held, 2);
        let seen: Vec<_> = known.iter().map(|one| (one.record.id.0, one.status)).collect();
        let code = greenroom_engine::process::ExitStatus::Code(3);
        assert_eq!(seen, [(1, Some(code)), (2, None), (9, None)]);
        assert_eq!(known[0].record.name, "mine");
        let noted: Vec<bool> = known.iter().map(|one| one.noted).collect();
        assert_eq!(noted, [false, true, true]);
    }

    #[test]
    fn a_lost_record_is_made_from_the_process() {
        let record = made_anew(&entry(7, SessionState::Running));
        assert_eq!(record.name, "s7");
        assert_eq!(record.cwd, std::env::current_dir().unwrap());
        assert!(!record.argv.is_empty());
    }
}
