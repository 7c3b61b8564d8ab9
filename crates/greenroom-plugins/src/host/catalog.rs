//! Where plugins come from: the role the store plays for the host.
//!
//! In: nothing but files. Out: what was found, and whether it may run. Running anything is not this
//! role's business.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use greenroom_formats::manifest::{Allowed, HookEntry, Manifest};

/// Finds plugins.
pub trait Catalog: Send + Sync {
    /// Reads what there is, broken ones too. Runs nothing, and may block on the disk.
    fn survey(&self) -> Survey;

    /// Called before each start of a program: whether the bytes at [`Found::root`] are still those
    /// that were agreed to. May block on the disk.
    fn unchanged(&self, found: &Found) -> Result<(), String>;

    /// The value of a `${secret:NAME}` that this plugin was granted. For its environment and
    /// nothing else.
    fn secret(&self, found: &Found, name: &str) -> Option<OsString>;
}

/// What a look found.
#[derive(Debug, Default)]
pub struct Survey {
    pub found: Vec<Found>,
    /// What is wrong with the files that say what there is.
    pub faults: Vec<CatalogError>,
    /// It is not known whose absence counts as failure: no session may start.
    pub unguarded: Option<Unguarded>,
}

/// Why no session may start, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unguarded {
    /// The one plugin of which it is not known, if it is one.
    pub plugin: Option<String>,
    pub why: String,
    pub hint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("cannot look for plugins in {}: {source}", dir.display())]
    Read { dir: PathBuf, source: std::io::Error },
    #[error("cannot read {}: {why}", path.display())]
    Lock { path: PathBuf, why: String },
    #[error("{} is gone, and plugins were agreed to", path.display())]
    Gone { path: PathBuf },
    #[error("cannot note which plugins are required: {why}")]
    Note { why: String },
}

impl CatalogError {
    /// Whether plugins may be missing because of it.
    pub fn hides_plugins(&self) -> bool {
        !matches!(self, CatalogError::Note { .. })
    }
}

/// One plugin, whether it may run or not.
#[derive(Clone, Debug)]
pub struct Found {
    /// The manifest's name; its directory's, if that cannot be read.
    pub name: String,
    /// Where the operator put it.
    pub dir: PathBuf,
    /// Where it runs from: the store's copy, or `dir` for one that is linked.
    pub root: PathBuf,
    /// The digest of the whole tree at `root`.
    pub digest: String,
    pub standing: Standing,
    /// `None` only where it is [`Standing::Invalid`].
    pub manifest: Option<Arc<Manifest>>,
    /// What it may do.
    pub grants: Allowed,
    /// Its required hooks as they were when it last could run, if it was agreed to and cannot run
    /// now.
    pub claims: Vec<HookEntry>,
    pub warnings: Vec<String>,
}

/// Whether a plugin may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Agreed to.
    Granted,
    /// Linked for development: runs whatever lies there.
    Linked,
    /// Nobody has agreed yet.
    NeedsConsent,
    /// Its bytes are not those that were agreed to.
    Modified,
    /// Its manifest has mistakes, each with file and line.
    Invalid(Vec<String>),
}

impl Standing {
    pub fn may_run(&self) -> bool {
        matches!(self, Standing::Granted | Standing::Linked)
    }
}
