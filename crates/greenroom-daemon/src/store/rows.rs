//! Events as rows: put at the end, read in pages, dropped from the front.

use std::time::SystemTime;

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::event::Event;
use greenroom_protocol::events::Payload;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

/// An event before it has its number.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    pub time: Timestamp,
    pub kind: &'static str,
    pub session: Option<u64>,
    pub data: serde_json::Value,
}

impl NewEvent {
    /// It happens now.
    pub(crate) fn now(session: Option<u64>, event: Payload) -> NewEvent {
        let time = Timestamp::from_system(SystemTime::now());
        NewEvent { time, kind: event.kind, session, data: event.data }
    }
}

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    /// Only events with a greater id.
    pub since: u64,
    /// Exact kinds, or `group.*`; empty = all.
    pub kinds: Vec<String>,
    /// Empty = all.
    pub sessions: Vec<u64>,
    pub limit: usize,
}

/// A page of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub events: Vec<Event>,
    /// Where the next page begins.
    pub next_since: u64,
    pub has_more: bool,
    /// Events after `since` that are no longer kept.
    pub dropped: u64,
}

impl Query {
    /// The same choice as the SQL makes, for events that come live.
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| fits(kind, &event.kind));
        let session = self.sessions.is_empty()
            || event
                .session
                .as_deref()
                .and_then(number)
                .is_some_and(|id| self.sessions.contains(&id));
        event.id > self.since && kind && session
    }
}

fn fits(wanted: &str, kind: &str) -> bool {
    match wanted.strip_suffix(".*") {
        Some(group) => kind.strip_prefix(group).is_some_and(|rest| rest.starts_with('.')),
        None => wanted == kind || wanted == "*",
    }
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix('s')?.parse().ok()
}

pub(super) fn insert(connection: &Connection, event: NewEvent) -> rusqlite::Result<Event> {
    let data = (!event.data.is_null()).then(|| event.data.to_string());
    connection
        .prepare_cached(
            "INSERT INTO events (time_ms, kind, session, data) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            event.time.unix_ms() as i64,
            event.kind,
            event.session.map(|id| id as i64),
            data
        ])?;
    Ok(Event {
        id: connection.last_insert_rowid() as u64,
        time: event.time,
        kind: event.kind.to_owned(),
        session: event.session.map(|id| format!("s{id}")),
        data: event.data,
    })
}

/// Drops all but the newest `keep`.
pub(super) fn prune(connection: &Connection, keep: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM events WHERE id <= (SELECT MAX(id) FROM events) - ?1")?
        .execute([keep as i64])?;
    Ok(())
}

pub(super) fn newest(connection: &Connection) -> rusqlite::Result<u64> {
    // Also when every row is gone: the next id is greater than any before.
    let newest: Option<i64> = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?
        .query_row([], |row| row.get(0))
        .or_else(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => Ok(None),
            error => Err(error),
        })?;
    Ok(newest.unwrap_or(0) as u64)
}

pub(super) fn page(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let newest = newest(connection)?;
    let oldest: Option<i64> =
        connection.prepare_cached("SELECT MIN(id) FROM events")?.query_row([], |row| row.get(0))?;
    let oldest = oldest.map_or(newest + 1, |oldest| oldest as u64);
    let (sql, values) = select(query);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut events = statement
        .query_map(params_from_iter(values), |row| {
            let data: Option<String> = row.get(4)?;
            Ok(Event {
                id: row.get::<_, i64>(0)? as u64,
                time: Timestamp(row.get::<_, i64>(1)? as u64),
                kind: row.get(2)?,
                session: row.get::<_, Option<i64>>(3)?.map(|id| format!("s{id}")),
                data: data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default(),
            })
        })?
        .collect::<rusqlite::Result<Vec<Event>>>()?;
    let has_more = events.len() > query.limit;
    events.truncate(query.limit);
    let next_since = match events.last() {
        Some(last) if has_more => last.id,
        _ => newest.max(query.since),
    };
    let dropped = oldest.saturating_sub(query.since + 1);
    Ok(Page { events, next_since, has_more, dropped })
}

