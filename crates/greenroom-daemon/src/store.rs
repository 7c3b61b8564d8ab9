//! Records and events in SQLite, behind one thread.
//!
//! In: records to keep, events to number. Out: the same records at the next start, events by page
//! and, once they are in the file, live. One thread named `store` has the connection; what waits
//! for it goes into one transaction together. Deliberately absent: environment of sessions, their
//! text, and any decision about them.

mod records;
mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use greenroom_engine::SessionId;
use greenroom_engine::keep;
use greenroom_engine::process::BoxFuture;
use greenroom_engine::store::{SessionRecord, Store, StoreError};
use greenroom_protocol::api::event::Event;
use greenroom_protocol::events::EventsDropped;
use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{broadcast, mpsc, oneshot};

pub(crate) use rows::{NewEvent, Page, Query};
pub(crate) use schema::StorageError;

/// Commands waiting for the thread: events of hundreds of sessions that start at once.
const QUEUE: usize = 8192;

/// Commands in one transaction; more wait for the next.
const BATCH: usize = 512;

/// Live events a subscriber may be behind before it reads them from the file instead.
const LIVE: usize = 1024;

/// Rows beyond the limit that may gather before the oldest are dropped.
const PRUNE_EVERY: u64 = 1000;

/// The handle. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Storage {
    queue: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

struct Shared {
    last_id: AtomicU64,
    /// Events that found the queue full or the disk unwilling, not yet told.
    lost: AtomicU64,
    /// The same since the start.
    lost_ever: AtomicU64,
    newest: AtomicU64,
    noted_since: u64,
    live: broadcast::Sender<Arc<Event>>,
}

/// A store, and what was in it.
pub(crate) struct Opened {
    pub storage: Storage,
    pub records: Vec<SessionRecord>,
    /// The old file could not be used.
    pub lost: Option<String>,
}

/// The database with the files SQLite keeps beside it: alone they would damage the next one.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    for more in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(more);
        if std::fs::symlink_metadata(&beside).is_ok() {
            keep::set_aside(Path::new(&beside))?;
        }
    }
    match std::fs::symlink_metadata(path) {
        Ok(_) => keep::set_aside(path),
        Err(_) => Ok(path.to_owned()),
    }
}

enum Command {
    Save(Box<SessionRecord>, oneshot::Sender<Outcome>),
    Remove(SessionId, oneshot::Sender<Outcome>),
    Event(NewEvent),
    Page(Query, oneshot::Sender<rusqlite::Result<Page>>),
    Flush(oneshot::Sender<()>),
}

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The thread is gone: only while the process ends.
#[derive(Debug, thiserror::Error)]
#[error("the store has stopped")]
struct Stopped;

#[derive(Debug, thiserror::Error)]
#[error("cannot read the event log: {0}")]
pub(crate) struct EventsError(Box<dyn std::error::Error + Send + Sync>);

