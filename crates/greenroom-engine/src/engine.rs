//! All sessions of one host: starting, finding, naming, removing them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};

use crate::egress::{self, Egress, Filters, HostKey, Literals, Redaction, Terms};
use crate::error::EngineError;
use crate::events::{Event, Events, Fact};
use crate::id::SessionId;
use crate::journal::{Journal, Limits, Spiller, Summary, make_dir, summarize};
use crate::lock::lock;
use crate::names::{self, Claim, Claimed};
use crate::process::{ExitStatus, Held, KEY_VARIABLE, ProcessError, Processes};
use crate::session::actor::{Actor, Msg, Source};
use crate::session::boot::{self, Boot};
use crate::session::input::Input;
use crate::session::screen::SessionScreen;
use crate::session::terminal::{self, Master};
use crate::session::{Ladder, SessionHandle, SessionInfo, Shared};
use crate::spec::SessionSpec;
use crate::store::{RecordState, SessionRecord, Store};
use crate::threads::Threads;

/// Messages waiting for one session's actor. Callers wait when it is full.
const MAILBOX: usize = 64;

/// A stop does not wait longer for the disk: what is left stays in the rings.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// The end of a session is tried to be recorded for ever; whoever ends or removes it does not wait
/// for a full disk longer than this.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);

/// What the engine is given to work with.
pub struct EngineParts {
    pub processes: Arc<dyn Processes>,
    pub store: Arc<dyn Store>,
    pub events: Arc<dyn Events>,
    /// One directory per session below this.
    pub dir: PathBuf,
    pub limits: Limits,
    pub spiller: Spiller,
    pub threads: Threads,
    pub redaction: Redaction,
    /// Who filters sessions besides the built-in rules; nobody, if `None`.
    pub filters: Option<Arc<dyn Filters>>,
    /// Sessions that run at once; more are refused with a clear error.
    pub max_running: usize,
}

/// A session the host knew before this daemon started.
pub struct Known {
    pub record: SessionRecord,
    /// What the keeper still holds of it.
    pub held: Option<Held>,
    /// How it ended, if it did while nobody looked.
    pub status: Option<ExitStatus>,
    /// It began when sessions had their terms noted: one without a note has lost it.
    pub noted: bool,
}

#[derive(Clone)]
pub struct Engine {
    parts: Arc<EngineParts>,
    sessions: Arc<Mutex<BTreeMap<SessionId, SessionHandle>>>,
    /// Names of sessions that are about to start, so that two cannot take one.
    claimed: Claimed,
    /// How many were entered: whoever looks after each change sees every one.
    births: Arc<watch::Sender<u64>>,
}

impl Engine {
    pub fn new(parts: EngineParts) -> Engine {
        Engine {
            parts: Arc::new(parts),
            sessions: Arc::default(),
            claimed: Claimed::default(),
            births: Arc::default(),
        }
    }

    /// Changes whenever there is another session in [`Engine::handles`].
    pub fn births(&self) -> watch::Receiver<u64> {
        self.births.subscribe()
    }

    /// Starts a session. On an error nothing is left behind.
    pub async fn create(&self, spec: SessionSpec) -> Result<SessionHandle, EngineError> {
        let id = self.next_id().await?;
        self.create_as(id, spec).await
    }

    /// An id that no session had or will have, unless [`Engine::create_as`] is given it.
    pub async fn next_id(&self) -> Result<SessionId, EngineError> {
        Ok(self.parts.store.next_id().await?)
    }

    /// Whether a session like this could start now.
    pub fn check(&self, spec: &SessionSpec) -> Result<(), EngineError> {
        check_spec(spec)?;
        if let Some(name) = &spec.name {
            names::check(name)?;
            names::check_free(name, None, &self.list())?;
        }
        let running = self.list().iter().filter(|info| info.pid.is_some()).count();
        if running >= self.parts.max_running {
            return Err(EngineError::TooMany(running));
        }
        Ok(())
    }

