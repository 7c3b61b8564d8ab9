//! What a session may do, in the user's terms.
//!
//! In: paths the caller has recorded or canonicalised, hosts, a level. Out: a [`Policy`] for
//! `plan::compile`. Nothing here touches the file system. Paths must be absolute and free of
//! symlinks; the stage opens them without following any and refuses what has become one. Absent on
//! purpose: defaults that depend on the machine (which credentials to hide is the caller's list),
//! and how any of it is enforced.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// How strong the fence must be. There is no "as strong as possible": a level is enforced or the
/// session does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Level {
    /// Namespaces, mounts, Landlock and seccomp.
    Full,
    /// Landlock and seccomp only, for machines without user namespaces. Never as root.
    Reduced,
    /// No fence: limits, no new privileges, and everything ends with the program. For programs on
    /// pipes only, where whoever starts them has been told that nothing else can be had.
    Bare,
}

impl Level {
    /// Also the value of `GREENROOM_SANDBOX` inside.
    pub fn name(self) -> &'static str {
        match self {
            Level::Full => "full",
            Level::Reduced => "reduced",
            Level::Bare => "bare",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Everything a session may do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Policy {
    pub level: Level,
    /// Where the program starts. Visible even below a directory that is replaced; writable only if
    /// listed.
    pub cwd: PathBuf,
    /// Directories (or files) the session may change.
    pub writable: Vec<PathBuf>,
    /// Read-only inside of what is writable, pinned so that no parent can be moved away. Level full
    /// only.
    pub protected: Vec<Protected>,
    /// Neither names nor contents are seen; below `home`, also of what is made or replaced later.
    /// What does not exist elsewhere is passed over.
    pub hidden: Vec<PathBuf>,
    /// Must stay visible, read-only, although `/tmp`, `/run` or something hidden above it is
    /// replaced. What does not exist is passed over.
    pub visible: Vec<PathBuf>,
    /// Something of the session's own at a place where it would find the user's. At level reduced
    /// nothing can be put there: it is writable where it lies, and whoever made the policy tells
    /// the program.
    #[cfg_attr(feature = "serde", serde(default))]
    pub private: Vec<Private>,
    pub git: Option<GitRules>,
    pub network: Network,
    pub allow: Allow,
    pub limits: Limits,
    /// Host directory, the session's own, that becomes `/tmp` inside (at level full) or `TMPDIR`
    /// (at level reduced).
    pub tmp_dir: PathBuf,
    /// Never writable as a whole, and neither is anything above it.
    pub home: Option<PathBuf>,
    pub reads: Reads,
    /// `false`: no new processes, only threads. For plugins.
    pub spawn: bool,
    /// stdin, stdout and stderr are what the stage was started with, and there is no terminal. For
    /// plugins.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pipes: bool,
    /// Level full also where Landlock is missing or too old (before Linux 6.2): mounts, namespaces
    /// and seccomp carry it.
    pub without_landlock: bool,
}

impl Policy {
    /// A session in `cwd` that may write there and in its own `/tmp`, and has no network.
    pub fn new(level: Level, cwd: impl Into<PathBuf>, tmp_dir: impl Into<PathBuf>) -> Policy {
        let cwd = cwd.into();
        Policy {
            level,
            writable: vec![cwd.clone()],
            cwd,
            protected: Vec::new(),
            hidden: Vec::new(),
            visible: Vec::new(),
            private: Vec::new(),
            git: None,
            network: Network::None,
            allow: Allow::default(),
            limits: Limits::default(),
            tmp_dir: tmp_dir.into(),
            home: None,
            reads: Reads::All,
            spawn: true,
            pipes: false,
            without_landlock: false,
        }
    }
}

/// A path that stays as it is although what is around it may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Protected {
    pub path: PathBuf,
    pub if_missing: IfMissing,
}

/// A name that does not exist cannot be pinned, and could be made inside. So it is made first,
/// empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum IfMissing {
    /// Leave it: the session may make it.
    Skip,
    MakeFile,
    MakeDir,
    /// The session does not start.
    Refuse,
}

impl Protected {
    pub fn existing(path: impl Into<PathBuf>) -> Protected {
        Protected { path: path.into(), if_missing: IfMissing::Skip }
    }

    pub fn file(path: impl Into<PathBuf>) -> Protected {
        Protected { path: path.into(), if_missing: IfMissing::MakeFile }
    }

    pub fn dir(path: impl Into<PathBuf>) -> Protected {
        Protected { path: path.into(), if_missing: IfMissing::MakeDir }
    }

    pub fn required(path: impl Into<PathBuf>) -> Protected {
        Protected { path: path.into(), if_missing: IfMissing::Refuse }
    }
}

/// What a session finds at a place instead of what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Private {
    pub at: PathBuf,
    /// A directory or a file of the host. It must be there.
    pub from: PathBuf,
    /// Entries of `at` that are something else of the host, read-only: their name, and what is
    /// seen.
    pub views: Vec<(OsString, PathBuf)>,
}

/// What git needs to work in the session's directory, and must not be able to do. From recorded
/// knowledge: never re-read from files the session could have written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum GitRules {
    /// A linked worktree: its own index and HEAD, loose objects, and its own refs; neither hooks
    /// nor configuration nor the pointer files through which git outside could be led astray.
    Worktree {
        worktree: PathBuf,
        /// The repository's `.git`.
        common_dir: PathBuf,
        /// `<common_dir>/worktrees/<name>`.
        admin_dir: PathBuf,
        refs: Refs,
    },
    /// The main checkout: `.git` is writable except hooks, configuration and attributes.
    Checkout {
        /// `<cwd>/.git`.
        git_dir: PathBuf,
        /// The git directory of each submodule: see `modules::of`. A directory that is none is
        /// refused at the start.
        modules: Vec<PathBuf>,
    },
}

