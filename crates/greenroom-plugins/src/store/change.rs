//! What an operator decides about plugins: add, link, remove, grant, revoke, and taking changed scripts as they are.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use greenroom_protocol::Timestamp;
use greenroom_protocol::manifest::{Allow, Allowed, Format, Manifest};

use super::add::{self, Source};
use super::lock::{Lock, Origin, Record, Trust};
use super::{Inner, Passing, Store, StoreError, make_private, owner, pin, remove, survey, unknown};
use crate::host::supply::{Found, Standing};

/// A plugin that was added or linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub name: String,
    pub digest: String,
    /// It is the same as before, and was agreed to.
    pub trusted: bool,
}

/// What to agree to.
#[derive(Clone, Debug, Default)]
pub struct Granting {
    /// Only these bytes.
    pub digest: Option<String>,
    /// Only these capabilities; all that are asked for if absent.
    pub only: Option<Vec<String>>,
    /// Who agrees, for the record.
    pub by: String,
}

pub(super) fn now() -> String {
    Timestamp::from_system(SystemTime::now()).to_string()
}

impl Store {
    /// Copies a plugin into the store. It does not run before it is granted.
    pub fn add(&self, source: &str) -> Result<Taken, StoreError> {
        let source = Source::parse(source)?;
        make_private(&self.places.store)
            .map_err(|error| disk("create", &self.places.store, error))?;
        let staging = self.staging();
        let taken = self.add_from(&source, &staging);
        remove(&staging);
        taken
    }

    fn add_from(&self, source: &Source, staging: &Path) -> Result<Taken, StoreError> {
        let (dir, described) = add::fetch(source, staging)?;
        let plugin = survey::read(&dir)?;
        let name = plugin.manifest.plugin.name.clone();
        let mut inner = self.inner();
        let mut lock = Lock::read(&self.places.lock)?;
        self.free(&mut inner, &lock, &name, Origin::Added)?;
        let tree_fault = |source| StoreError::Tree { dir: dir.clone(), source };
        let digest = survey::digest(&plugin).map_err(tree_fault)?;
        self.keep(&mut inner, &dir, &plugin, &digest)?;
        let before = lock.get(&name);
        let same =
            before.is_some_and(|record| record.tree == digest && record.trust == Trust::Trusted);
        if !same {
            lock.put(Record {
                name: name.clone(),
                version: plugin.manifest.plugin.version.clone(),
                origin: Origin::Added,
                source: described,
                path: None,
                format: plugin.manifest.format,
                tree: digest.clone(),
                trust: Trust::Untrusted,
                granted_at: None,
                granted_by: None,
                grants: Allowed::new(),
            });
            lock.write(&self.places.lock)?;
        }
        Ok(Taken { name, digest, trusted: same })
    }

    /// Runs a plugin where it lies, whatever lies there: for whoever is writing it.
    pub fn link(&self, dir: &Path, by: &str) -> Result<Taken, StoreError> {
        if !dir.is_absolute() {
            let why = "an absolute path is needed".to_owned();
            return Err(StoreError::Source { from: dir.display().to_string(), why });
        }
        let plugin = survey::read(dir)?;
        let name = plugin.manifest.plugin.name.clone();
        let mut inner = self.inner();
        let mut lock = Lock::read(&self.places.lock)?;
        self.free(&mut inner, &lock, &name, Origin::Linked)?;
        let digest = survey::digest(&plugin)
            .map_err(|source| StoreError::Tree { dir: dir.to_owned(), source })?;
        lock.put(Record {
            name: name.clone(),
            version: plugin.manifest.plugin.version.clone(),
            origin: Origin::Linked,
            source: format!("link+{}", dir.display()),
            path: Some(dir.to_owned()),
            format: plugin.manifest.format,
            tree: digest.clone(),
            trust: Trust::Dev,
            granted_at: Some(now()),
            granted_by: Some(by.to_owned()),
            grants: plugin.manifest.capabilities.asked.clone(),
        });
        lock.write(&self.places.lock)?;
        Ok(Taken { name, digest, trusted: true })
    }