impl Storage {
    /// Opens the file, starts the thread, and gives back every record in it.
    pub(crate) fn open(
        path: &Path,
        keep: u64,
    ) -> Result<(Storage, Vec<SessionRecord>), StorageError> {
        let connection = schema::open(path)?;
        let read = |source| StorageError::Sql { path: path.to_owned(), step: "read", source };
        let known = records::load_all(&connection).map_err(read)?;
        let shared = Arc::new(Shared {
            last_id: AtomicU64::new(records::last_id(&connection).map_err(read)?),
            lost: AtomicU64::new(0),
            lost_ever: AtomicU64::new(0),
            newest: AtomicU64::new(rows::newest(&connection).map_err(read)?),
            noted_since: records::noted_since(&connection).map_err(read)?,
            live: broadcast::Sender::new(LIVE),
        });
        let (queue, commands) = mpsc::channel(QUEUE);
        let worker = Worker { connection, shared: shared.clone(), keep, since_prune: PRUNE_EVERY };
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || worker.run(commands))
            .map_err(StorageError::Thread)?;
        Ok((Storage { queue, shared }, known))
    }

    /// The same; a file that is damaged is set aside, and another begun.
    pub(crate) fn open_or_begin_anew(path: &Path, keep: u64) -> Result<Opened, StorageError> {
        let why = match Storage::open(path, keep) {
            Ok((storage, records)) => return Ok(Opened { storage, records, lost: None }),
            Err(error @ (StorageError::Newer { .. } | StorageError::Thread(_))) => {
                return Err(error);
            }
            Err(error) => error,
        };
        let aside = set_aside(path)
            .map_err(|source| StorageError::File { path: path.to_owned(), source })?;
        let (storage, records) = Storage::open(path, keep)?;
        let lost = format!(
            "{why}; it was set aside as {}: names, labels and events of earlier sessions are lost",
            aside.display()
        );
        Ok(Opened { storage, records, lost: Some(lost) })
    }

    /// Sessions from this one on began when what governs their output was noted with them.
    pub(crate) fn noted_since(&self) -> u64 {
        self.shared.noted_since
    }

    /// Never gives out `id` or one before it.
    pub(crate) fn skip_ids(&self, id: u64) {
        self.shared.last_id.fetch_max(id, Ordering::Relaxed);
    }

    /// Puts an event into the log without waiting; one that finds no room is counted.
    pub(crate) fn log(&self, event: NewEvent) {
        if self.queue.try_send(Command::Event(event)).is_err() {
            self.shared.lose(1);
        }
    }

    pub(crate) async fn page(&self, query: Query) -> Result<Page, EventsError> {
        let (reply, answer) = oneshot::channel();
        self.queue
            .send(Command::Page(query, reply))
            .await
            .map_err(|_| EventsError(Stopped.into()))?;
        match answer.await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => Err(EventsError(error.into())),
            Err(_) => Err(EventsError(Stopped.into())),
        }
    }

    /// Events from now on, each after it is in the file.
    pub(crate) fn live(&self) -> broadcast::Receiver<Arc<Event>> {
        self.shared.live.subscribe()
    }

    pub(crate) fn newest_event(&self) -> u64 {
        self.shared.newest.load(Ordering::Acquire)
    }

    pub(crate) fn lost_events(&self) -> u64 {
        self.shared.lost_ever.load(Ordering::Relaxed)
    }

    /// Everything sent before is in the file when this returns.
    pub(crate) async fn flush(&self) {
        let (reply, done) = oneshot::channel();
        if self.queue.send(Command::Flush(reply)).await.is_ok() {
            let _ = done.await;
        }
    }

    /// Queued at once if there is room: records are saved in the order of the calls, whenever
    /// their futures are polled.
    fn ask(
        &self,
        id: SessionId,
        step: &'static str,
        command: impl FnOnce(oneshot::Sender<Outcome>) -> Command,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (reply, answer) = oneshot::channel();
        let crowded = match self.queue.try_send(command(reply)) {
            Ok(()) => None,
            Err(TrySendError::Full(command)) => Some(command),
            // Its reply is dropped with it, which is the answer.
            Err(TrySendError::Closed(_)) => None,
        };
        Box::pin(async move {
            if let Some(command) = crowded {
                let _ = self.queue.send(command).await;
            }
            let outcome = answer.await.unwrap_or_else(|_| Err(Stopped.into()));
            outcome.map_err(|source| StoreError { id, step, source })
        })
    }
}

impl Store for Storage {
    /// Counted in memory: `save` makes it last, and an id never saved was never seen.
    fn next_id(&self) -> BoxFuture<'_, Result<SessionId, StoreError>> {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(std::future::ready(Ok(SessionId(id))))
    }

    fn save(&self, record: SessionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(record.id, "save", |reply| Command::Save(Box::new(record), reply))
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(id, "remove", |reply| Command::Remove(id, reply))
    }
}

impl Shared {
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.lost_ever.fetch_add(count, Ordering::Relaxed);
    }
}

