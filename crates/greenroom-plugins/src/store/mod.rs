//! The store of plugins: what there is, what was agreed to, and the bytes that run.
//!
//! | room | what it is |
//! |---|---|
//! | here | the store as the daemon holds it, and the [`Catalog`] of the host |
//! | `survey` | reading directories |
//! | `tree` | listing, digest and copy of a plugin's files |
//! | `lock` | `plugins.lock` |
//! | `required` | `plugins.required`: whose absence counts |
//! | `copies` | the copies that run |
//! | `owner` | who could have written a directory |
//! | `add` | directories, archives, repositories |
//! | `change` | add, link, remove, grant, revoke, accept |
//!
//! What runs is always a copy under the state directory, named by its digest and writable by
//! nobody; a plugin in the operator's own directory is compared with its copy before each start, so
//! changed bytes do not run. Nothing is ever looked for in a working directory. Deliberately
//! absent: running anything.

mod add;
mod change;
mod copies;
mod error;
pub mod lock;
mod owner;
mod required;
mod survey;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use greenroom_formats::manifest::{Allow, Allowed, Format};

use crate::host::{Catalog, CatalogError, Found, Standing, Survey};
pub use add::{CloneError, CloneRepository, Source};
pub use change::{Granting, Taken};
use copies::remove;
pub use error::{StoreError, TreeError};
use lock::{Lock, Origin, Record, Trust};
use required::{Claims, LockRead, LockState};
use survey::Plugin;
use tree::Tree;

/// A secret is a line, not a file.
const SECRET_MAX: u64 = 64 * 1024;

/// Where a store's things lie.
#[derive(Clone, Debug)]
pub struct Places {
    /// The operator's plugins, one directory each.
    pub plugins: PathBuf,
    /// Ours alone: the copies that run.
    pub store: PathBuf,
    /// `plugins.lock`.
    pub lock: PathBuf,
    /// One file per secret.
    pub secrets: PathBuf,
}

/// The handle. One per daemon: changes of the lock are made one after the other.
pub struct Store {
    places: Places,
    clone: CloneRepository,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Digests by directory, as long as nothing was touched.
    known: HashMap<PathBuf, (u64, String)>,
    /// Loaded for this daemon's life only: never written into the lock.
    loaded: BTreeMap<String, Record>,
    /// Copies nobody needs were removed, when nothing ran from them yet.
    swept: bool,
}

/// Pinning the operator's own scripts when they are first seen.
struct Pins {
    allowed: bool,
    made: bool,
}

