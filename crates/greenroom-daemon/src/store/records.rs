//! Session records as rows.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_engine::SessionId;
use greenroom_engine::process::ExitStatus;
use greenroom_engine::store::{RecordState, SessionRecord};
use greenroom_engine::term::Size;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

const LAST_ID: &str = "session";
const NOTED_SINCE: &str = "noted_since";

/// A row on its way into the file: columns and values.
type NewRow = Vec<(&'static str, Value)>;

/// The members of a record: one that is not here does not compile. Its column is made by a step of
/// `schema`.
macro_rules! members {
    ($($member:ident)*) => {
        fn write(record: &SessionRecord) -> NewRow {
            let mut row = Vec::new();
            $(record.$member.write(&mut row, stringify!($member));)*
            row
        }

        fn read(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
            Ok(SessionRecord { $($member: Stored::read(row, stringify!($member))?,)* })
        }
    };
}

members! { id name chosen former argv cwd size about created key state }

pub(super) fn save(connection: &Connection, record: &SessionRecord) -> rusqlite::Result<()> {
    let (columns, values): (Vec<&str>, Vec<Value>) = write(record).into_iter().unzip();
    let places = vec!["?"; columns.len()].join(", ");
    let columns = columns.join(", ");
    let insert = format!("INSERT OR REPLACE INTO sessions ({columns}) VALUES ({places})");
    connection.prepare_cached(&insert)?.execute(params_from_iter(values))?;
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

/// The first session that has what governs its output noted beside it. Found out once: in a file
/// that an older version filled, it is the next one.
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

/// A member of a record in a row: in the column of its name, unless it says otherwise.
trait Stored: Sized {
    fn write(&self, row: &mut NewRow, member: &'static str);
    fn read(row: &Row<'_>, member: &str) -> rusqlite::Result<Self>;
}

/// What is kept as one value.
macro_rules! stored {
    ($($type:ty: |$value:ident| $write:expr, |$kept:ident: $as:ty| $read:expr;)*) => {
        $(impl Stored for $type {
            fn write(&self, row: &mut NewRow, member: &'static str) {
                let $value = self;
                row.push((member, $write.into()));
            }

            fn read(row: &Row<'_>, member: &str) -> rusqlite::Result<$type> {
                let $kept: $as = row.get(member)?;
                Ok($read)
            }
        })*
    };
}

stored! {
    String: |text| text.clone(), |text: String| text;
    bool: |flag| *flag, |flag: bool| flag;
    Option<String>: |text| text.clone(), |text: Option<String>| text;
    SessionId: |id| id.0 as i64, |id: i64| SessionId(id as u64);
    SystemTime: |time| to_ms(*time), |ms: i64| from_ms(ms);
    PathBuf: |path| path.as_os_str().as_bytes().to_vec(), |path: Vec<u8>| OsString::from_vec(path).into();
    Vec<OsString>: |argv| join_args(argv), |argv: Vec<u8>| split_args(&argv);
}

impl Stored for Size {
    fn write(&self, row: &mut NewRow, _: &'static str) {
        row.extend([("cols", self.cols().into()), ("rows", self.rows().into())]);
    }

    fn read(row: &Row<'_>, _: &str) -> rusqlite::Result<Size> {
        let size = Size::new(row.get("cols")?, row.get("rows")?);
        Ok(size.unwrap_or_else(|| Size::new(80, 24).expect("80x24 is a size")))
    }
}

/// A column that says nothing about a state stays empty.
impl Stored for RecordState {
    fn write(&self, row: &mut NewRow, _: &'static str) {
        let mut put = |word: &str, pid: Option<u32>| {
            row.extend([("state", word.to_owned().into()), ("pid", pid.into())]);
        };
        match self {
            RecordState::Starting => put("starting", None),
            RecordState::Running { pid } => put("running", Some(*pid)),
            RecordState::Failed { why } => {
                put("failed", None);
                row.push(("why", why.clone().into()));
            }
            RecordState::Ended { pid, at, status } => {
                put("ended", Some(*pid));
                row.push(("ended_ms", to_ms(*at).into()));
                match *status {
                    ExitStatus::Code(code) => row.push(("exit_code", code.into())),
                    ExitStatus::Signal(signal) => row.push(("exit_signal", signal.into())),
                    ExitStatus::Unknown => {}
                }
            }
        }
    }

    fn read(row: &Row<'_>, _: &str) -> rusqlite::Result<RecordState> {
        let word: String = row.get("state")?;
        let pid = row.get::<_, Option<u32>>("pid")?.unwrap_or(0);
        Ok(match word.as_str() {
            "starting" => RecordState::Starting,
            "running" => RecordState::Running { pid },
            "failed" => RecordState::Failed {
                why: row.get::<_, Option<String>>("why")?.unwrap_or_default(),
            },
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

    #[test]
    fn what_an_older_version_said_of_a_session_is_kept() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::migrate_to(&mut connection, 2);
        let insert = "INSERT INTO sessions (id, name, argv, cwd, cols, rows, labels, task, created_ms, key, state, effort) \
                      VALUES (?1, 'n', x'', x'', 80, 24, ?2, 'it''s', 5, 'k', 'starting', ?3)";
        connection.execute(insert, params![1, r#"{"team":"red"}"#, "high"]).unwrap();
        connection.execute(insert, params![2, "no JSON", None::<String>]).unwrap();
        super::super::schema::migrate_to(&mut connection, usize::MAX);
        let about = load_all(&connection).unwrap().into_iter().map(|record| record.about);
        assert_eq!(
            about.collect::<Vec<_>>(),
            [
                r#"{"task":"it's","effort":"high","labels":{"team":"red"}}"#,
                r#"{"task":"it's","labels":{}}"#
            ]
        );
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(
            id in 1..1_000_000u64, name in "[a-z]{1,9}", argv in args(), state in states(),
            cols in 1..1000u16, label in ".{0,9}", task in proptest::option::of(".{0,9}"),
        ) {
            let connection = super::super::schema::in_memory();
            // Every member by name: one that is not kept must not be the same by default.
            let record = SessionRecord {
                id: SessionId(id), name, chosen: id % 2 == 0, former: task, argv, cwd: "/a".into(),
                size: Size::new(cols, 5).unwrap(), about: label, created: from_ms(1234), key: "k".into(), state,
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