fn select(query: &Query) -> (String, Vec<Value>) {
    let mut sql = "SELECT id, time_ms, kind, session, data FROM events WHERE id > ?".to_owned();
    let mut values = vec![Value::from(query.since.min(i64::MAX as u64) as i64)];
    let all = query.kinds.is_empty() || query.kinds.iter().any(|kind| kind == "*");
    if !all {
        let mut tests = Vec::new();
        for kind in &query.kinds {
            match kind.strip_suffix(".*") {
                Some(group) => {
                    let prefix = Value::from(format!("{group}."));
                    values.extend([prefix.clone(), prefix]);
                    tests.push("substr(kind, 1, length(?)) = ?");
                }
                None => {
                    values.push(Value::from(kind.clone()));
                    tests.push("kind = ?");
                }
            }
        }
        sql.push_str(&format!(" AND ({})", tests.join(" OR ")));
    }
    if !query.sessions.is_empty() {
        let marks = vec!["?"; query.sessions.len()].join(", ");
        sql.push_str(&format!(" AND session IN ({marks})"));
        values.extend(query.sessions.iter().map(|id| Value::from(*id as i64)));
    }
    sql.push_str(" ORDER BY id LIMIT ?");
    values.push(Value::from(query.limit as i64 + 1));
    (sql, values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(kinds: &[(&'static str, Option<u64>)]) -> Connection {
        let connection = super::super::schema::in_memory();
        for (kind, session) in kinds {
            let time = Timestamp(1000);
            let event = NewEvent { time, kind, session: *session, data: json!({"a": 1}) };
            insert(&connection, event).unwrap();
        }
        connection
    }

    fn ids(page: &Page) -> Vec<u64> {
        page.events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        let log = log(&[("a.b", Some(1)), ("a.c", Some(2)), ("d.e", None), ("a.b", Some(1))]);
        let first = page(&log, &Query { limit: 3, ..Query::default() }).unwrap();
        assert_eq!((ids(&first), first.next_since, first.has_more), (vec![1, 2, 3], 3, true));
        assert_eq!(first.events[0].session.as_deref(), Some("s1"));
        assert_eq!(first.events[0].data, json!({"a": 1}));
        let rest = page(&log, &Query { since: 3, limit: 3, ..Query::default() }).unwrap();
        assert_eq!((ids(&rest), rest.next_since, rest.has_more), (vec![4], 4, false));
        let beyond = page(&log, &Query { since: 99, limit: 3, ..Query::default() }).unwrap();
        assert_eq!((ids(&beyond), beyond.next_since), (vec![], 99));
    }

    #[test]
    fn filters_agree_with_what_is_wanted_live() {
        let log = log(&[("a.b", Some(1)), ("ab.c", Some(2)), ("d.e", None), ("a.c", Some(2))]);
        let everything = page(&log, &Query { limit: 9, ..Query::default() }).unwrap().events;
        let queries = [
            (vec!["a.*"], vec![]),
            (vec!["a.b", "d.*"], vec![]),
            (vec!["*"], vec![2]),
            (vec![], vec![1, 2]),
            (vec!["x.*"], vec![]),
        ];
        for (kinds, sessions) in queries {
            let kinds = kinds.into_iter().map(str::to_owned).collect();
            let query = Query { since: 0, kinds, sessions, limit: 9 };
            let found = page(&log, &query).unwrap();
            let live: Vec<u64> = everything
                .iter()
                .filter(|event| query.wants(event))
                .map(|event| event.id)
                .collect();
            assert_eq!(ids(&found), live, "{query:?}");
            assert_eq!(found.next_since, 4);
        }
    }

    #[test]
    fn what_was_dropped_is_counted_and_numbers_go_on() {
        let log = log(&[("a.b", None); 10]);
        prune(&log, 3).unwrap();
        let kept = page(&log, &Query { limit: 99, ..Query::default() }).unwrap();
        assert_eq!((ids(&kept), kept.dropped), (vec![8, 9, 10], 7));
        assert_eq!(
            page(&log, &Query { since: 8, limit: 9, ..Query::default() }).unwrap().dropped,
            0
        );
        log.execute("DELETE FROM events", []).unwrap();
        assert_eq!(newest(&log).unwrap(), 10);
        let event = NewEvent { time: Timestamp(1), kind: "a.b", session: None, data: json!(null) };
        assert_eq!(insert(&log, event).unwrap().id, 11);
    }
}
