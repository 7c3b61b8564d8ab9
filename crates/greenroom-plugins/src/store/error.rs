//! What can go wrong with a plugin's files.

use std::io;
use std::path::{Path, PathBuf};

use greenroom_formats::tree::FileError;

use super::add::CloneError;
use crate::host::Unguarded;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {step} {}: {source}", path.display())]
    Disk { step: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot take the plugin in {}: {source}", dir.display())]
    Tree { dir: PathBuf, source: TreeError },
    #[error("{0}")]
    Manifest(FileError),
    #[error("there is no manifest in {}: plugin.toml or manifest.yaml is expected", dir.display())]
    NoManifest { dir: PathBuf },
    #[error("{} has two manifests, {first} and {second}: one must go", dir.display())]
    TwoManifests { dir: PathBuf, first: String, second: String },
    #[error("{}: {why}", path.display())]
    Program { path: PathBuf, why: String },
    #[error("there is no plugin `{name}`")]
    Unknown { name: String, nearest: Option<String> },
    #[error("cannot add {name}: that name is taken by {}", by.display())]
    Taken { name: String, by: PathBuf },
    #[error("cannot grant {name}: its files are {found}, not {expected}")]
    Digest { name: String, expected: String, found: String },
    #[error("cannot grant {capability} to {name}: its manifest does not ask for it")]
    NotAsked { name: String, capability: String },
    #[error("cannot remove {name}: it lies in the plugins directory")]
    Dropped { name: String, dir: PathBuf },
    #[error("cannot add {from}: {why}")]
    Source { from: String, why: String },
    #[error("cannot clone {url}: {source}")]
    Git { url: String, source: CloneError },
    #[error("cannot read {}: {why}", path.display())]
    Lock { path: PathBuf, why: String },
    #[error("cannot agree to plugins: {}", .0.why)]
    Unguarded(Unguarded),
}

/// Why a directory cannot be taken as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("it has more than {max} files")]
    Many { max: usize },
    #[error("it has more than {} MiB", max >> 20)]
    Large { max: u64 },
    #[error("{} is nested too deep", path.display())]
    Deep { path: PathBuf },
    #[error("{} is a link that leads out of the plugin", path.display())]
    LeadsOut { path: PathBuf },
    #[error("{} is neither a file nor a directory", path.display())]
    Special { path: PathBuf },
    #[error("{} changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("{} lies outside the plugin", path.display())]
    Outside { path: PathBuf },
}

impl StoreError {
    pub(super) fn disk(step: &'static str, path: &Path, source: io::Error) -> StoreError {
        StoreError::Disk { step, path: path.to_owned(), source }
    }

    pub(super) fn tree(dir: &Path, source: TreeError) -> StoreError {
        StoreError::Tree { dir: dir.to_owned(), source }
    }

    /// A command or a file that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            StoreError::Unknown { nearest: Some(nearest), .. } => {
                Some(format!("did you mean {nearest}?"))
            }
            StoreError::Unknown { .. } => Some("list plugins with greenroom plugin list".into()),
            StoreError::Dropped { name, dir } => {
                let dir = dir.display();
                Some(format!(
                    "greenroom plugin revoke {name}; rm -r {dir} && greenroom plugin reload"
                ))
            }
            StoreError::Unguarded(unguarded) => Some(unguarded.hint.clone()),
            StoreError::Lock { path, .. } => {
                let path = path.display();
                Some(format!(
                    "put it back, or mv {path} {path}.damaged and agree to the plugins anew"
                ))
            }
            StoreError::Taken { name, .. } => Some(format!("greenroom plugin remove {name}")),
            StoreError::Digest { name, .. } => Some(format!("greenroom plugin info {name}")),
            StoreError::NoManifest { .. } => Some("greenroom plugin new NAME writes one".into()),
            StoreError::Program { path, why } if why.contains("executable") => {
                Some(format!("chmod +x {}", path.display()))
            }
            _ => None,
        }
    }
}