    /// Like [`Engine::create`], under an id from [`Engine::next_id`].
    pub async fn create_as(
        &self,
        id: SessionId,
        mut spec: SessionSpec,
    ) -> Result<SessionHandle, EngineError> {
        self.check(&spec)?;
        let claim = self.claimed.claim(id, &spec, &self.list())?;
        let record = self.reserve(id, &spec, &claim).await?;
        spec.env.insert("GREENROOM_SESSION".into(), id.to_string().into());
        spec.env.insert(KEY_VARIABLE.into(), record.key.clone().into());
        match self.launch(record, &spec).await {
            Ok(handle) => {
                self.take_name(&claim.name, id);
                Ok(handle)
            }
            Err(error) => {
                self.emit(id, Fact::StartFailed { why: error.to_string() });
                self.forget(id).await;
                Err(error)
            }
        }
    }

    /// Takes over what an earlier daemon left: each session comes back in a
    /// task of its own, so that the host can answer at once.
    pub fn adopt(&self, known: Vec<Known>) {
        for one in known {
            let Known { mut record, held, status, noted } = one;
            if let (Some(held), RecordState::Starting) = (&held, &record.state) {
                record.state = RecordState::Running { pid: held.pid };
            }
            let _entered = self.parts.threads.of(record.id).enter();
            let boot = match held {
                Some(held) => match terminal::watch(held.master) {
                    Ok(master) => Boot::Recover { master, ring: held.ring },
                    Err(error) => {
                        tracing::error!(session = %record.id, %error, "taking a terminal over");
                        Boot::Ended
                    }
                },
                None => Boot::Ended,
            };
            if matches!(boot, Boot::Ended) && !names::is_over(&record.state) {
                let pid = match record.state {
                    RecordState::Running { pid } => pid,
                    _ => 0,
                };
                let status = status.unwrap_or(ExitStatus::Unknown);
                record.state = RecordState::Ended { pid, at: SystemTime::now(), status };
            }
            let egress = self.egress_again(&record, noted);
            let dir = self.dir_of(record.id);
            if let (Boot::Ended, RecordState::Ended { at, .. }) = (&boot, &record.state) {
                self.parts.spiller.adopt_ended(dir.clone(), *at);
            }
            let handle = self.start(record, boot, egress, summarize(&dir));
            save_soon(&handle);
            if let Some(status) = status {
                let tx = handle.sender().clone();
                tokio::spawn(async move { tx.send(Msg::Exited(status)).await });
            }
        }
        // An earlier daemon may have died between a start and this.
        let live = self.list().into_iter().filter(|info| !names::is_over(&info.record.state));
        live.for_each(|info| self.take_name(&info.record.name, info.record.id));
    }

    /// The keeper saw a session's leader end.
    pub async fn exited(&self, id: SessionId, status: ExitStatus) {
        let handle = self.sessions().get(&id).cloned();
        match handle {
            Some(handle) => {
                let _ = handle.sender().send(Msg::Exited(status)).await;
            }
            // Ended before it was entered: `launch` has the pid but no handle yet, and asks again.
            None => tracing::debug!(session = %id, %status, "exit of a session not entered yet"),
        }
    }

    pub fn list(&self) -> Vec<SessionInfo> {
        self.handles().iter().map(SessionHandle::info).collect()
    }

    pub fn handles(&self) -> Vec<SessionHandle> {
        self.sessions().values().cloned().collect()
    }

    /// By id, by name, or by a prefix of a name that fits only one. Live sessions come before ended
    /// ones.
    pub fn find(&self, text: &str) -> Result<SessionHandle, EngineError> {
        let id = names::find(text, &self.list())?;
        self.by_id(id)
    }

    pub async fn rename(&self, id: SessionId, name: &str) -> Result<(), EngineError> {
        names::check(name)?;
        let handle = self.by_id(id)?;
        {
            // Held until it stands in the list, or two could take it.
            let _claim = self.claimed.claim_name(id, name, &self.list())?;
            handle.shared.change_record(|record| {
                name.clone_into(&mut record.name);
                record.chosen = true;
                record.former = None;
            });
        }
        self.take_name(name, id);
        handle.shared.save().await?;
        self.emit(id, Fact::Renamed { name: name.to_owned() });
        Ok(())
    }

    /// Every ended session with this name but `id` gives it up and goes by its id.
    fn take_name(&self, name: &str, id: SessionId) {
        for handle in self.handles() {
            let other = handle.id();
            if other != id && handle.shared.gave_up(name) {
                save_soon(&handle);
                self.emit(other, Fact::Renamed { name: other.to_string() });
            }
        }
    }

