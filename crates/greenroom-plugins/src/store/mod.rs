//! The store of plugins: what there is, what was agreed to, and the bytes that run.
//!
//! | room | what it is |
//! |---|---|
//! | here | the store as the daemon holds it, and the [`Supply`] of the host |
//! | `survey` | reading directories |
//! | `tree` | listing, digest and copy of a plugin's files |
//! | `lock` | `plugins.lock` |
//! | `copies` | the copies that run |
//! | `owner` | who could have written a directory |
//! | `add` | directories, archives, repositories |
//! | `change` | add, link, remove, grant, revoke, accept |
//!
//! What runs is always a copy under the state directory, named by its digest and writable by nobody; a plugin in the
//! operator's own directory is compared with its copy before each start, so changed bytes do not run. Nothing is ever looked
//! for in a working directory. Deliberately absent: running anything.

mod add;
mod change;
mod copies;
pub mod error;
pub mod lock;
mod owner;
pub mod survey;
pub mod tree;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use greenroom_protocol::manifest::{Allow, Allowed, Format};

use crate::host::supply::{Found, Standing, Supply, SupplyError};
use crate::spec::Secret;
pub use add::Source;
pub use change::{Granting, Taken};
use copies::{make_private, remove};
pub use error::{StoreError, TreeError};
use lock::{Lock, Origin, Record, Trust};
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
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Digests by directory, as long as nothing was touched.
    known: HashMap<PathBuf, (u64, String)>,
    /// Loaded for this daemon's life only.
    passing: BTreeMap<String, Passing>,
    /// Copies nobody needs were removed, when nothing ran from them yet.
    swept: bool,
}

#[derive(Clone)]
struct Passing {
    root: PathBuf,
    digest: String,
}