/// Which branches a worktree's session may move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Refs {
    /// Everything below `refs/heads/<dir>/`, which is this session's alone.
    Own { dir: String },
    /// `refs/heads/<branch>`, in a directory that other branches share: those that exist at the
    /// start are pinned (level full); branches made there later are not protected from this
    /// session.
    Shared { branch: String },
}

/// Where connections may go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Network {
    /// Only the loopback of its own (none at all at level reduced).
    None,
    /// As `None`, and through the daemon's proxy to these hosts. Level full only.
    Hosts(Vec<HostPattern>),
    /// The machine's network, TCP and UDP.
    Open,
}

/// What may be reached through a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reach {
    pub hosts: Vec<HostPattern>,
    /// Plain HTTP too.
    pub http: bool,
}

/// Exceptions the user may grant. Each voids a sentence of the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Allow {
    /// Unix sockets: sockets of other programs at visible paths can then be reached.
    pub unix: bool,
    /// ptrace and reading other processes' memory, among the session's own processes.
    pub debug: bool,
}

/// Limits by rlimit; `None` leaves what the session would have anyway. Core dumps are always off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Limits {
    pub open_files: Option<u64>,
    /// Largest file.
    pub file_bytes: Option<u64>,
    /// Address space; breaks runtimes that reserve much (V8, Go, JVM).
    pub address_bytes: Option<u64>,
    /// Memory of its own that a process may write to. Reserved address space does not count.
    pub data_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    /// Processes and threads. Counted by the kernel at level full, unless for root; otherwise it
    /// could count the user's only, and whoever watches over a program on pipes counts its
    /// processes instead, now and then. Not counted for such sessions.
    pub processes: Option<u64>,
}

/// What may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Reads {
    /// Everything the user may read, except what is hidden.
    All,
    /// The system's programs and libraries, what is writable, and these.
    Only(Vec<PathBuf>),
}

/// A host name the session may reach: exact, or `*.` and a domain (which is not the domain itself).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct HostPattern {
    /// Lower case, no trailing dot, without the `*.`.
    name: String,
    wildcard: bool,
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("a host pattern is empty")]
    Empty,
    #[error("`*` allows every host: use an open network instead, or name a domain: *.example.com")]
    Everything,
    #[error("`{0}` has a star elsewhere than in front: write *.example.com")]
    StarInside(String),
    #[error("`*.{0}` would allow a whole top-level domain: name at least *.example.{0}")]
    TopLevel(String),
    #[error("`{0}` is an address: allow a host by its name")]
    Address(String),
    #[error(
        "`{0}` is no host name: letters, digits, hyphens and dots only, without port or scheme"
    )]
    NotAName(String),
    #[error("a host name of {0} characters is too long: the limit is {MAX_HOST_CHARS}")]
    TooLong(usize),
}

/// The longest name DNS can carry.
const MAX_HOST_CHARS: usize = 253;
/// The longest part between dots.
const MAX_LABEL_CHARS: usize = 63;

impl HostPattern {
    pub fn parse(text: &str) -> Result<HostPattern, HostError> {
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if text == "*" || name == "*" {
            return Err(HostError::Everything);
        }
        if name.contains('*') {
            return Err(HostError::StarInside(shown(text)));
        }
        let name = normalise(name)?;
        if wildcard && !name.contains('.') {
            return Err(HostError::TopLevel(name));
        }
        Ok(HostPattern { name, wildcard })
    }

    /// Whether a host, as a program asked for it, is meant. What is no host name is never meant.
    pub fn matches(&self, host: &str) -> bool {
        let Ok(host) = normalise(host) else {
            return false;
        };
        match host.strip_suffix(&self.name) {
            Some("") => !self.wildcard,
            Some(before) => self.wildcard && before.ends_with('.'),
            None => false,
        }
    }
}

/// A host name as it is compared: ASCII letters, digits, hyphens and dots, lower case, one trailing
/// dot off, no address in any spelling. Everything else is refused, so that nothing is compared in
/// one form and dialled in another.
pub fn normalise(host: &str) -> Result<String, HostError> {
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.is_empty() {
        return Err(HostError::Empty);
    }
    if name.len() > MAX_HOST_CHARS {
        return Err(HostError::TooLong(name.len()));
    }
    if name.contains(':') || name.starts_with('[') {
        let address = name.trim_start_matches('[').trim_end_matches(']');
        return Err(match address.parse::<std::net::Ipv6Addr>() {
            Ok(_) => HostError::Address(shown(host)),
            Err(_) => HostError::NotAName(shown(host)),
        });
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let label = |label: &str| {
        (1..=MAX_LABEL_CHARS).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !name.split('.').all(label) {
        return Err(HostError::NotAName(shown(host)));
    }
    // `127.1`, `2130706433`, `0x7f.1`: resolvers read a last part like these as an address.
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.len() > 1 && last.as_bytes()[1].eq_ignore_ascii_case(&b'x');
    if last.bytes().all(|byte| byte.is_ascii_digit()) || (last.starts_with('0') && hex) {
        return Err(HostError::Address(shown(host)));
    }
    Ok(name.to_ascii_lowercase())
}

/// For an error text: short, and without what could disturb a terminal.
fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.name)
    }
}

impl std::str::FromStr for HostPattern {
    type Err = HostError;
    fn from_str(text: &str) -> Result<HostPattern, HostError> {
        HostPattern::parse(text)
    }
}

impl TryFrom<String> for HostPattern {
    type Error = HostError;
    fn try_from(text: String) -> Result<HostPattern, HostError> {
        HostPattern::parse(&text)
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> String {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests;
