//! The database file: opening it, and bringing an older one up to date.
//!
//! Each step of [`MIGRATIONS`] is run once, in order, inside one transaction with the note that it
//! was. A file from a newer version is refused, not guessed at.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

/// Another process has the file only by accident (a person with the sqlite shell).
const BUSY_PATIENCE: Duration = Duration::from_secs(2);

/// Step N leads from version N to version N + 1. Never change one that was released.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        argv BLOB NOT NULL,
        cwd BLOB NOT NULL,
        cols INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        labels TEXT NOT NULL,
        task TEXT,
        created_ms INTEGER NOT NULL,
        key TEXT NOT NULL,
        state TEXT NOT NULL,
        pid INTEGER,
        ended_ms INTEGER,
        exit_code INTEGER,
        exit_signal INTEGER,
        why TEXT
    );
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        time_ms INTEGER NOT NULL,
        kind TEXT NOT NULL,
        session INTEGER,
        data TEXT
    );
",
    // Names of before were chosen, but for those that are ids.
    "
    ALTER TABLE sessions ADD COLUMN chosen INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE sessions ADD COLUMN former TEXT;
    ALTER TABLE sessions ADD COLUMN backend TEXT;
    ALTER TABLE sessions ADD COLUMN effort TEXT;
",
    // What is said of a session is one text from here on. A merge leaves out what is null.
    "
    ALTER TABLE sessions RENAME COLUMN created_ms TO created;
    ALTER TABLE sessions ADD COLUMN about TEXT NOT NULL DEFAULT '';
    UPDATE sessions SET about = json_patch('{}', json_object('task', task, 'backend', backend, 'effort', effort,
        'labels', json(CASE WHEN json_valid(labels) THEN labels ELSE '{}' END)));
    ALTER TABLE sessions DROP COLUMN labels;
    ALTER TABLE sessions DROP COLUMN task;
    ALTER TABLE sessions DROP COLUMN backend;
    ALTER TABLE sessions DROP COLUMN effort;
",
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    #[error("cannot open the database {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot {step} the database {}: {source}", path.display())]
    Sql { path: PathBuf, step: &'static str, source: rusqlite::Error },
    #[error("the database {} is damaged: {found}", path.display())]
    Damaged { path: PathBuf, found: String },
    #[error(
        "the database {} was written by a newer greenroom (schema {found}, this one knows {known})",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("cannot start the store's thread: {0}")]
    Thread(io::Error),
}

pub(super) fn open(path: &Path) -> Result<Connection, StorageError> {
    // Made by us first: SQLite gives its side files the mode of this one.
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| StorageError::File { path: path.to_owned(), source })?;
    let sql = |step| move |source| StorageError::Sql { path: path.to_owned(), step, source };
    let mut connection = Connection::open(path).map_err(sql("open"))?;
    connection.busy_timeout(BUSY_PATIENCE).map_err(sql("set up"))?;
    // Two daemons never have it at once, and after a power cut the last moments may be missing:
    // sessions do not survive that either.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;",
        )
        .map_err(sql("read"))?;
    // Better now than when the first session is to be saved.
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(sql("check"))?;
    if found != "ok" {
        return Err(StorageError::Damaged { path: path.to_owned(), found });
    }
    migrate(&mut connection, path)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StorageError> {
    migrate_by(MIGRATIONS, connection, path)
}

fn migrate_by(
    steps: &[&str],
    connection: &mut Connection,
    path: &Path,
) -> Result<(), StorageError> {
    let sql = |step| move |source| StorageError::Sql { path: path.to_owned(), step, source };
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL)")
        .map_err(sql("read"))?;
    let found: u32 = connection
        .query_row("SELECT COALESCE(MAX(version), 0) FROM schema", [], |row| row.get(0))
        .map_err(sql("read"))?;
    let known = steps.len() as u32;
    if found > known {
        return Err(StorageError::Newer { path: path.to_owned(), found, known });
    }
    for (version, step) in (1..=known).zip(steps).skip(found as usize) {
        let change = connection.transaction().map_err(sql("update"))?;
        change.execute_batch(step).map_err(sql("update"))?;
        change.execute("DELETE FROM schema", []).map_err(sql("update"))?;
        change
            .execute("INSERT INTO schema (version) VALUES (?1)", [version])
            .map_err(sql("update"))?;
        change.commit().map_err(sql("update"))?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn in_memory() -> Connection {
    let mut connection = Connection::open_in_memory().expect("memory is there");
    migrate_to(&mut connection, usize::MAX);
    connection
}

/// Makes the tables as this version had them, or the newest.
#[cfg(test)]
pub(super) fn migrate_to(connection: &mut Connection, version: usize) {
    let steps = &MIGRATIONS[..version.min(MIGRATIONS.len())];
    migrate_by(steps, connection, Path::new(":memory:")).expect("tables can be made");
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn version(connection: &Connection) -> u32 {
        connection.query_row("SELECT version FROM schema", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_new_file_and_an_old_one_end_at_the_same_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.db");
        assert_eq!(version(&open(&path).unwrap()), MIGRATIONS.len() as u32);
        assert_eq!(version(&open(&path).unwrap()), MIGRATIONS.len() as u32);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn every_step_is_run_exactly_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        // As an older version would have left it: the first step done, the rest not.
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE schema (version INTEGER NOT NULL); INSERT INTO schema VALUES (1)",
            )
            .unwrap();
        migrate(&mut connection, Path::new("g.db")).unwrap();
        assert_eq!(version(&connection), MIGRATIONS.len() as u32);
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.db");
        open(&path).unwrap().execute("UPDATE schema SET version = 999", []).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, StorageError::Newer { found: 999, .. }), "{error}");
    }

    #[test]
    fn garbage_is_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.db");
        std::fs::write(&path, "this is no database, it is a letter to my aunt").unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read the database ") && error.contains("g.db"),
            "{error}"
        );
    }
}
