//! `plugins.lock`: what was agreed to, bound to digests. Written by machine, 0600, by rename.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use greenroom_engine::keep::{self, Lasting};
use greenroom_formats::manifest::{Allowed, Format, Manifest};
use greenroom_protocol::Timestamp;
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

impl Record {
    /// The record of a plugin that nobody has agreed to.
    pub fn new(manifest: &Manifest, tree: &str, origin: Origin, source: String) -> Record {
        Record {
            name: manifest.plugin.name.clone(),
            version: manifest.plugin.version.clone(),
            origin,
            source,
            path: None,
            format: manifest.format,
            tree: tree.to_owned(),
            trust: Trust::Untrusted,
            granted_at: None,
            granted_by: None,
            grants: Allowed::new(),
        }
    }

    /// The same one, agreed to now.
    pub fn granted(self, trust: Trust, by: &str, grants: Allowed) -> Record {
        let granted_at = Some(Timestamp::from_system(SystemTime::now()).to_string());
        Record { trust, granted_at, granted_by: Some(by.to_owned()), grants, ..self }
    }

    /// The same one, no longer agreed to.
    pub fn revoked(self) -> Record {
        let grants = Allowed::new();
        Record { trust: Trust::Untrusted, granted_at: None, granted_by: None, grants, ..self }
    }
}

impl Lock {
    /// Without a file there is nothing agreed to. A file that cannot be read is an error: an empty
    /// one would be an answer.
    pub fn read(path: &Path) -> Result<Lock, StoreError> {
        Ok(Lock::find(path)?.unwrap_or_default())
    }

    /// The same; `None` without a file.
    pub fn find(path: &Path) -> Result<Option<Lock>, StoreError> {
        let fault = |why: String| StoreError::Lock { path: path.to_owned(), why };
        // A file of another user would be another user's consent: `keep` refuses to read it.
        let read = keep::read(path, BYTES_MAX).map_err(|error| fault(error.to_string()))?;
        let Some(bytes) = read else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| fault("it is not UTF-8".to_owned()))?;
        let lock: Lock = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            fault(format!("line {line}: {}", error.message()))
        })?;
        match lock.version {
            VERSION => Ok(Some(lock)),
            other => Err(fault(format!("it has version {other}, this host reads {VERSION}"))),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), StoreError> {
        let text = toml::to_string(self)
            .map_err(|error| StoreError::Lock { path: path.to_owned(), why: error.to_string() })?;
        let head =
            "# Written by greenroom. What may run, bound to the bytes that were agreed to.\n";
        keep::write(path, format!("{head}{text}").as_bytes(), Lasting::Machine)
            .map_err(|source| StoreError::disk("write", path, source))
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