    /// Nobody else has the name: what is added again or linked again replaces itself.
    fn free(
        &self,
        inner: &mut Inner,
        lock: &Lock,
        name: &str,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let taken = |by: &Path| StoreError::Taken { name: name.to_owned(), by: by.to_owned() };
        if let Some(record) = lock.get(name).filter(|record| record.origin != origin) {
            let gone = record.path.as_ref().is_some_and(|path| !path.is_dir());
            if !gone {
                return Err(taken(Path::new(&record.source)));
            }
        }
        let all = self.survey_all(inner).unwrap_or_default();
        let dropped =
            |found: &&Found| found.name == name && found.dir.starts_with(&self.places.plugins);
        match all.iter().find(dropped) {
            Some(found) => Err(taken(&found.dir)),
            None => Ok(()),
        }
    }

    /// Forgets an added or linked plugin; the copy goes when nobody needs it.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.inner();
        if inner.passing.remove(name).is_some() {
            return Ok(());
        }
        let mut lock = Lock::read(&self.places.lock)?;
        let all = self.survey_all(&mut inner).unwrap_or_default();
        if let Some(found) = all
            .iter()
            .find(|found| found.name == name && found.dir.starts_with(&self.places.plugins))
        {
            return Err(StoreError::Dropped { name: name.to_owned(), dir: found.dir.clone() });
        }
        let record = lock.remove(name).ok_or_else(|| unknown(name, &all))?;
        lock.write(&self.places.lock)?;
        let needed = lock.all().iter().any(|other| other.tree == record.tree);
        if record.origin == Origin::Added && !needed {
            remove(&self.copy_of(&record.tree));
        }
        Ok(())
    }

    /// Agrees to a plugin as it is now.
    pub fn grant(&self, name: &str, granting: &Granting) -> Result<Found, StoreError> {
        let mut inner = self.inner();
        let found = self.find(&mut inner, name)?;
        let Some(manifest) = &found.manifest else {
            let why = match &found.standing {
                Standing::Invalid(why) => why.join("; "),
                _ => "it has no manifest".to_owned(),
            };
            return Err(StoreError::Program { path: found.dir.clone(), why });
        };
        if let Some(expected) =
            granting.digest.as_ref().filter(|expected| **expected != found.digest)
        {
            let (name, expected, found) = (name.to_owned(), expected.clone(), found.digest.clone());
            return Err(StoreError::Digest { name, expected, found });
        }
        let grants = narrowed(name, manifest, granting.only.as_deref())?;
        let mut lock = Lock::read(&self.places.lock)?;
        let before = lock.get(name).cloned();
        let origin = before.as_ref().map_or(Origin::Dropped, |record| record.origin);
        // What was added and has changed in the store was tampered with: nobody can agree to that.
        if origin == Origin::Added && found.standing == Standing::Modified {
            let expected = before.map(|record| record.tree).unwrap_or_default();
            return Err(StoreError::Digest {
                name: name.to_owned(),
                expected,
                found: found.digest,
            });
        }
        lock.put(Record {
            name: name.to_owned(),
            version: manifest.plugin.version.clone(),
            origin,
            source: before.as_ref().map_or_else(
                || format!("dir+{}", found.dir.display()),
                |record| record.source.clone(),
            ),
            path: before.map_or_else(|| Some(found.dir.clone()), |record| record.path),
            format: manifest.format,
            tree: found.digest.clone(),
            trust: if origin == Origin::Linked { Trust::Dev } else { Trust::Trusted },
            granted_at: Some(now()),
            granted_by: Some(granting.by.clone()),
            grants,
        });
        lock.write(&self.places.lock)?;
        self.find(&mut inner, name)
    }

    /// Takes an agreement back.
    pub fn revoke(&self, name: &str) -> Result<Found, StoreError> {
        let mut inner = self.inner();
        let found = self.find(&mut inner, name)?;
        let mut lock = Lock::read(&self.places.lock)?;
        match lock.get(name).cloned() {
            Some(record) if record.origin == Origin::Linked => {
                lock.remove(name);
            }
            Some(mut record) => {
                record.trust = Trust::Untrusted;
                record.granted_at = None;
                record.granted_by = None;
                record.grants = Allowed::new();
                lock.put(record);
            }
            None => return Ok(found),
        }
        lock.write(&self.places.lock)?;
        Ok(self.find(&mut inner, name).unwrap_or(found))
    }

    /// Takes the operator's own scripts as they are now, if nobody else can have written them. Answers whose bytes changed.
    pub fn accept(&self, only: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut inner = self.inner();
        let mut lock = Lock::read(&self.places.lock)?;
        let all = self.survey_all(&mut inner).map_err(|error| StoreError::Lock {
            path: self.places.lock.clone(),
            why: error.to_string(),
        })?;
        let mut accepted = Vec::new();
        for found in all.iter().filter(|found| only.is_none_or(|only| only == found.name)) {
            let datawatch = found.manifest.as_ref().is_some_and(|m| m.format == Format::Datawatch);
            let ours = found.standing == Standing::Modified
                && datawatch
                && found.dir.starts_with(&self.places.plugins);
            if !ours || owner::only_ours(&found.dir).is_err() {
                continue;
            }
            let plugin = survey::read(&found.dir)?;
            let grants =
                lock.get(&found.name).map(|record| record.grants.clone()).unwrap_or_default();
            lock.put(Record { grants, ..pin(&found.dir, &plugin, &found.digest) });
            accepted.push(found.name.clone());
        }
        if !accepted.is_empty() {
            lock.write(&self.places.lock)?;
        }
        Ok(accepted)
    }

    /// Takes a plugin for this daemon's life, with all it asks for: whoever may do this has agreed by doing it.
    pub fn load(&self, manifest: &Path) -> Result<String, StoreError> {
        let dir: PathBuf = manifest.parent().map(Path::to_owned).unwrap_or_default();
        let loaded = survey::read_manifest(manifest)?;
        let plugin = survey::read(&dir)?;
        let name = plugin.manifest.plugin.name.clone();
        if loaded.manifest.plugin.name != name {
            return Err(StoreError::TwoManifests {
                first: manifest.display().to_string(),
                second: name,
                dir,
            });
        }
        let mut inner = self.inner();
        let lock = Lock::read(&self.places.lock)?;
        self.free(&mut inner, &lock, &name, Origin::Added)?;
        if let Some(passing) = inner.passing.get(&name) {
            return Err(StoreError::Taken { name, by: passing.root.clone() });
        }
        let digest = survey::digest(&plugin)
            .map_err(|source| StoreError::Tree { dir: dir.clone(), source })?;
        let root = self.keep(&mut inner, &dir, &plugin, &digest)?;
        inner.passing.insert(name.clone(), Passing { root, digest });
        Ok(name)
    }

    /// Forgets what was loaded. Not what the operator has: that is `remove`.
    pub fn unload(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.inner();
        match inner.passing.remove(name) {
            Some(_) => Ok(()),
            None => Err(self.find(&mut inner, name).err().unwrap_or_else(|| StoreError::Source {
                from: name.to_owned(),
                why: "it was not loaded with plugin.load; greenroom plugin remove forgets it"
                    .to_owned(),
            })),
        }
    }

    fn find(&self, inner: &mut Inner, name: &str) -> Result<Found, StoreError> {
        let all = self.survey_all(inner).map_err(|error| StoreError::Lock {
            path: self.places.lock.clone(),
            why: error.to_string(),
        })?;
        match all.iter().find(|found| found.name == name) {
            Some(found) => Ok(found.clone()),
            None => Err(unknown(name, &all)),
        }
    }
}

