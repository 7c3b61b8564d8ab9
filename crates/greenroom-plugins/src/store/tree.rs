//! The files of a plugin: listed within limits, digested as a whole, copied.
//!
//! In: a directory. Out: a digest over every file's path, executable bit and content, in the order
//! of paths; or a copy of exactly what was digested. Links that stay inside are kept, others
//! refused, and so is everything that is no file. `.git` and `__pycache__` are not part of a
//! plugin: they are neither digested nor copied, so nothing of them runs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::error::TreeError;

/// Files of one plugin; a dependency tree of that size belongs in a package.
pub(super) const FILES_MAX: usize = 5_000;
/// Bytes of one plugin.
pub(super) const BYTES_MAX: u64 = 256 << 20;
/// Directories within directories.
const DEPTH_MAX: usize = 16;
/// Left out, wherever they are.
const SKIPPED: [&str; 2] = [".git", "__pycache__"];
/// A change within this time of the last may leave the same stamp: clocks of file systems are
/// coarse.
const COARSE: Duration = Duration::from_secs(2);

/// Is given each piece of each file, in order.
type Each<'a> = dyn FnMut(&Path, &[u8]) -> Result<(), TreeError> + 'a;

/// What lies in a directory, without its contents.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    entries: BTreeMap<PathBuf, Entry>,
    /// The same as long as nothing was touched; two different trees may rarely share it.
    pub stamp: u64,
    /// Whether a change from now on would show in the stamp.
    pub settled: bool,
}

#[derive(Debug)]
enum Entry {
    Dir,
    File { executable: bool, len: u64 },
    Link { target: PathBuf },
}

impl Tree {
    /// Lists it. Follows nothing.
    pub(super) fn list(root: &Path) -> Result<Tree, TreeError> {
        let (entries, stamp) = (BTreeMap::new(), DefaultHasher::new());
        let mut listing = Listing { root, entries, bytes: 0, stamp, touched: UNIX_EPOCH };
        let mut ahead = vec![(PathBuf::new(), 0)];
        while let Some((dir, depth)) = ahead.pop() {
            listing.dir(&dir, depth, &mut ahead)?;
        }
        let age = SystemTime::now().duration_since(listing.touched).unwrap_or_default();
        Ok(Tree {
            root: root.to_owned(),
            entries: listing.entries,
            stamp: listing.stamp.finish(),
            settled: age > COARSE,
        })
    }

    /// `sha256:…` of all of it. Reads every file.
    pub(super) fn digest(&self) -> Result<String, TreeError> {
        self.visit(&mut |_, _| Ok(()))
    }

    /// Copies it to `to`, which must not exist, for reading only, and answers the digest of what
    /// was copied.
    pub(super) fn copy(&self, to: &Path) -> Result<String, TreeError> {
        let fault = |path: &Path| {
            let path = path.to_owned();
            move |source| TreeError::Write { path, source }
        };
        let make =
            |path: &Path| fs::DirBuilder::new().mode(0o700).create(path).map_err(fault(path));
        make(to)?;
        for (path, entry) in &self.entries {
            let target = to.join(path);
            match entry {
                Entry::Dir => make(&target)?,
                Entry::Link { target: link } => symlink(link, &target).map_err(fault(&target))?,
                Entry::File { .. } => {}
            }
        }
        let mut open: Option<(PathBuf, File)> = None;
        self.visit(&mut |path, piece| {
            let target = to.join(path);
            if open.as_ref().is_none_or(|(at, _)| *at != target) {
                let executable =
                    matches!(self.entries.get(path), Some(Entry::File { executable: true, .. }));
                let mode = if executable { 0o555 } else { 0o444 };
                let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&target);
                let file = file.map_err(fault(&target))?;
                // The caller's umask may have taken bits away.
                file.set_permissions(fs::Permissions::from_mode(mode)).map_err(fault(&target))?;
                open = Some((target.clone(), file));
            }
            match &mut open {
                Some((_, file)) => file.write_all(piece).map_err(fault(&target)),
                None => Ok(()),
            }
        })
    }

    /// Reads every file once, in order, for whoever wants the pieces.
    fn visit(&self, each: &mut Each<'_>) -> Result<String, TreeError> {
        let mut whole = Sha256::new();
        whole.update(b"greenroom plugin tree 1\n");
        for (path, entry) in &self.entries {
            let (kind, content) = match entry {
                // Empty directories hold nothing that could run.
                Entry::Dir => continue,
                Entry::Link { target } => {
                    (b"l", hex(&Sha256::digest(target.as_os_str().as_bytes())))
                }
                Entry::File { executable, len } => {
                    let kind = if *executable { b"x" } else { b"f" };
                    (kind, self.file(path, *len, each)?)
                }
            };
            whole.update(kind);
            whole.update(content.as_bytes());
            whole.update(path.as_os_str().as_bytes());
            whole.update([0]);
        }
        Ok(format!("sha256:{}", hex(&whole.finalize())))
    }

    fn file(&self, path: &Path, len: u64, each: &mut Each<'_>) -> Result<String, TreeError> {
        let full = self.root.join(path);
        let fault = |source| TreeError::Read { path: full.clone(), source };
        let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits() as i32;
        let mut file =
            OpenOptions::new().read(true).custom_flags(flags).open(&full).map_err(fault)?;
        if !file.metadata().map_err(fault)?.is_file() {
            return Err(TreeError::Changed { path: full });
        }
        let mut content = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        let mut read = 0;
        // An empty file has no pieces and is copied all the same.
        each(path, &[])?;
        loop {
            let count = file.read(&mut buffer).map_err(fault)?;
            if count == 0 {
                break;
            }
            read += count as u64;
            if read > len {
                break;
            }
            content.update(&buffer[..count]);
            each(path, &buffer[..count])?;
        }
        if read != len {
            return Err(TreeError::Changed { path: full });
        }
        Ok(hex(&content.finalize()))
    }

    /// Whether `path` is a file here, and whether it can be run.
    pub(super) fn program(&self, path: &Path) -> Option<bool> {
        let clean: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        match self.entries.get(&clean)? {
            Entry::File { executable, .. } => Some(*executable),
            Entry::Link { .. } => {
                let meta = fs::metadata(self.root.join(&clean)).ok()?;
                meta.is_file().then(|| meta.mode() & 0o111 != 0)
            }
            Entry::Dir => None,
        }
    }
}