    /// Removes an ended session with its journal.
    pub async fn remove(&self, id: SessionId) -> Result<(), EngineError> {
        let handle = self.by_id(id)?;
        if handle.change().ended.is_none() {
            return Err(EngineError::StillRunning { id });
        }
        let _ = tokio::time::timeout(SETTLE_PATIENCE, handle.shared.settled()).await;
        // Its actor ends with it; one that is already gone is fine.
        let _ = handle.ask(|reply| Msg::Close { reply }).await;
        handle.shared.closed();
        // The files first: on a full disk they are the room that forgetting the record needs.
        self.remove_files(id).await?;
        self.parts.store.remove(id).await?;
        self.sessions().remove(&id);
        self.emit(id, Fact::Removed);
        Ok(())
    }

    /// Ends every session, and what ended ones have left.
    pub async fn end_all(&self, ladder: Ladder) {
        let ending: Vec<_> = self
            .handles()
            .into_iter()
            .map(|handle| {
                tokio::spawn(async move {
                    match handle.kill(ladder).await {
                        // It has ended, and left nothing.
                        Ok(_) | Err(EngineError::Ended { .. }) => {}
                        Err(error) => {
                            tracing::warn!(session = %handle.id(), %error, "ending a session");
                        }
                    }
                    let _ = tokio::time::timeout(SETTLE_PATIENCE, handle.shared.settled()).await;
                })
            })
            .collect();
        for task in ending {
            let _ = task.await;
        }
    }

    /// Everything printed so far is in files when this returns.
    pub async fn flush(&self) {
        let spiller = self.parts.spiller.clone();
        let flushed = tokio::task::spawn_blocking(move || spiller.flush_all(FLUSH_PATIENCE)).await;
        if !matches!(flushed, Ok(true)) {
            tracing::warn!("not everything reached the disk in time; the rings keep the rest");
        }
    }

    /// Writes the record before anything runs.
    async fn reserve(
        &self,
        id: SessionId,
        spec: &SessionSpec,
        claim: &Claim,
    ) -> Result<SessionRecord, EngineError> {
        let record = SessionRecord {
            name: claim.name.clone(),
            chosen: spec.name.is_some(),
            argv: spec.argv.clone(),
            cwd: spec.cwd.clone(),
            size: spec.size,
            about: spec.about.clone(),
            key: random_key(),
            ..SessionRecord::new(id)
        };
        self.parts.store.save(record.clone()).await?;
        Ok(record)
    }