impl Store {
    /// Makes nothing yet.
    pub fn new(places: Places) -> Store {
        Store { places, inner: Mutex::default() }
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What the lock says of a plugin.
    pub fn record(&self, name: &str) -> Result<Option<Record>, StoreError> {
        Ok(Lock::read(&self.places.lock)?.get(name).cloned())
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of the tree in `dir`, from memory where nothing was touched.
    fn tree_digest(&self, inner: &mut Inner, dir: &Path, tree: &Tree) -> Result<String, TreeError> {
        if let Some((stamp, digest)) = inner.known.get(dir)
            && *stamp == tree.stamp()
        {
            return Ok(digest.clone());
        }
        let digest = tree.digest()?;
        if tree.settled() {
            inner.known.insert(dir.to_owned(), (tree.stamp(), digest.clone()));
        } else {
            inner.known.remove(dir);
        }
        Ok(digest)
    }

    fn digest_of(
        &self,
        inner: &mut Inner,
        dir: &Path,
        plugin: &Plugin,
    ) -> Result<String, TreeError> {
        let tree = self.tree_digest(inner, dir, &plugin.tree)?;
        survey::with_outside(tree, &plugin.manifest)
    }

    /// Everything there is, with its record.
    fn survey_all(&self, inner: &mut Inner) -> Result<Vec<Found>, SupplyError> {
        let lock_fault = |error: StoreError| SupplyError::Lock {
            path: self.places.lock.clone(),
            why: error.to_string(),
        };
        let mut lock = Lock::read(&self.places.lock).map_err(lock_fault)?;
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        let mut pinned = false;
        for dir in survey::directories(&self.places.plugins)? {
            let one = self.dropped(inner, &mut lock, &dir, &mut pinned);
            put(&mut found, one);
        }
        for record in lock.all().to_vec() {
            if let Some(one) = self.recorded(inner, &record) {
                put(&mut found, one);
            }
        }
        for (name, passing) in inner.passing.clone() {
            let one = self.passing(inner, &name, &passing);
            put(&mut found, one);
        }
        if pinned {
            lock.write(&self.places.lock).map_err(lock_fault)?;
        }
        if !std::mem::replace(&mut inner.swept, true) {
            self.sweep(&lock, inner);
        }
        Ok(found.into_values().collect())
    }

    /// One in the operator's directory.
    fn dropped(&self, inner: &mut Inner, lock: &mut Lock, dir: &Path, pinned: &mut bool) -> Found {
        if dir.is_symlink() {
            let target = fs::read_link(dir).unwrap_or_default();
            let why = format!(
                "{} is a link: use greenroom plugin link {}",
                dir.display(),
                target.display()
            );
            return invalid(dir, vec![why]);
        }
        let plugin = match survey::read(dir) {
            Ok(plugin) => plugin,
            Err(error) => return invalid(dir, problems(&error)),
        };
        let digest = match self.digest_of(inner, dir, &plugin) {
            Ok(digest) => digest,
            Err(error) => return invalid(dir, vec![error.to_string()]),
        };
        let name = plugin.manifest.plugin.name.clone();
        let mut warnings = Vec::new();
        if lock.get(&name).is_none() && plugin.manifest.format == Format::Datawatch {
            match owner::only_ours(dir) {
                Ok(()) => {
                    lock.put(pin(dir, &plugin, &digest));
                    *pinned = true;
                }
                Err(why) => warnings.push(format!("it does not run without consent: {why}")),
            }
        }
        let record = lock.get(&name).filter(|record| record.origin == Origin::Dropped);
        let taken = lock.get(&name).filter(|record| record.origin != Origin::Dropped);
        if let Some(taken) = taken {
            return invalid(dir, vec![format!("the name {name} is taken by {}", taken.source)]);
        }
        let standing = match record {
            Some(record) if record.trust != Trust::Trusted => Standing::NeedsConsent,
            Some(record) if record.tree == digest => Standing::Granted,
            Some(_) => Standing::Modified,
            None => Standing::NeedsConsent,
        };
        let grants = record.map(|record| record.grants.clone()).unwrap_or_default();
        let mut one = found(dir, dir, &digest, standing, &plugin, grants);
        one.warnings.extend(warnings);
        if one.standing == Standing::Granted {
            match self.keep(inner, dir, &plugin, &digest) {
                Ok(root) => one.root = root,
                Err(error) => return invalid(dir, vec![error.to_string()]),
            }
        }
        one
    }

    /// One that only the lock knows.
    fn recorded(&self, inner: &mut Inner, record: &Record) -> Option<Found> {
        let (dir, standing) = match (record.origin, record.trust) {
            (Origin::Dropped, _) => return None,
            (Origin::Linked, _) => (record.path.clone()?, Standing::Linked),
            (Origin::Added, Trust::Trusted) => (self.copy_of(&record.tree), Standing::Granted),
            (Origin::Added, _) => (self.copy_of(&record.tree), Standing::NeedsConsent),
        };
        Some(self.at(
            inner,
            &dir,
            &record.name,
            standing,
            record.grants.clone(),
            Some(&record.tree),
        ))
    }

    fn passing(&self, inner: &mut Inner, name: &str, passing: &Passing) -> Found {
        let mut one = self.at(
            inner,
            &passing.root,
            name,
            Standing::Granted,
            Allowed::new(),
            Some(&passing.digest),
        );
        if let Some(manifest) = &one.manifest {
            one.grants = manifest.capabilities.asked.clone();
        }
        one
    }

    fn at(
        &self,
        inner: &mut Inner,
        dir: &Path,
        name: &str,
        mut standing: Standing,
        mut grants: Allowed,
        agreed: Option<&str>,
    ) -> Found {
        let read = survey::read(dir).and_then(|plugin| {
            let digest = self.digest_of(inner, dir, &plugin);
            let digest =
                digest.map_err(|source| StoreError::Tree { dir: dir.to_owned(), source })?;
            Ok((plugin, digest))
        });
        match read {
            Ok((plugin, digest)) => {
                if standing == Standing::Linked {
                    grants = plugin.manifest.capabilities.asked.clone();
                } else if agreed.is_some_and(|agreed| agreed != digest) {
                    standing = Standing::Modified;
                }
                let mut one = found(dir, dir, &digest, standing, &plugin, grants);
                // The lock and whoever asks know it by this name.
                one.name = name.to_owned();
                one
            }
            Err(error) => {
                let mut one = invalid(dir, problems(&error));
                one.name = name.to_owned();
                one
            }
        }
    }
}

impl Supply for Store {
    fn survey(&self) -> Result<Vec<Found>, SupplyError> {
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

    fn secret(&self, found: &Found, name: &str) -> Option<Secret> {
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
        Some(Secret::new(std::ffi::OsString::from_vec(value)))
    }
}

/// The operator's own script: its bytes as they are now.
fn pin(dir: &Path, plugin: &Plugin, digest: &str) -> Record {
    Record {
        name: plugin.manifest.plugin.name.clone(),
        version: plugin.manifest.plugin.version.clone(),
        origin: Origin::Dropped,
        source: format!("dir+{}", dir.display()),
        path: Some(dir.to_owned()),
        format: plugin.manifest.format,
        tree: digest.to_owned(),
        trust: Trust::Trusted,
        granted_at: Some(change::now()),
        granted_by: Some("plugins directory".to_owned()),
        grants: Allowed::new(),
    }
}

fn found(
    dir: &Path,
    root: &Path,
    digest: &str,
    standing: Standing,
    plugin: &Plugin,
    grants: Allowed,
) -> Found {
    Found {
        name: plugin.manifest.plugin.name.clone(),
        dir: dir.to_owned(),
        root: root.to_owned(),
        digest: digest.to_owned(),
        standing,
        manifest: Some(plugin.manifest.clone()),
        grants,
        warnings: plugin.warnings.clone(),
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

/// The first of a name has it. The other is told, under a name of its own, so that neither hides the other.
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
    let nearest = greenroom_protocol::tree::nearest(name, names).map(str::to_owned);
    StoreError::Unknown { name: name.to_owned(), nearest }
}

/// Shared with whoever builds the host.
pub type SharedStore = Arc<Store>;