struct Listing<'a> {
    root: &'a Path,
    entries: BTreeMap<PathBuf, Entry>,
    bytes: u64,
    stamp: DefaultHasher,
    /// The time of the latest change.
    touched: SystemTime,
}

impl Listing<'_> {
    fn dir(
        &mut self,
        dir: &Path,
        depth: usize,
        ahead: &mut Vec<(PathBuf, usize)>,
    ) -> Result<(), TreeError> {
        let full = self.root.join(dir);
        if depth > DEPTH_MAX {
            return Err(TreeError::Deep { path: full });
        }
        let fault = |source| TreeError::Read { path: full.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&full).map_err(fault)? {
            let name = entry.map_err(fault)?.file_name();
            if !SKIPPED.iter().any(|skipped| name == OsStr::new(skipped)) {
                names.push(name);
            }
            if self.entries.len() + names.len() > FILES_MAX {
                return Err(TreeError::Many { max: FILES_MAX });
            }
        }
        // The stamp must not depend on the order of the directory.
        names.sort();
        for name in names {
            let path = dir.join(name);
            let entry = self.entry(&path)?;
            if matches!(entry, Entry::Dir) {
                ahead.push((path.clone(), depth + 1));
            }
            self.entries.insert(path, entry);
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> Result<Entry, TreeError> {
        let full = self.root.join(path);
        let fault = |source| TreeError::Read { path: full.clone(), source };
        let meta = fs::symlink_metadata(&full).map_err(fault)?;
        let changed = UNIX_EPOCH
            + Duration::new(
                meta.ctime().unsigned_abs(),
                meta.ctime_nsec().unsigned_abs() as u32 % 1_000_000_000,
            );
        self.touched = self.touched.max(changed);
        (path, meta.len(), meta.mode(), meta.ino()).hash(&mut self.stamp);
        (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()).hash(&mut self.stamp);
        if meta.is_dir() {
            return Ok(Entry::Dir);
        }
        if meta.is_symlink() {
            let target = fs::read_link(&full).map_err(fault)?;
            if self.leads_out(path, &target, &full) {
                return Err(TreeError::LeadsOut { path: full });
            }
            return Ok(Entry::Link { target });
        }
        if !meta.is_file() {
            return Err(TreeError::Special { path: full });
        }
        self.bytes += meta.len();
        if self.bytes > BYTES_MAX {
            return Err(TreeError::Large { max: BYTES_MAX });
        }
        Ok(Entry::File { executable: meta.mode() & 0o111 != 0, len: meta.len() })
    }

    /// By its words, which must hold in the copy too, and as the disk has it.
    fn leads_out(&self, path: &Path, target: &Path, full: &Path) -> bool {
        let mut depth = path.parent().map_or(0, |dir| dir.components().count());
        for part in target.components() {
            match part {
                Component::Normal(name)
                    if SKIPPED.iter().any(|skipped| name == OsStr::new(skipped)) =>
                {
                    return true;
                }
                Component::Normal(_) => depth += 1,
                Component::CurDir => {}
                Component::ParentDir if depth > 0 => depth -= 1,
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
            }
        }
        let root = fs::canonicalize(self.root);
        match (fs::canonicalize(full), root) {
            (Ok(real), Ok(root)) => !real.starts_with(root),
            // It leads nowhere; whether it will, nobody knows.
            _ => true,
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `sha256:…` of one file's content, for a program outside its plugin.
pub(super) fn file_digest(path: &Path) -> Result<String, TreeError> {
    let fault = |source| TreeError::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(fault)?;
    let mut content = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).map_err(fault)? {
            0 => return Ok(format!("sha256:{}", hex(&content.finalize()))),
            count => content.update(&buffer[..count]),
        }
    }
}
