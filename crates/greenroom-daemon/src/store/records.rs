//! Session records as rows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_engine::SessionId;
use greenroom_engine::process::ExitStatus;
use greenroom_engine::store::{RecordState, SessionRecord};
use greenroom_engine::term::Size;
use rusqlite::{Connection, Row, params};

const LAST_ID: &str = "session";
const NOTED_SINCE: &str = "noted_since";

pub(super) fn save(connection: &Connection, record: &SessionRecord) -> rusqlite::Result<()> {
    let state = Columns::of(&record.state);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO sessions (id, name, argv, cwd, cols, rows, labels, task, \
             created_ms, key, state, pid, ended_ms, exit_code, exit_signal, why, chosen, former, \
             backend, effort) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
             ?18, ?19, ?20)",
        )?
        .execute(params![
            record.id.0 as i64,
            record.name,
            join_args(&record.argv),
            record.cwd.as_os_str().as_bytes(),
            record.size.cols(),
            record.size.rows(),
            serde_json::to_string(&record.labels).expect("a map of texts is JSON"),
            record.task,
            to_ms(record.created),
            record.key,
            state.word,
            state.pid,
            state.ended_ms,
            state.exit_code,
            state.exit_signal,
            state.why,
            record.chosen,
            record.former,
            record.backend,
            record.effort,
        ])?;
    // An id is used once it is saved; the counter outlives the row.
    connection
        .prepare_cached(
            "INSERT INTO counters (name, value) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET value = MAX(value, excluded.value)",
        )?
        .execute(params![LAST_ID, record.id.0 as i64])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, id: SessionId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id.0 as i64])?;
    Ok(())
}

/// The greatest id ever saved.
pub(super) fn last_id(connection: &Connection) -> rusqlite::Result<u64> {
    let last: i64 = connection.query_row(
        "SELECT COALESCE((SELECT value FROM counters WHERE name = ?1), 0)",
        [LAST_ID],
        |row| row.get(0),
    )?;
    Ok(last.max(0) as u64)
}

/// The first session that has what governs its output noted beside it. Found out once: in a file that an older version
/// filled, it is the next one.
pub(super) fn noted_since(connection: &Connection) -> rusqlite::Result<u64> {
    let next = last_id(connection)? as i64 + 1;
    connection
        .prepare_cached("INSERT OR IGNORE INTO counters (name, value) VALUES (?1, ?2)")?
        .execute(params![NOTED_SINCE, next])?;
    let since: i64 = connection.query_row(
        "SELECT value FROM counters WHERE name = ?1",
        [NOTED_SINCE],
        |row| row.get(0),
    )?;
    Ok(since.max(0) as u64)
}

pub(super) fn load_all(connection: &Connection) -> rusqlite::Result<Vec<SessionRecord>> {
    let mut query = connection.prepare("SELECT * FROM sessions ORDER BY id")?;
    // A row that makes no sense costs that session its name, not the host its sessions.
    let rows = query.query_map([], read)?.filter_map(|row| match row {
        Err(error @ rusqlite::Error::SqliteFailure(..)) => Some(Err(error)),
        Err(error) => {
            tracing::error!(%error, "the record of a session cannot be read");
            None
        }
        row => Some(row),
    });
    rows.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    let labels: String = row.get("labels")?;
    let labels: BTreeMap<String, String> = serde_json::from_str(&labels).unwrap_or_default();
    let argv: Vec<u8> = row.get("argv")?;
    let cwd: Vec<u8> = row.get("cwd")?;
    Ok(SessionRecord {
        id: SessionId(row.get::<_, i64>("id")? as u64),
        name: row.get("name")?,
        chosen: row.get("chosen")?,
        former: row.get("former")?,
        argv: split_args(&argv),
        cwd: PathBuf::from(OsString::from_vec(cwd)),
        size: Size::new(row.get("cols")?, row.get("rows")?).unwrap_or_else(default_size),
        labels,
        task: row.get("task")?,
        backend: row.get("backend")?,
        effort: row.get("effort")?,
        created: from_ms(row.get("created_ms")?),
        key: row.get("key")?,
        state: state_of(row)?,
    })
}

fn default_size() -> Size {
    Size::new(80, 24).expect("80x24 is a size")
}

struct Columns<'a> {
    word: &'static str,
    pid: Option<u32>,
    ended_ms: Option<i64>,
    exit_code: Option<i32>,
    exit_signal: Option<i32>,
    why: Option<&'a str>,
}

