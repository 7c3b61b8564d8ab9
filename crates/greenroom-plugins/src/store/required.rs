//! `plugins.required`: whose absence counts as failure, known without the lock and without the
//! plugins' files.
//!
//! In: what a survey found, and what the lock says. Out: the required hooks of each plugin that was
//! agreed to and cannot run now, or that they are not known. Beside the lock lies a file with them
//! and with a checksum; a mark among the copies says that there was such a file, so that neither
//! the loss of one nor of both looks like a host without plugins. A claim ends when its plugin is
//! removed or revoked, or runs again without it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use greenroom_engine::keep::{self, Lasting};
use greenroom_formats::manifest::{Format, HookEntry};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::lock::{Lock, Record, Trust};
use super::{Inner, Store, invalid};
use crate::host::{CatalogError, Found, Unguarded};

/// The version of the file's format.
const VERSION: u32 = 1;
/// A larger file was not written by us.
const BYTES_MAX: u64 = 4 << 20;
/// Among the copies, as long as there are claims.
pub(super) const MARK: &str = ".required";

/// The required hooks by plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims(BTreeMap<String, Vec<HookEntry>>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    plugins: BTreeMap<String, Vec<HookEntry>>,
}

/// The lock, as far as it could be read.
pub(super) struct LockRead {
    pub lock: Lock,
    pub state: LockState,
}

/// What became of the lock.
pub(super) enum LockState {
    Read,
    Gone,
    Damaged,
}

impl Claims {
    /// `None` without a file.
    pub(super) fn read(path: &Path) -> Result<Option<Claims>, StoreError> {
        let fault = |why: String| StoreError::Lock { path: path.to_owned(), why };
        let read = keep::read(path, BYTES_MAX).map_err(|error| fault(error.to_string()))?;
        let Some(bytes) = read else { return Ok(None) };
        let body = keep::unchecked(&bytes).ok_or_else(|| fault("it is damaged".to_owned()))?;
        let file: File = serde_json::from_slice(body).map_err(|error| fault(error.to_string()))?;
        match file.version {
            VERSION => Ok(Some(Claims(file.plugins))),
            other => Err(fault(format!("it has version {other}, this host reads {VERSION}"))),
        }
    }

    fn write(&self, path: &Path) -> Result<(), StoreError> {
        let fault = |source| StoreError::disk("write", path, source);
        let file = File { version: VERSION, plugins: self.0.clone() };
        let bytes = serde_json::to_vec(&file).map_err(|error| fault(error.into()))?;
        keep::write(path, &keep::checked(&bytes), Lasting::Machine).map_err(fault)
    }

    fn put(&mut self, found: &Found) {
        let hooks = found.manifest.iter().flat_map(|manifest| &manifest.hooks);
        let required: Vec<HookEntry> = hooks.filter(|hook| hook.required).cloned().collect();
        if required.is_empty() {
            self.0.remove(&found.name);
        } else {
            self.0.insert(found.name.clone(), required);
        }
    }
}

impl Store {
    pub(super) fn claims_file(&self) -> PathBuf {
        self.places.lock.with_extension("required")
    }

    fn mark(&self) -> PathBuf {
        self.places.store.join(MARK)
    }

    /// Whether plugins with required hooks were agreed to, whatever became of the lock.
    pub(super) fn had_claims(&self, claims: &Result<Option<Claims>, StoreError>) -> bool {
        let noted = match claims {
            Ok(None) => false,
            Ok(Some(claims)) => !claims.0.is_empty(),
            Err(_) => true,
        };
        noted || self.mark().symlink_metadata().is_ok()
    }

    /// Gives each plugin that was agreed to and cannot run what it claims, adds those of which
    /// nothing else is left, and notes the claims of those that run. Answers why the claims are not
    /// known, if they are not.
    pub(super) fn settle_claims(
        &self,
        read: &LockRead,
        noted: Result<Option<Claims>, StoreError>,
        found: &mut BTreeMap<String, Found>,
        inner: &Inner,
        faults: &mut Vec<CatalogError>,
    ) -> Option<Unguarded> {
        let mut claims = match &noted {
            Ok(Some(claims)) => claims.clone(),
            _ => Claims::default(),
        };
        let runs = |one: &&Found| one.standing.may_run() && !inner.loaded.contains_key(&one.name);
        found.values().filter(runs).for_each(|one| claims.put(one));
        if !matches!(noted, Ok(Some(_)))
            && let Some(unguarded) = self.unknown(read, &noted, &claims, found)
        {
            return Some(unguarded);
        }
        let first = matches!(noted, Ok(None)) && read.lock.all().iter().any(agreed);
        if let Err(why) = self.keep_claims(&noted, &claims, first) {
            faults.push(CatalogError::Note { why: why.to_string() });
        }
        for (name, hooks) in claims.0 {
            let one = found.entry(name).or_insert_with_key(|name| self.nothing_left(name, read));
            if !one.standing.may_run() {
                one.claims = hooks;
            }
        }
        None
    }