impl Store {
    /// Neither reads nor makes a file yet.
    pub fn new(places: Places, clone: CloneRepository) -> Store {
        Store { places, clone, inner: Mutex::default() }
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What the lock says of a plugin.
    pub fn record(&self, name: &str) -> Result<Option<Record>, StoreError> {
        Ok(Lock::read(&self.places.lock)?.get(name).cloned())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        crate::lock(&self.inner)
    }

    /// The digest of the tree in `dir`, from memory where nothing was touched.
    fn tree_digest(&self, inner: &mut Inner, dir: &Path, tree: &Tree) -> Result<String, TreeError> {
        if let Some((stamp, digest)) = inner.known.get(dir)
            && *stamp == tree.stamp
        {
            return Ok(digest.clone());
        }
        let digest = tree.digest()?;
        if tree.settled {
            inner.known.insert(dir.to_owned(), (tree.stamp, digest.clone()));
        } else {
            inner.known.remove(dir);
        }
        Ok(digest)
    }

    /// What lies in `dir`, and its digest.
    fn look(&self, inner: &mut Inner, dir: &Path) -> Result<(Plugin, String), StoreError> {
        let plugin = survey::read(dir)?;
        let digest = self
            .tree_digest(inner, dir, &plugin.tree)
            .and_then(|tree| survey::with_outside(tree, &plugin.manifest))
            .map_err(|source| StoreError::tree(dir, source))?;
        Ok((plugin, digest))
    }

    /// Everything there is, with its record.
    fn survey_all(&self, inner: &mut Inner) -> Survey {
        let mut faults = Vec::new();
        let lock_fault = |error: StoreError| CatalogError::Lock {
            path: self.places.lock.clone(),
            why: match error {
                StoreError::Lock { why, .. } => why,
                error => error.to_string(),
            },
        };
        let claims = Claims::read(&self.claims_file());
        let mut read = match Lock::find(&self.places.lock) {
            Ok(Some(lock)) => LockRead { lock, state: LockState::Read },
            Ok(None) => {
                if self.had_claims(&claims) {
                    faults.push(CatalogError::Gone { path: self.places.lock.clone() });
                }
                LockRead { lock: Lock::default(), state: LockState::Gone }
            }
            Err(error) => {
                faults.push(lock_fault(error));
                LockRead { lock: Lock::default(), state: LockState::Damaged }
            }
        };
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        // Bytes that may have been others before are not pinned by themselves.
        let mut pins = Pins { allowed: faults.is_empty(), made: false };
        let dirs = match read.state {
            // Nothing runs of which it is not known what was agreed to.
            LockState::Damaged => Vec::new(),
            _ => survey::directories(&self.places.plugins).unwrap_or_else(|error| {
                faults.push(error);
                Vec::new()
            }),
        };
        for dir in dirs {
            put(&mut found, self.dropped(inner, &mut read.lock, &dir, &mut pins));
        }
        let loaded: Vec<Record> = inner.loaded.values().cloned().collect();
        for record in read.lock.all().iter().chain(&loaded) {
            if let Some(one) = self.recorded(inner, record) {
                put(&mut found, one);
            }
        }
        if pins.made
            && let Err(error) = read.lock.write(&self.places.lock)
        {
            faults.push(lock_fault(error));
        }
        let unguarded = self.settle_claims(&read, claims, &mut found, inner, &mut faults);
        // Copies that no agreement names may be all that is left of one.
        let clear = faults.is_empty() && unguarded.is_none();
        if clear && !std::mem::replace(&mut inner.swept, true) {
            self.sweep(&read.lock, inner);
        }
        Survey { found: found.into_values().collect(), faults, unguarded }
    }

    /// One in the operator's directory.
    fn dropped(&self, inner: &mut Inner, lock: &mut Lock, dir: &Path, pins: &mut Pins) -> Found {
        if dir.is_symlink() {
            let target = fs::read_link(dir).unwrap_or_default();
            let why = format!(
                "{} is a link: use greenroom plugin link {}",
                dir.display(),
                target.display()
            );
            return invalid(dir, vec![why]);
        }
        let (plugin, digest) = match self.look(inner, dir) {
            Ok(found) => found,
            Err(error) => return invalid(dir, problems(&error)),
        };
        let name = plugin.manifest.plugin.name.clone();
        let mut warnings = Vec::new();
        let datawatch = plugin.manifest.format == Format::Datawatch;
        if pins.allowed && lock.get(&name).is_none() && datawatch {
            match owner::only_ours(dir) {
                Ok(()) => {
                    lock.put(pin(dir, &plugin, &digest));
                    pins.made = true;
                }
                Err(why) => warnings.push(format!("it does not run without consent: {why}")),
            }
        }
        let record = lock.get(&name);
        if let Some(taken) = record.filter(|record| record.origin != Origin::Dropped) {
            return invalid(dir, vec![format!("the name {name} is taken by {}", taken.source)]);
        }
        let standing = match record {
            Some(record) if record.trust != Trust::Trusted => Standing::NeedsConsent,
            Some(record) if record.tree == digest => Standing::Granted,
            Some(_) => Standing::Modified,
            None => Standing::NeedsConsent,
        };
        let grants = record.map(|record| record.grants.clone()).unwrap_or_default();
        let mut one = found(dir, &digest, standing, &plugin, grants);
        one.warnings.extend(warnings);
        if one.standing == Standing::Granted {
            match self.keep(inner, dir, &plugin, &digest) {
                Ok(root) => one.root = root,
                Err(error) => return invalid(dir, vec![error.to_string()]),
            }
        }
        one
    }

    /// A plugin that only the lock knows, or that was loaded.
    fn recorded(&self, inner: &mut Inner, record: &Record) -> Option<Found> {
        let (dir, mut standing) = match (record.origin, record.trust) {
            (Origin::Dropped, _) => return None,
            (Origin::Linked, _) => (record.path.clone()?, Standing::Linked),
            (Origin::Added, Trust::Trusted) => (self.copy_of(&record.tree), Standing::Granted),
            (Origin::Added, _) => (self.copy_of(&record.tree), Standing::NeedsConsent),
        };
        let one = match self.look(inner, &dir) {
            Ok((plugin, digest)) => {
                let mut grants = record.grants.clone();
                if standing == Standing::Linked {
                    grants = plugin.manifest.capabilities.asked.clone();
                } else if record.tree != digest {
                    standing = Standing::Modified;
                }
                found(&dir, &digest, standing, &plugin, grants)
            }
            Err(error) => invalid(&dir, problems(&error)),
        };
        // The lock and whoever asks know it by this name.
        Some(Found { name: record.name.clone(), ..one })
    }
}

impl Catalog for Store {
    fn survey(&self) -> Survey {
        self.survey_all(&mut self.inner())
    }

