//! `plugins.lock`: what was agreed to, bound to digests. Written by machine, 0600, by rename.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use greenroom_engine::keep;
use greenroom_protocol::manifest::{Allowed, Format};
use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// Versions of the file we read.
const VERSION: u32 = 1;
/// A larger lock was not written by us.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lock {
    version: u32,
    #[serde(default)]
    plugin: Vec<Record>,
}

impl Default for Lock {
    fn default() -> Lock {
        Lock { version: VERSION, plugin: Vec::new() }
    }
}

/// How a plugin came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The operator put it into the plugins directory.
    Dropped,
    /// `plugin add` copied it.
    Added,
    /// `plugin link`: it runs where it lies.
    Linked,
}

impl Origin {
    pub fn word(self) -> &'static str {
        match self {
            Origin::Dropped => "dropped",
            Origin::Added => "added",
            Origin::Linked => "linked",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Agreed to.
    Trusted,
    /// Not agreed to, or no longer.
    Untrusted,
    /// Linked for development: whatever lies there.
    Dev,
}

/// What is known of one plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    #[serde(default)]
    pub version: String,
    pub origin: Origin,
    /// Where it came from, for people.
    pub source: String,
    /// Where it lies, unless in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    pub format: Format,
    /// Digest of the whole tree.
    pub tree: String,
    pub trust: Trust,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_by: Option<String>,
    #[serde(default, skip_serializing_if = "Allowed::is_empty")]
    pub grants: Allowed,
}

impl Lock {
    /// Without a file there is nothing agreed to. A file that cannot be read is an error: an empty one would be an answer.
    pub fn read(path: &Path) -> Result<Lock, StoreError> {
        let fault = |why: String| StoreError::Lock { path: path.to_owned(), why };
        // Somebody else's file is nobody's consent.
        let read = keep::read(path, BYTES_MAX).map_err(|error| fault(error.to_string()))?;
        let Some(bytes) = read else { return Ok(Lock::default()) };
        let text = String::from_utf8(bytes).map_err(|_| fault("it is not UTF-8".to_owned()))?;
        let lock: Lock = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            fault(format!("line {line}: {}", error.message()))
        })?;
        match lock.version {
            VERSION => Ok(lock),
            other => Err(fault(format!("it has version {other}, this host reads {VERSION}"))),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), StoreError> {
        let fault = |step, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Disk { step, path, source }
        };
        let text = toml::to_string(self)
            .map_err(|error| StoreError::Lock { path: path.to_owned(), why: error.to_string() })?;
        let beside = path.with_extension("lock.new");
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .map_err(fault("write", &beside))?;
        file.write_all(
            b"# Written by greenroom. What may run, bound to the bytes that were agreed to.\n",
        )
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(fault("write", &beside))?;
        fs::rename(&beside, path).map_err(fault("replace", path))
    }

    pub fn get(&self, name: &str) -> Option<&Record> {
        self.plugin.iter().find(|record| record.name == name)
    }

    pub fn all(&self) -> &[Record] {
        &self.plugin
    }

    /// In the place of the one of that name.
    pub fn put(&mut self, record: Record) {
        self.plugin.retain(|other| other.name != record.name);
        self.plugin.push(record);
        self.plugin.sort_by(|a, b| a.name.cmp(&b.name));
    }

    pub fn remove(&mut self, name: &str) -> Option<Record> {
        let at = self.plugin.iter().position(|record| record.name == name)?;
        Some(self.plugin.remove(at))
    }
}
