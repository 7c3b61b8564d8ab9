//! What a session is to be: program, place, environment, size.
//!
//! Comes from a caller, is turned into a [`crate::process::Launch`] for the
//! keeper. Environment values never show in `Debug`: they may be secrets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use greenroom_term::Size;

#[derive(Clone)]
pub struct SessionSpec {
    /// Unique among live sessions; an ended one that has it gives it up.
    pub name: Option<String>,
    /// What to name it after if nobody chose a name, such as its program; without it its id is its
    /// name.
    pub named_after: Option<String>,
    /// Program and arguments; the first is looked up in the session's PATH.
    pub argv: Vec<OsString>,
    pub cwd: PathBuf,
    /// The complete environment of the child; nothing is inherited besides.
    pub env: BTreeMap<OsString, OsString>,
    pub size: Size,
    /// What is said of it, as [`crate::store::SessionRecord::about`] has it.
    pub about: String,
    /// Values that nothing which leaves the session may show: those of its secret variables. Kept
    /// sealed.
    pub hidden: Vec<OsString>,
    /// What holds the program in; `None` lets it do whatever its user may.
    pub confinement: Option<Arc<dyn Confinement>>,
}

impl SessionSpec {
    /// With nothing but what every session has.
    pub fn new(argv: Vec<OsString>, cwd: PathBuf, size: Size) -> SessionSpec {
        SessionSpec {
            name: None,
            named_after: None,
            argv,
            cwd,
            env: BTreeMap::new(),
            size,
            about: String::new(),
            hidden: Vec::new(),
            confinement: None,
        }
    }
}

/// A fence around a session's processes. The one who starts them asks it for the plan and hands
/// that on; the engine only carries it.
pub trait Confinement: Send + Sync {
    /// One word: how strong it is.
    fn level(&self) -> &str;

    /// In a few words, for people.
    fn summary(&self) -> String;

    /// The sealed plan by which `spec` is to be started: a file in memory, read by the stage that
    /// builds the fence.
    fn plan(&self, spec: &SessionSpec) -> io::Result<OwnedFd>;
}

impl fmt::Debug for SessionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSpec")
            .field("name", &self.name)
            .field("program", &self.argv.first())
            .field("cwd", &self.cwd)
            .field("env", &format_args!("{} hidden", self.env.len()))
            .field("size", &self.size)
            .field("confinement", &self.confinement.as_ref().map(|fence| fence.summary()))
            .finish_non_exhaustive()
    }
}