    fn unchanged(&self, found: &Found) -> Result<(), String> {
        if found.standing == Standing::Linked {
            return Ok(());
        }
        let manifest = found.manifest.as_ref().ok_or("it has no manifest")?;
        let mut inner = self.inner();
        let mut places = vec![&found.root];
        if found.dir != found.root && found.dir.is_dir() {
            places.push(&found.dir);
        }
        for place in places {
            let tree = Tree::list(place).map_err(|error| error.to_string())?;
            let digest = self
                .tree_digest(&mut inner, place, &tree)
                .and_then(|tree| survey::with_outside(tree, manifest))
                .map_err(|error| error.to_string())?;
            if digest != found.digest {
                return Err(format!(
                    "the files in {} have changed since they were agreed to: greenroom plugin reload takes them as they are, \
                     greenroom plugin info {} shows them",
                    place.display(),
                    found.name
                ));
            }
        }
        Ok(())
    }

    fn secret(&self, found: &Found, name: &str) -> Option<OsString> {
        let granted = match found.grants.get("secrets.read")? {
            Allow::List(names) => names.iter().any(|granted| granted == name),
            Allow::Flag(_) => false,
        };
        let plain = !name.is_empty()
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        if !granted || !plain {
            return None;
        }
        use std::io::Read;
        use std::os::unix::ffi::OsStringExt;
        let file = fs::File::open(self.places.secrets.join(name)).ok()?;
        let mut value = Vec::new();
        file.take(SECRET_MAX).read_to_end(&mut value).ok()?;
        while value.last() == Some(&b'\n') {
            value.pop();
        }
        Some(OsString::from_vec(value))
    }
}

/// The operator's own script: its bytes as they are now.
fn pin(dir: &Path, plugin: &Plugin, digest: &str) -> Record {
    let source = format!("dir+{}", dir.display());
    let record = Record::new(&plugin.manifest, digest, Origin::Dropped, source);
    let record = Record { path: Some(dir.to_owned()), ..record };
    record.granted(Trust::Trusted, "plugins directory", Allowed::new())
}

fn found(dir: &Path, digest: &str, standing: Standing, plugin: &Plugin, grants: Allowed) -> Found {
    Found {
        name: plugin.manifest.plugin.name.clone(),
        digest: digest.to_owned(),
        standing,
        manifest: Some(plugin.manifest.clone()),
        grants,
        warnings: plugin.warnings.clone(),
        ..invalid(dir, Vec::new())
    }
}

fn invalid(dir: &Path, why: Vec<String>) -> Found {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Found {
        name,
        dir: dir.to_owned(),
        root: dir.to_owned(),
        digest: String::new(),
        standing: Standing::Invalid(why),
        manifest: None,
        grants: Allowed::new(),
        claims: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Each mistake of a manifest on its own.
fn problems(error: &StoreError) -> Vec<String> {
    let text = match (error, error.hint()) {
        (StoreError::Program { .. }, Some(hint)) => format!("{error}: {hint}"),
        _ => error.to_string(),
    };
    text.lines().map(str::to_owned).collect()
}

/// The first of a name has it. The other is told, under a name of its own, so that neither hides
/// the other.
fn put(found: &mut BTreeMap<String, Found>, mut one: Found) {
    let Some(first) = found.get(&one.name) else {
        found.insert(one.name.clone(), one);
        return;
    };
    let why = format!("the name {} is taken by {}", one.name, first.dir.display());
    let free =
        (2..).map(|count| format!("{}#{count}", one.name)).find(|name| !found.contains_key(name));
    one.name = free.unwrap_or_default();
    one.standing = Standing::Invalid(vec![why]);
    one.manifest = None;
    found.insert(one.name.clone(), one);
}

/// For messages about a plugin by a name that is not there.
fn unknown(name: &str, found: &[Found]) -> StoreError {
    let names = found.iter().map(|found| found.name.as_str());
    let nearest = greenroom_protocol::nearest(name, names).map(str::to_owned);
    StoreError::Unknown { name: name.to_owned(), nearest }
}