struct Worker {
    connection: Connection,
    shared: Arc<Shared>,
    keep: u64,
    since_prune: u64,
}

/// What to tell once the transaction stands.
enum Told {
    Outcome(oneshot::Sender<Outcome>, Outcome),
    Event(Event),
    Page(oneshot::Sender<rusqlite::Result<Page>>, rusqlite::Result<Page>),
    Flushed(oneshot::Sender<()>),
}

impl Worker {
    fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Some(first) = commands.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = commands.try_recv()
            {
                batch.push(next);
            }
            self.serve(batch);
        }
    }

    fn serve(&mut self, batch: Vec<Command>) {
        let writes = batch.iter().any(|c| !matches!(c, Command::Page(..) | Command::Flush(_)));
        let begun = if writes { self.connection.execute_batch("BEGIN") } else { Ok(()) };
        let mut told: Vec<Told> = batch.into_iter().filter_map(|c| self.one(c)).collect();
        if writes {
            told.extend(self.note_losses());
            self.prune(&told);
        }
        let stands = begun
            .and_then(|()| if writes { self.connection.execute_batch("COMMIT") } else { Ok(()) });
        if let Err(error) = &stands {
            tracing::error!(%error, "writing the database");
            // Ends a transaction that is still open; fails when there is none, which is fine.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        for one in told {
            self.tell(one, stands.as_ref().err().map(ToString::to_string));
        }
    }

    fn one(&mut self, command: Command) -> Option<Told> {
        Some(match command {
            Command::Save(record, reply) => {
                Told::Outcome(reply, boxed(records::save(&self.connection, &record)))
            }
            Command::Remove(id, reply) => {
                Told::Outcome(reply, boxed(records::remove(&self.connection, id)))
            }
            Command::Page(query, reply) => Told::Page(reply, rows::page(&self.connection, &query)),
            Command::Flush(reply) => Told::Flushed(reply),
            Command::Event(event) => return self.insert(event),
        })
    }

    fn insert(&mut self, event: NewEvent) -> Option<Told> {
        match rows::insert(&self.connection, event) {
            Ok(event) => Some(Told::Event(event)),
            Err(error) => {
                tracing::warn!(%error, "logging an event");
                self.shared.lose(1);
                None
            }
        }
    }

    /// A gap in the log is an event of its own.
    fn note_losses(&mut self) -> Option<Told> {
        let count = self.shared.lost.swap(0, Ordering::Relaxed);
        if count == 0 {
            return None;
        }
        let note = NewEvent::now(None, EventsDropped { count }.into());
        match rows::insert(&self.connection, note) {
            Ok(event) => Some(Told::Event(event)),
            Err(_) => {
                self.shared.lost.fetch_add(count, Ordering::Relaxed);
                None
            }
        }
    }

    fn prune(&mut self, told: &[Told]) {
        self.since_prune += told.iter().filter(|one| matches!(one, Told::Event(_))).count() as u64;
        if self.since_prune >= PRUNE_EVERY {
            self.since_prune = 0;
            if let Err(error) = rows::prune(&self.connection, self.keep) {
                tracing::warn!(%error, "dropping old events");
            }
        }
    }

    fn tell(&self, told: Told, failed: Option<String>) {
        match (told, failed) {
            (Told::Outcome(reply, outcome), None) => drop(reply.send(outcome)),
            (Told::Outcome(reply, _), Some(why)) => drop(reply.send(Err(why.into()))),
            (Told::Event(event), None) => {
                self.shared.newest.fetch_max(event.id, Ordering::AcqRel);
                // Nobody listening is fine.
                let _ = self.shared.live.send(Arc::new(event));
            }
            (Told::Event(_), Some(_)) => self.shared.lose(1),
            (Told::Page(reply, page), _) => drop(reply.send(page)),
            (Told::Flushed(reply), _) => drop(reply.send(())),
        }
    }
}

fn boxed(result: rusqlite::Result<()>) -> Outcome {
    result.map_err(Into::into)
}

#[cfg(test)]
mod tests;