    /// Without the note: whether the lock and the plugins it names say it all.
    fn unknown(
        &self,
        LockRead { lock, state }: &LockRead,
        noted: &Result<Option<Claims>, StoreError>,
        claims: &Claims,
        found: &BTreeMap<String, Found>,
    ) -> Option<Unguarded> {
        let (lock_file, note, mark) = (&self.places.lock, self.claims_file(), self.mark());
        let told = match noted {
            Err(error) => error.to_string(),
            Ok(_) => format!("{} is gone", note.display()),
        };
        let unseen = |record: &&Record| {
            let one = found.get(&record.name);
            !one.is_some_and(|one| one.standing.may_run())
        };
        if let LockState::Read = state
            && let Some(record) = lock.all().iter().filter(|record| agreed(record)).find(unseen)
        {
            let name = &record.name;
            return Some(Unguarded {
                plugin: Some(name.clone()),
                why: format!(
                    "plugin {name} is not as it was agreed to, and what it guards is not known: {told}"
                ),
                hint: format!(
                    "put its files or {} back; greenroom plugin grant {name} takes it as it is, remove does without it",
                    note.display()
                ),
            });
        }
        let unknown = match state {
            LockState::Damaged => true,
            LockState::Gone => self.had_claims(noted),
            // The plugin that made the mark is not among those the lock names now.
            LockState::Read => claims.0.is_empty() && mark.symlink_metadata().is_ok(),
        };
        let lock_told = match state {
            LockState::Read => format!("{} names none", lock_file.display()),
            LockState::Gone => format!("{} is gone", lock_file.display()),
            LockState::Damaged => format!("{} is damaged", lock_file.display()),
        };
        unknown.then(|| Unguarded {
            plugin: None,
            why: format!("it is not known which plugins guard sessions: {lock_told}, and {told}"),
            hint: format!(
                "put the files back; or rm -r {} {} {}; greenroom plugin reload, and agree to the plugins anew",
                lock_file.display(),
                note.display(),
                mark.display()
            ),
        })
    }

    /// Writes what differs; for the `first` agreement also that it claims nothing.
    fn keep_claims(
        &self,
        noted: &Result<Option<Claims>, StoreError>,
        claims: &Claims,
        first: bool,
    ) -> Result<(), StoreError> {
        let file = self.claims_file();
        let same = match noted {
            Ok(Some(noted)) => noted == claims,
            Ok(None) => claims.0.is_empty() && !first,
            Err(error) => {
                tracing::warn!(%error, "the required plugins are noted anew");
                keep::set_aside(&file)
                    .map_err(|source| StoreError::disk("set aside", &file, source))?;
                false
            }
        };
        // The mark is there before the first claim and goes after the last: it may say too much,
        // never too little.
        let mark = self.mark();
        let fault = |source| StoreError::disk("write", &mark, source);
        if !claims.0.is_empty() && mark.symlink_metadata().is_err() {
            self.make_store()?;
            keep::write(&mark, b"", Lasting::Machine).map_err(fault)?;
        }
        if !same {
            claims.write(&file)?;
        }
        if claims.0.is_empty() && mark.symlink_metadata().is_ok() {
            fs::remove_file(&mark).or_else(|_| fs::remove_dir(&mark)).map_err(fault)?;
        }
        Ok(())
    }

    /// The operator does without it. Answers whether it claimed anything.
    pub(super) fn end_claim(&self, name: &str) -> Result<bool, StoreError> {
        let noted = Claims::read(&self.claims_file());
        let Ok(Some(mut claims)) = noted.as_ref().map(Clone::clone) else { return Ok(false) };
        let ended = claims.0.remove(name).is_some();
        if ended {
            self.keep_claims(&noted, &claims, false)?;
        }
        Ok(ended)
    }

    /// One of which only its claim is known.
    fn nothing_left(&self, name: &str, read: &LockRead) -> Found {
        let file = self.places.lock.display();
        let why = match (&read.state, read.lock.get(name).and_then(|it| it.path.as_ref())) {
            (LockState::Damaged, _) => format!("{file} cannot be read"),
            (LockState::Gone, _) => format!("{file} is gone"),
            (LockState::Read, Some(path)) => {
                format!("there is no such plugin in {} any more", path.display())
            }
            (LockState::Read, None) => format!("{file} does not name it any more"),
        };
        let undo = format!("greenroom plugin remove {name} does without it");
        let one = invalid(&self.places.store, vec![format!("{why}; {undo}")]);
        Found { name: name.to_owned(), ..one }
    }
}

/// Whether it may claim anything. Datawatch's form knows no required hooks.
fn agreed(record: &Record) -> bool {
    record.trust != Trust::Untrusted && record.format != Format::Datawatch
}
