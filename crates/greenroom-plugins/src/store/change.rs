//! What an operator decides about plugins: add, link, remove, grant, revoke, and taking changed
//! scripts as they are.

use std::path::{Path, PathBuf};

use greenroom_formats::manifest::{Allow, Allowed, Format, Manifest};

use super::add::{self, Source};
use super::lock::{Lock, Origin, Record, Trust};
use super::{Inner, Store, StoreError, owner, pin, remove, survey, unknown};
use crate::host::{Found, Standing};

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

impl Store {
    /// Copies a plugin into the store. It does not run before it is granted.
    pub fn add(&self, source: &str) -> Result<Taken, StoreError> {
        let source = Source::parse(source)?;
        self.make_store()?;
        let staging = self.staging();
        let taken = self.add_from(&source, &staging);
        remove(&staging);
        taken
    }

    fn add_from(&self, source: &Source, staging: &Path) -> Result<Taken, StoreError> {
        let (dir, described) = add::fetch(source, self.clone, staging)?;
        let plugin = survey::read(&dir)?;
        let name = plugin.manifest.plugin.name.clone();
        let mut inner = self.inner();
        let mut lock = Lock::read(&self.places.lock)?;
        self.free(&mut inner, &lock, &name, Origin::Added)?;
        let digest = survey::digest(&dir, &plugin)?;
        self.keep(&mut inner, &dir, &plugin, &digest)?;
        let before = lock.get(&name);
        let same =
            before.is_some_and(|record| record.tree == digest && record.trust == Trust::Trusted);
        if !same {
            lock.put(Record::new(&plugin.manifest, &digest, Origin::Added, described));
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
        let digest = survey::digest(dir, &plugin)?;
        let source = format!("link+{}", dir.display());
        let record = Record::new(&plugin.manifest, &digest, Origin::Linked, source);
        let record = Record { path: Some(dir.to_owned()), ..record };
        lock.put(record.granted(Trust::Dev, by, plugin.manifest.capabilities.asked.clone()));
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
        let all = self.agreeable(inner, None)?;
        self.dropped_dir(&all, name).map_or(Ok(()), |dir| Err(taken(dir)))
    }

    /// Where the operator put it, if in the plugins directory.
    fn dropped_dir<'a>(&self, all: &'a [Found], name: &str) -> Option<&'a Path> {
        let dropped =
            |found: &&Found| found.name == name && found.dir.starts_with(&self.places.plugins);
        all.iter().find(dropped).map(|found| found.dir.as_path())
    }

    /// What there is, where more may be agreed to: while it is not known who was required, a new
    /// agreement would hide it, unless it is about the `one` that is not known.
    fn agreeable(&self, inner: &mut Inner, one: Option<&str>) -> Result<Vec<Found>, StoreError> {
        let survey = self.survey_all(inner);
        match survey.unguarded {
            Some(unguarded) if one.is_none() || unguarded.plugin.as_deref() != one => {
                Err(StoreError::Unguarded(unguarded))
            }
            _ => Ok(survey.found),
        }
    }

    /// Forgets an added or linked plugin; the copy goes when nobody needs it.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.inner();
        if inner.loaded.remove(name).is_some() {
            return Ok(());
        }
        let all = self.survey_all(&mut inner).found;
        if let Some(dir) = self.dropped_dir(&all, name) {
            return Err(StoreError::Dropped { name: name.to_owned(), dir: dir.to_owned() });
        }
        let claimed = self.end_claim(name)?;
        let record = match Lock::read(&self.places.lock) {
            Ok(mut lock) => lock.remove(name).map(|record| (lock, record)),
            Err(_) if claimed => None,
            Err(error) => return Err(error),
        };
        let (lock, record) = match record {
            Some(found) => found,
            // The lock did not name it any more; its claim was all there was to remove.
            None if claimed => return Ok(()),
            None => return Err(unknown(name, &all)),
        };
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
        self.agreeable(&mut inner, Some(name))?;
        let found = self.find(&mut inner, name)?;
        let Some(manifest) = &found.manifest else {
            let why = match &found.standing {
                Standing::Invalid(why) => why.join("; "),
                _ => "it has no manifest".to_owned(),
            };
            return Err(StoreError::Program { path: found.dir.clone(), why });
        };
        let other = |expected: &str| {
            let (expected, found) = (expected.to_owned(), found.digest.clone());
            Err(StoreError::Digest { name: name.to_owned(), expected, found })
        };
        if let Some(expected) = granting.digest.as_ref().filter(|it| **it != found.digest) {
            return other(expected);
        }
        let grants = narrowed(name, manifest, granting.only.as_deref())?;
        let mut lock = Lock::read(&self.places.lock)?;
        let (origin, source, path) = match lock.get(name).cloned() {
            // What was added and has changed in the store was tampered with: nobody can agree to
            // that.
            Some(Record { origin: Origin::Added, tree, .. })
                if found.standing == Standing::Modified =>
            {
                return other(&tree);
            }
            Some(before) => (before.origin, before.source, before.path),
            None => {
                let source = format!("dir+{}", found.dir.display());
                (Origin::Dropped, source, Some(found.dir.clone()))
            }
        };
        let record = Record::new(manifest, &found.digest, origin, source);
        let record = Record { name: name.to_owned(), path, ..record };
        let trust = if origin == Origin::Linked { Trust::Dev } else { Trust::Trusted };
        lock.put(record.granted(trust, &granting.by, grants));
        lock.write(&self.places.lock)?;
        self.find(&mut inner, name)
    }

    /// Takes an agreement back.
    pub fn revoke(&self, name: &str) -> Result<Found, StoreError> {
        let mut inner = self.inner();
        let found = self.find(&mut inner, name)?;
        let claimed = self.end_claim(name)?;
        let mut lock = match Lock::read(&self.places.lock) {
            Ok(lock) => lock,
            Err(_) if claimed => return Ok(found),
            Err(error) => return Err(error),
        };
        match lock.get(name).cloned() {
            Some(record) if record.origin == Origin::Linked => drop(lock.remove(name)),
            Some(record) => lock.put(record.revoked()),
            None => return Ok(found),
        }
        lock.write(&self.places.lock)?;
        Ok(self.find(&mut inner, name).unwrap_or(found))
    }

    /// Takes the operator's own scripts as they are now, if nobody else can have written them.
    /// Answers whose bytes changed.
    pub fn accept(&self, only: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut inner = self.inner();
        let mut lock = Lock::read(&self.places.lock)?;
        let all = self.survey_all(&mut inner).found;
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

    /// Takes a plugin for this daemon's life, with all it asks for: whoever may do this has agreed
    /// by doing it.
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
        if let Some(loaded) = inner.loaded.get(&name) {
            return Err(StoreError::Taken { name, by: self.copy_of(&loaded.tree) });
        }
        let digest = survey::digest(&dir, &plugin)?;
        self.keep(&mut inner, &dir, &plugin, &digest)?;
        let source = format!("load+{}", manifest.display());
        let record = Record::new(&plugin.manifest, &digest, Origin::Added, source);
        let asked = plugin.manifest.capabilities.asked.clone();
        inner.loaded.insert(name.clone(), record.granted(Trust::Trusted, "loaded", asked));
        Ok(name)
    }

    /// Forgets what was loaded. Not what the operator has: that is `remove`.
    pub fn unload(&self, name: &str) -> Result<(), StoreError> {
        let mut inner = self.inner();
        match inner.loaded.remove(name) {
            Some(_) => Ok(()),
            None => Err(self.find(&mut inner, name).err().unwrap_or_else(|| StoreError::Source {
                from: name.to_owned(),
                why: "it was not loaded with plugin.load; greenroom plugin remove forgets it"
                    .to_owned(),
            })),
        }
    }

    fn find(&self, inner: &mut Inner, name: &str) -> Result<Found, StoreError> {
        let all = self.survey_all(inner).found;
        all.iter().find(|found| found.name == name).cloned().ok_or_else(|| unknown(name, &all))
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
        let Some(value) = value else {
            grants.insert(capability.to_owned(), allow.clone());
            continue;
        };
        if !allow.covers(&Allow::List(vec![value.to_owned()])) {
            return Err(not_asked());
        }
        let granted = grants.entry(capability.to_owned());
        if let Allow::List(list) = granted.or_insert_with(|| Allow::List(Vec::new())) {
            list.push(value.to_owned());
        }
    }
    Ok(grants)
}