    async fn launch(
        &self,
        mut record: SessionRecord,
        spec: &SessionSpec,
    ) -> Result<SessionHandle, EngineError> {
        let id = record.id;
        let egress = self.terms(&record, spec)?;
        let held = self.parts.processes.spawn(id, spec).await?;
        let pid = held.pid;
        // What was asked for a while ago runs since now; its recording begins here.
        record.created = SystemTime::now();
        record.state = RecordState::Running { pid };
        let opened = self.open(&record, held);
        let (master, journal) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // It runs but cannot be recorded: better not at all.
                let member = crate::process::Member { id, pid, key: record.key.clone() };
                let _ = self.parts.processes.signal(&member, crate::process::Target::Tree, 9).await;
                self.parts.processes.release(id);
                return Err(error);
            }
        };
        let screen = SessionScreen::new(record.size);
        let handle = self.start(
            record.clone(),
            Boot::New { source: Box::new(Source { master, journal }), screen },
            egress,
            None,
        );
        self.emit(id, Fact::Created { name: record.name.clone() });
        self.emit(id, Fact::Started { pid });
        if let Some(status) = self.parts.processes.early_exit(id) {
            let _ = handle.sender().send(Msg::Exited(status)).await;
        }
        save_soon(&handle);
        Ok(handle)
    }

    fn open(&self, record: &SessionRecord, held: Held) -> Result<(Master, Journal), EngineError> {
        let dir = self.dir_of(record.id);
        let journal =
            Journal::create(&dir, held.ring, self.parts.limits, &self.parts.spiller, record.size)?;
        let _entered = self.parts.threads.of(record.id).enter();
        let master = terminal::watch(held.master).map_err(|source| {
            let program = record.argv.first().map(|program| program.to_string_lossy().into_owned());
            let program = program.unwrap_or_default();
            ProcessError::Spawn { program, step: "watching its terminal", source }
        })?;
        Ok((master, journal))
    }

    /// What the session must not show, for this daemon and the next: known and noted before its
    /// first byte.
    fn terms(&self, record: &SessionRecord, spec: &SessionSpec) -> Result<Egress, EngineError> {
        let id = record.id;
        let hidden: Vec<Vec<u8>> =
            spec.hidden.iter().map(|value| value.as_encoded_bytes().to_vec()).collect();
        let filter = match &self.parts.filters {
            Some(filters) => filters.filter_for(record, None).map_err(EngineError::BadSpec)?,
            None => None,
        };
        let egress = self.egress_of(&hidden, false);
        let terms = Terms {
            attach: egress.filters_attach(),
            values: u32::try_from(hidden.len()).unwrap_or(u32::MAX),
            filters: filter.as_ref().and_then(|filter| filter.note()),
        };
        let dir = self.dir_of(id);
        make_dir(&dir)
            .and_then(|()| self.parts.redaction.key.seal(&dir, id, &hidden))
            .and_then(|()| terms.write(&dir, id))
            .map_err(|source| EngineError::KeepHidden { id, source })?;
        if let Some(filter) = filter {
            egress
                .govern(filter, &dir)
                .map_err(|source| EngineError::KeepAnswers { id, source })?;
        }
        Ok(egress)
    }

    /// As an earlier daemon left it. What cannot be had is never taken for what there never was.
    fn egress_again(&self, record: &SessionRecord, noted: bool) -> Egress {
        let (id, dir) = (record.id, self.dir_of(record.id));
        let withheld = |attach: bool, why: String| {
            tracing::error!(session = %id, why, "its output is withheld");
            Egress::withheld(&self.parts.redaction, attach, why)
        };
        let lost = |error: std::io::Error| {
            let file = Terms::file(&dir);
            format!("what governs its output is not known: {}: {error}", file.display())
        };
        let terms = match Terms::read(&dir, id) {
            Ok(Some(terms)) => Some(terms),
            // An older version noted nothing.
            Ok(None) if !noted => None,
            Ok(None) => return withheld(true, lost(std::io::ErrorKind::NotFound.into())),
            Err(error) => return withheld(true, lost(error)),
        };
        let attach = terms.as_ref().is_some_and(|terms| terms.attach);
        let mut egress = match self.hidden_again(&dir, id, terms.as_ref()) {
            Ok(hidden) => self.egress_of(&hidden, attach),
            Err(why) => withheld(attach, why),
        };
        let was = terms.as_ref().and_then(|terms| terms.filters.as_deref());
        if let Err(error) = egress.recall(&dir, was.is_some()) {
            tracing::error!(session = %id, %error, "what filters answered cannot be read");
            egress.recall_nothing();
        }
        let filter = match (&self.parts.filters, was) {
            (Some(filters), was) => filters.filter_for(record, was),
            (None, Some(_)) => Err("nobody here can say who filters it".to_owned()),
            (None, None) => Ok(None),
        };
        match filter {
            Ok(None) => {}
            Ok(Some(filter)) => {
                if let Err(error) = egress.govern(filter.clone(), &dir) {
                    tracing::error!(session = %id, %error, "filters are asked again about everything");
                    egress.govern_in_memory(filter.clone());
                }
                if let Some(why) = filter.absent() {
                    tracing::error!(session = %id, why, "its output is masked");
                }
            }
            Err(why) => egress = withheld(attach, why),
        }
        egress
    }

    /// The values of a session as they were sealed, or why they cannot be had.
    fn hidden_again(
        &self,
        dir: &Path,
        id: SessionId,
        terms: Option<&Terms>,
    ) -> Result<Vec<Vec<u8>>, String> {
        let lost = |why: String| {
            let file = HostKey::file(dir);
            format!("the values it must not show are not known: {}: {why}", file.display())
        };
        let found = self.parts.redaction.key.open(dir, id).map_err(|error| lost(error.to_string()));
        match (terms, found?) {
            (None, found) => Ok(found.unwrap_or_default()),
            (Some(terms), found) => {
                let found = found.unwrap_or_default();
                if found.len() as u64 == u64::from(terms.values) {
                    Ok(found)
                } else if found.is_empty() {
                    Err(lost("there is no such file".to_owned()))
                } else {
                    Err(lost(format!("it has {} of {} values", found.len(), terms.values)))
                }
            }
        }
    }

    fn egress_of(&self, hidden: &[Vec<u8>], attach: bool) -> Egress {
        let literals = Literals::new(hidden.iter().map(Vec::as_slice));
        Egress::noted(&self.parts.redaction, literals, attach)
    }

    /// `before` is what an earlier daemon left of its journal.
    fn start(
        &self,
        record: SessionRecord,
        boot: Boot,
        egress: Egress,
        before: Option<Summary>,
    ) -> SessionHandle {
        let (tx, rx) = mpsc::channel(MAILBOX);
        let id = record.id;
        let dir = self.dir_of(id);
        let input = boot.master().map(Input::new);
        let shared = Arc::new(Shared::new(record, self.parts.clone(), input, tx, egress));
        if let Some(before) = before {
            shared.left(before);
        }
        let handle = SessionHandle { shared: shared.clone() };
        handle.begin_answering();
        self.sessions().insert(id, handle.clone());
        self.births.send_modify(|births| *births += 1);
        self.parts.threads.of(id).spawn(async move {
            if let Some(actor) = boot::actor(shared.clone(), rx, boot, &dir).await {
                Actor::run(actor).await;
            }
            shared.closed();
        });
        handle
    }

    async fn forget(&self, id: SessionId) {
        self.sessions().remove(&id);
        if let Err(error) = self.parts.store.remove(id).await {
            tracing::warn!(%error, "forgetting a session that did not start");
        }
        if let Err(error) = self.remove_files(id).await {
            tracing::warn!(%error, "forgetting a session that did not start");
        }
    }

    async fn remove_files(&self, id: SessionId) -> Result<(), EngineError> {
        let dir = self.dir_of(id);
        // Before they are gone, so that no other session gives output for them meanwhile; and
        // after, in case its journal was closed, and counted, in between.
        self.parts.spiller.forget_ended(dir.clone());
        let gone = dir.clone();
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(gone)).await;
        if let Ok(Err(source)) = removed
            && source.kind() != std::io::ErrorKind::NotFound
        {
            self.parts.spiller.adopt_ended(dir, SystemTime::now());
            return Err(EngineError::RemoveFiles { id, source });
        }
        self.parts.spiller.forget_ended(dir);
        Ok(())
    }

    fn by_id(&self, id: SessionId) -> Result<SessionHandle, EngineError> {
        self.sessions()
            .get(&id)
            .cloned()
            .ok_or_else(|| EngineError::NotFound { name: id.to_string(), nearest: None })
    }

    fn dir_of(&self, id: SessionId) -> PathBuf {
        self.parts.dir.join(id.to_string())
    }

    fn emit(&self, session: SessionId, fact: Fact) {
        self.parts.events.emit(Event { session, fact });
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionHandle>> {
        lock(&self.sessions)
    }
}

fn save_soon(handle: &SessionHandle) {
    let shared = handle.shared.clone();
    tokio::spawn(async move {
        if let Err(error) = shared.save().await {
            tracing::warn!(%error, "saving a record");
        }
    });
}

fn check_spec(spec: &SessionSpec) -> Result<(), EngineError> {
    let bad = |why: String| Err(EngineError::BadSpec(why));
    if spec.argv.first().is_none_or(|program| program.is_empty()) {
        return bad("no program was given".to_owned());
    }
    if !spec.cwd.is_absolute() {
        return bad(format!("the directory {} is not absolute", spec.cwd.display()));
    }
    match std::fs::metadata(&spec.cwd) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => bad(format!("{} is not a directory", spec.cwd.display())),
        Err(error) => bad(format!("its directory {}: {error}", spec.cwd.display())),
    }
}

/// 128 random bits in hex.
fn random_key() -> String {
    let bytes: [u8; 16] = egress::random().expect("the kernel has 16 random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ() {
        assert_ne!(random_key(), random_key());
        assert_eq!(random_key().len(), 32);
    }
}
