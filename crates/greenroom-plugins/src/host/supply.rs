//! Where plugins come from: the role the store plays for the host.
//!
//! In: nothing but files. Out: what was found, and whether it may run. Running anything is not this role's business.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_protocol::manifest::{Allowed, Manifest};

/// Finds plugins.
pub trait Supply: Send + Sync {
    /// Reads what there is, broken ones too. Runs nothing, and may block on the disk.
    fn survey(&self) -> Result<Vec<Found>, SupplyError>;

    /// Called before each start of a program: whether the bytes at [`Found::root`] are still those that were agreed to.
    /// May block on the disk.
    fn unchanged(&self, found: &Found) -> Result<(), String>;

    /// The value of a `${secret:NAME}` that this plugin was granted.
    fn secret(&self, found: &Found, name: &str) -> Option<crate::spec::Secret>;
}

#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    #[error("cannot look for plugins in {}: {source}", dir.display())]
    Read { dir: PathBuf, source: std::io::Error },
    #[error("cannot read {}: {why}", path.display())]
    Lock { path: PathBuf, why: String },
}

/// One plugin, whether it may run or not.
#[derive(Clone, Debug)]
pub struct Found {
    /// Of the manifest; of its directory, if that cannot be read.
    pub name: String,
    /// Where the operator put it.
    pub dir: PathBuf,
    /// Where it runs from: the store's copy, or `dir` for one that is linked.
    pub root: PathBuf,
    /// Of the whole tree at `root`.
    pub digest: String,
    pub standing: Standing,
    /// `None` only where it is [`Standing::Invalid`].
    pub manifest: Option<Arc<Manifest>>,
    /// What it may do.
    pub grants: Allowed,
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