impl Columns<'_> {
    fn of(state: &RecordState) -> Columns<'_> {
        let blank = Columns {
            word: "starting",
            pid: None,
            ended_ms: None,
            exit_code: None,
            exit_signal: None,
            why: None,
        };
        match state {
            RecordState::Starting => blank,
            RecordState::Running { pid } => Columns { word: "running", pid: Some(*pid), ..blank },
            RecordState::Failed { why } => Columns { word: "failed", why: Some(why), ..blank },
            RecordState::Ended { pid, at, status } => {
                let (exit_code, exit_signal) = match status {
                    ExitStatus::Code(code) => (Some(*code), None),
                    ExitStatus::Signal(signal) => (None, Some(*signal)),
                    ExitStatus::Unknown => (None, None),
                };
                let ended_ms = Some(to_ms(*at));
                Columns {
                    word: "ended",
                    pid: Some(*pid),
                    ended_ms,
                    exit_code,
                    exit_signal,
                    why: None,
                }
            }
        }
    }
}

fn state_of(row: &Row<'_>) -> rusqlite::Result<RecordState> {
    let word: String = row.get("state")?;
    let pid: Option<u32> = row.get("pid")?;
    let pid = pid.unwrap_or(0);
    Ok(match word.as_str() {
        "starting" => RecordState::Starting,
        "running" => RecordState::Running { pid },
        "failed" => {
            RecordState::Failed { why: row.get::<_, Option<String>>("why")?.unwrap_or_default() }
        }
        _ => {
            let status = match (row.get("exit_code")?, row.get("exit_signal")?) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, Some(signal)) => ExitStatus::Signal(signal),
                (None, None) => ExitStatus::Unknown,
            };
            let at = from_ms(row.get::<_, Option<i64>>("ended_ms")?.unwrap_or(0));
            RecordState::Ended { pid, at, status }
        }
    })
}

/// Arguments cannot hold a NUL byte, so one ends each of them.
fn join_args(argv: &[OsString]) -> Vec<u8> {
    argv.iter().flat_map(|arg| arg.as_bytes().iter().copied().chain([0])).collect()
}

fn split_args(bytes: &[u8]) -> Vec<OsString> {
    bytes
        .split_inclusive(|byte| *byte == 0)
        .map(|arg| OsString::from_vec(arg.strip_suffix(&[0]).unwrap_or(arg).to_vec()))
        .collect()
}

pub(super) fn to_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn states() -> impl Strategy<Value = RecordState> {
        let status = prop_oneof![
            any::<i32>().prop_map(ExitStatus::Code),
            (1..65i32).prop_map(ExitStatus::Signal),
            Just(ExitStatus::Unknown),
        ];
        prop_oneof![
            Just(RecordState::Starting),
            any::<u32>().prop_map(|pid| RecordState::Running { pid }),
            ".{0,20}".prop_map(|why| RecordState::Failed { why }),
            (any::<u32>(), 0..4_000_000_000_000i64, status)
                .prop_map(|(pid, at, status)| RecordState::Ended { pid, at: from_ms(at), status }),
        ]
    }

    fn args() -> impl Strategy<Value = Vec<OsString>> {
        let arg = proptest::collection::vec(1u8.., 0..12).prop_map(OsString::from_vec);
        proptest::collection::vec(arg, 0..5)
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(
            id in 1..1_000_000u64, name in "[a-z]{1,9}", argv in args(), state in states(),
            cols in 1..1000u16, label in ".{0,9}", task in proptest::option::of(".{0,9}"),
        ) {
            let connection = super::super::schema::in_memory();
            let record = SessionRecord {
                id: SessionId(id), name, chosen: id % 2 == 0, former: task.clone(), argv, cwd: "/a".into(),
                size: Size::new(cols, 5).unwrap(),
                labels: [("k".to_owned(), label)].into(), backend: task.clone(), effort: None, task,
                created: from_ms(1234), key: "k".into(), state,
            };
            save(&connection, &record).unwrap();
            prop_assert_eq!(load_all(&connection).unwrap(), vec![record]);
            prop_assert_eq!(last_id(&connection).unwrap(), id);
            remove(&connection, SessionId(id)).unwrap();
            prop_assert_eq!(last_id(&connection).unwrap(), id);
            prop_assert!(load_all(&connection).unwrap().is_empty());
        }
    }
}
