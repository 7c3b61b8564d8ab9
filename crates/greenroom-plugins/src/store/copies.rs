//! The copies that run: one directory per digest, written by nobody, removed when no agreement
//! names it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{StoreError, TreeError};
use super::lock::Lock;
use super::required::MARK;
use super::survey::{self, Plugin};
use super::{Inner, Store};

impl Store {
    /// Where the copy with this digest is.
    pub(super) fn copy_of(&self, digest: &str) -> PathBuf {
        self.places.store.join(digest.trim_start_matches("sha256:"))
    }

    /// Makes the copy unless it is there. Answers where.
    pub(super) fn keep(
        &self,
        inner: &mut Inner,
        dir: &Path,
        plugin: &Plugin,
        digest: &str,
    ) -> Result<PathBuf, StoreError> {
        let to = self.copy_of(digest);
        if to.is_dir() {
            return Ok(to);
        }
        self.make_store()?;
        let staging = self.staging();
        let copied = plugin
            .tree
            .copy(&staging)
            .and_then(|tree| survey::with_outside(tree, &plugin.manifest));
        let copied = match copied {
            Ok(copied) if copied == digest => Ok(()),
            Ok(_) => Err(TreeError::Changed { path: dir.to_owned() }),
            Err(error) => Err(error),
        };
        if let Err(source) = copied {
            remove(&staging);
            return Err(StoreError::tree(dir, source));
        }
        // Nobody writes into a copy.
        each_dir(&staging, 0o555);
        match fs::rename(&staging, &to) {
            Ok(()) => {}
            // Another call has made the same copy meanwhile.
            Err(_) if to.is_dir() => remove(&staging),
            Err(error) => return Err(StoreError::disk("create", &to, error)),
        }
        inner.known.remove(&to);
        Ok(to)
    }

    /// Ours alone.
    pub(super) fn make_store(&self) -> Result<(), StoreError> {
        let dir = &self.places.store;
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(dir);
        made.map_err(|error| StoreError::disk("create", dir, error))
    }

    /// A name nobody uses, beside the copies: a directory is renamed within its parent.
    pub(super) fn staging(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.places.store.join(format!(".new-{}-{count}", std::process::id()))
    }

    /// Removes copies that no agreement names: of earlier versions, and of additions that did not
    /// come to an end.
    pub(super) fn sweep(&self, lock: &Lock, inner: &Inner) {
        // Directories that this process fills just now stay.
        let ours = format!(".new-{}-", std::process::id());
        let needed = |path: &Path| {
            path.file_name().is_some_and(|name| {
                name.as_encoded_bytes().starts_with(ours.as_bytes()) || name == MARK
            }) || lock.all().iter().any(|record| self.copy_of(&record.tree) == *path)
                || inner.loaded.values().any(|record| self.copy_of(&record.tree) == *path)
        };
        for entry in fs::read_dir(&self.places.store).into_iter().flatten().flatten() {
            if !needed(&entry.path()) {
                remove(&entry.path());
            }
        }
    }
}

/// Copies are read-only; that must not keep us from removing them.
pub(super) fn remove(root: &Path) {
    each_dir(root, 0o700);
    let _ = fs::remove_dir_all(root);
}

/// Both modes let us read a directory, so it gets its own before what is below it.
fn each_dir(root: &Path, mode: u32) {
    let mut ahead = vec![root.to_owned()];
    while let Some(dir) = ahead.pop() {
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode));
        let inside = fs::read_dir(&dir).into_iter().flatten().flatten();
        let dirs = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        ahead.extend(dirs.map(|entry| entry.path()));
    }
}