/// What is asked for, or the part of it that is named: `cap` or `cap=value`.
fn narrowed(
    name: &str,
    manifest: &Manifest,
    only: Option<&[String]>,
) -> Result<Allowed, StoreError> {
    let asked = &manifest.capabilities.asked;
    let Some(only) = only else { return Ok(asked.clone()) };
    let mut grants = Allowed::new();
    for wanted in only {
        let (capability, value) = match wanted.split_once('=') {
            Some((capability, value)) => (capability, Some(value)),
            None => (wanted.as_str(), None),
        };
        let not_asked =
            || StoreError::NotAsked { name: name.to_owned(), capability: wanted.clone() };
        let allow = asked.get(capability).filter(|allow| allow.any()).ok_or_else(not_asked)?;
        match value {
            None => {
                grants.insert(capability.to_owned(), allow.clone());
            }
            Some(value) => {
                let one = Allow::List(vec![value.to_owned()]);
                if !allow.covers(&one) {
                    return Err(not_asked());
                }
                match grants.entry(capability.to_owned()).or_insert_with(|| Allow::List(Vec::new()))
                {
                    Allow::List(list) => list.push(value.to_owned()),
                    Allow::Flag(_) => {}
                }
            }
        }
    }
    Ok(grants)
}

fn disk(step: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Disk { step, path: path.to_owned(), source }
}
