//! The copies that run: one directory per digest, written by nobody, removed when no agreement names it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{StoreError, TreeError};
use super::lock::Lock;
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
        let fault = |step, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Disk { step, path, source }
        };
        make_private(&self.places.store).map_err(fault("create", &self.places.store))?;
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
            return Err(StoreError::Tree { dir: dir.to_owned(), source });
        }
        seal(&staging);
        match fs::rename(&staging, &to) {
            Ok(()) => {}
            // Somebody else made the same one.
            Err(_) if to.is_dir() => remove(&staging),
            Err(error) => return Err(fault("create", &to)(error)),
        }
        inner.known.remove(&to);
        Ok(to)
    }

    /// A name nobody uses, beside the copies: a directory is renamed within its parent.
    pub(super) fn staging(&self) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        self.places.store.join(format!(".new-{}-{count}", std::process::id()))
    }

    /// Removes copies that no agreement names: of earlier versions, and of additions that did not come to an end.
    pub(super) fn sweep(&self, lock: &Lock, inner: &Inner) {
        // What this process is making is no leftover.
        let ours = format!(".new-{}-", std::process::id());
        let needed = |path: &Path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(ours.as_bytes()))
                || lock.all().iter().any(|record| self.copy_of(&record.tree) == *path)
                || inner.passing.values().any(|passing| passing.root == path)
        };
        for entry in fs::read_dir(&self.places.store).into_iter().flatten().flatten() {
            if !needed(&entry.path()) {
                remove(&entry.path());
            }
        }
    }
}

pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(dir)
}

/// Nobody writes into a copy.
fn seal(root: &Path) {
    each_dir(root, 0o555);
}

/// Copies are read-only; that must not keep us from removing them.
pub(super) fn remove(root: &Path) {
    each_dir(root, 0o700);
    let _ = fs::remove_dir_all(root);
}

fn each_dir(root: &Path, mode: u32) {
    let mut ahead = vec![root.to_owned()];
    while let Some(dir) = ahead.pop() {
        if mode & 0o200 != 0 {
            let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode));
        }
        let inside = fs::read_dir(&dir).into_iter().flatten().flatten();
        ahead.extend(
            inside
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
        if mode & 0o200 == 0 {
            let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode));
        }
    }
}
