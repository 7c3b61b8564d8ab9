//! Where a plugin can be taken from: a directory, an archive, a repository. Out: a directory of
//! ours with its files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use super::error::StoreError;
use super::survey::manifest_file;
use super::tree::{BYTES_MAX, FILES_MAX};

/// Clones a repository at a branch or tag, or at its default, into a directory that must not exist,
/// and answers the commit. Only `https://` and `file://` addresses are asked for. The daemon hands
/// in the git that trusts no repository.
pub type CloneRepository = fn(&str, Option<&str>, &Path) -> Result<String, CloneError>;

pub type CloneError = Box<dyn std::error::Error + Send + Sync>;

/// What `plugin add` was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Directory(PathBuf),
    Archive(PathBuf),
    Git { url: String, revision: Option<String> },
}

impl Source {
    /// By its form. Paths must be absolute: whoever asks is not where we are.
    pub fn parse(text: &str) -> Result<Source, StoreError> {
        let fault = |why: &str| StoreError::Source { from: text.to_owned(), why: why.to_owned() };
        let (git, rest) = match text.strip_prefix("git+") {
            Some(rest) => (true, rest),
            None => (text.contains("://"), text),
        };
        if rest.starts_with("ssh://") || rest.starts_with("git@") {
            return Err(fault("only https is cloned: clone it yourself and add the directory"));
        }
        if git {
            let (url, revision) = match rest.split_once('#') {
                Some((url, revision)) => (url, Some(revision.to_owned())),
                None => (rest, None),
            };
            let plain = |text: &str| !text.starts_with('-') && !text.contains(char::is_control);
            if !(url.starts_with("https://") || url.starts_with("file://")) {
                return Err(fault("only https:// and file:// are cloned"));
            }
            if !plain(url) || revision.as_deref().is_some_and(|revision| !plain(revision)) {
                return Err(fault("that is no address"));
            }
            return Ok(Source::Git { url: url.to_owned(), revision });
        }
        let path = PathBuf::from(text);
        if !path.is_absolute() {
            return Err(fault("an absolute path is needed"));
        }
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => Ok(Source::Directory(path)),
            Ok(meta) if meta.is_file() && is_archive(text) => Ok(Source::Archive(path)),
            Ok(_) => Err(fault(
                "a directory, a .tar, .tar.gz or .tgz file or an https:// repository is expected",
            )),
            Err(error) => Err(fault(&error.to_string())),
        }
    }

    /// For people, and for the lock. Never with a password in it.
    pub fn describe(&self, commit: Option<&str>) -> String {
        match self {
            Source::Directory(path) => format!("dir+{}", path.display()),
            Source::Archive(path) => format!("archive+{}", path.display()),
            Source::Git { url, .. } => {
                let shown = match url.split_once("://") {
                    Some((scheme, rest)) => {
                        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                        let host = host.rsplit('@').next().unwrap_or(host);
                        format!("{scheme}://{host}/{path}")
                    }
                    None => url.clone(),
                };
                format!("git+{shown}#{}", commit.unwrap_or("HEAD"))
            }
        }
    }
}

fn is_archive(name: &str) -> bool {
    [".tar", ".tar.gz", ".tgz"].iter().any(|end| name.ends_with(end))
}

/// Brings the files into `staging`, or says where they are already. Answers that directory and the
/// lock's description.
pub(super) fn fetch(
    source: &Source,
    clone: CloneRepository,
    staging: &Path,
) -> Result<(PathBuf, String), StoreError> {
    match source {
        Source::Directory(path) => Ok((path.clone(), source.describe(None))),
        Source::Archive(path) => {
            unpack(path, staging)?;
            Ok((within(staging), source.describe(None)))
        }
        Source::Git { url, revision } => {
            let commit = clone(url, revision.as_deref(), staging)
                .map_err(|error| StoreError::Git { url: source.describe(None), source: error })?;
            Ok((within(staging), source.describe(Some(&commit))))
        }
    }
}

/// Archives often hold one directory that holds all.
fn within(dir: &Path) -> PathBuf {
    if manifest_file(dir).is_ok() {
        return dir.to_owned();
    }
    let entries: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => {
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).take(8).collect()
        }
        Err(_) => return dir.to_owned(),
    };
    let mut dirs = entries.into_iter().filter(|path| {
        path.is_dir() && !path.is_symlink() && path.file_name().is_none_or(|name| name != ".git")
    });
    match (dirs.next(), dirs.next()) {
        (Some(only), None) if manifest_file(&only).is_ok() => only,
        _ => dir.to_owned(),
    }
}

fn unpack(archive: &Path, into: &Path) -> Result<(), StoreError> {
    let fault = |why: String| StoreError::Source { from: archive.display().to_string(), why };
    let file = File::open(archive).map_err(|error| fault(error.to_string()))?;
    let packed = archive.extension().is_some_and(|end| end == "gz" || end == "tgz");
    let reader: Box<dyn Read> =
        if packed { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
    make_dir(into).map_err(|error| fault(error.to_string()))?;
    // Padding and headers are part of what is read, so a little more than the files themselves.
    let mut tar = tar::Archive::new(reader.take(BYTES_MAX + (FILES_MAX as u64) * 2048));
    let entries = tar.entries().map_err(|error| fault(error.to_string()))?;
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let mut entry = entry.map_err(|error| fault(error.to_string()))?;
        count += 1;
        bytes += entry.size();
        if count > FILES_MAX || bytes > BYTES_MAX {
            return Err(fault(format!(
                "it has more than {FILES_MAX} files or {} MiB",
                BYTES_MAX >> 20
            )));
        }
        unpack_one(&mut entry, into).map_err(fault)?;
    }
    Ok(())
}

fn unpack_one(entry: &mut tar::Entry<'_, impl Read>, into: &Path) -> Result<(), String> {
    let path = entry.path().map_err(|error| error.to_string())?.into_owned();
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(inside) {
        return Err(format!("{} leads out of it", path.display()));
    }
    let to = into.join(&path);
    let said = |error: io::Error| format!("cannot unpack {}: {error}", path.display());
    match entry.header().entry_type() {
        tar::EntryType::Directory => make_dirs(into, &to).map_err(said),
        tar::EntryType::Regular | tar::EntryType::Continuous => {
            if let Some(parent) = to.parent() {
                make_dirs(into, parent).map_err(said)?;
            }
            let executable = entry.header().mode().map_err(said)? & 0o111 != 0;
            let mode = if executable { 0o700 } else { 0o600 };
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&to)
                .map_err(said)?;
            io::copy(entry, &mut file).map(drop).map_err(said)
        }
        tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => Ok(()),
        _ => Err(format!("{} is neither a file nor a directory", path.display())),
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Nothing below `root` is a link: only directories and files are unpacked there.
fn make_dirs(root: &Path, path: &Path) -> io::Result<()> {
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    let mut at = root.to_owned();
    for part in below.components() {
        at.push(part);
        make_dir(&at)?;
    }
    Ok(())
}
