//! With which environment and settings git runs on a tree that somebody else could write.
//!
//! Three things could make git run a program of theirs: a pointer (`.git`, `commondir`) that leads
//! to a configuration of theirs, a setting in the repository's own configuration, and a hook. So
//! git gets explicit paths and never discovers any; every setting that names a program is
//! overridden; the drivers whose names only the configuration knows (filters, hooks) are listed
//! first and switched off one by one. Nothing is inherited from our environment but PATH.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::command::{Input, Limits, Said, run};
use super::error::{GitError, text_of};

/// One question. A stuck one must not hold a session's end.
const DEADLINE: Duration = Duration::from_secs(120);

/// A checkout: tens of gigabytes onto a slow disk.
pub(super) const CHECKOUT_DEADLINE: Duration = Duration::from_secs(1800);

/// Half a million paths of a hundred bytes, and some.
const MAX_OUTPUT: usize = 64 << 20;

/// Settings that name a program, or that would let a tree hide a change from us.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.ignoreStat", "false"),
    // A forged graph could hide a commit; the walks we ask for are short.
    ("core.commitGraph", "false"),
    ("core.quotePath", "true"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.ignoreSubmodules", "none"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("status.showStash", "false"),
    ("status.branch", "false"),
    ("status.submoduleSummary", "false"),
    ("gpg.program", "false"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("advice.statusHints", "false"),
    // Git before 2.45 knows no GIT_ADVICE, and its advice about our empty graft file would be taken
    // for a warning.
    ("advice.graftFileDeprecated", "false"),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_ADVICE", "0"),
    ("GIT_AUTHOR_NAME", "greenroom"),
    ("GIT_AUTHOR_EMAIL", "greenroom@localhost"),
    ("GIT_COMMITTER_NAME", "greenroom"),
    ("GIT_COMMITTER_EMAIL", "greenroom@localhost"),
];

/// The absolute path of git, looked up in the absolute entries of PATH only.
pub fn find_git() -> Result<PathBuf, GitError> {
    let path =
        env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("git"))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .ok_or(GitError::Missing)
}

/// The user's own file of patterns to ignore, which applies to every repository of theirs. Patterns
/// run nothing.
pub fn user_excludes() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from)?;
    let mut command = Command::new(find_git().ok()?);
    command.env_clear().env("HOME", &home).env("GIT_CONFIG_NOSYSTEM", "1").current_dir("/");
    if let Some(xdg) = env::var_os("XDG_CONFIG_HOME") {
        command.env("XDG_CONFIG_HOME", xdg);
    }
    command.args(["config", "--global", "--type=path", "--get", "core.excludesFile"]);
    let limits =
        Limits { deadline: Duration::from_secs(10), max_output: 1 << 16, keep_tail: false };
    let said = run(&mut command, Input::Nothing, limits).ok()?;
    let named = String::from_utf8(said.out).ok()?;
    let named = named.trim_end_matches('\n');
    let file = if said.status.success() && !named.is_empty() {
        PathBuf::from(named)
    } else {
        let config = env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty());
        config.map_or_else(|| home.join(".config"), PathBuf::from).join("git/ignore")
    };
    file.is_file().then_some(file)
}

/// Git with nothing of ours in its environment and every program setting switched off.
#[derive(Clone, Debug)]
pub(super) struct Hardened {
    git: PathBuf,
    environment: Vec<(OsString, OsString)>,
    settings: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    /// What errors speak of.
    place: PathBuf,
    lock: Option<Arc<File>>,
    deadline: Duration,
}

/// Arguments that are not always the same: names, revisions, paths.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { [$(AsRef::<std::ffi::OsStr>::as_ref($arg)),*] };
}
pub(super) use args;

impl Hardened {
    pub fn new(git: PathBuf, cwd: &Path) -> Hardened {
        let path = git.parent().unwrap_or(Path::new("/usr/bin")).as_os_str().to_owned();
        let mut search = path;
        search.push(":/usr/local/bin:/usr/bin:/bin");
        let mut environment: Vec<(OsString, OsString)> =
            ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect();
        environment.push(("PATH".into(), search));
        let settings = SETTINGS.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let (cwd, place) = (cwd.to_owned(), cwd.to_owned());
        Hardened { git, environment, settings, cwd, place, lock: None, deadline: DEADLINE }
    }

    pub fn of(self, place: &Path) -> Hardened {
        Hardened { place: place.to_owned(), ..self }
    }

    /// With the user's own configuration, of which the commands we ask it with run nothing.
    pub fn with_users_configuration(self) -> Hardened {
        let git = self.without_env("GIT_CONFIG_GLOBAL").without_env("GIT_CONFIG_NOSYSTEM");
        ["HOME", "XDG_CONFIG_HOME"].into_iter().fold(git, |git, name| match env::var_os(name) {
            Some(value) => git.env(name, value),
            None => git,
        })
    }

    pub fn env(self, name: &str, value: impl Into<OsString>) -> Hardened {
        let mut this = self.without_env(name);
        this.environment.push((name.into(), value.into()));
        this
    }

    /// Commands without input hold `lock` while they run.
    pub fn holding(mut self, lock: Arc<File>) -> Hardened {
        self.lock = Some(lock);
        self
    }

    pub fn within(mut self, deadline: Duration) -> Hardened {
        self.deadline = deadline;
        self
    }

    fn without_env(mut self, name: &str) -> Hardened {
        self.environment.retain(|(set, _)| set != name);
        self
    }

    pub fn set(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Hardened {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Switches off the drivers that the repository's configuration defines. Their names are only
    /// known there.
    pub fn without_drivers(self, names: &[String]) -> Hardened {
        let mut this = self;
        for name in names {
            let Some((key, _)) = name.rsplit_once('.') else { continue };
            if key.starts_with("filter.") {
                for part in ["clean", "smudge", "process"] {
                    this = this.set(format!("{key}.{part}"), "");
                }
                this = this.set(format!("{key}.required"), "false");
            } else if key.starts_with("hook.") {
                this = this.set(format!("{key}.enabled"), "false");
            } else if key.starts_with("diff.") {
                this = this.set(format!("{key}.command"), "").set(format!("{key}.textconv"), "");
            } else if key.starts_with("merge.") {
                this = this.set(format!("{key}.driver"), "false");
            }
        }
        this
    }

    /// Runs a line of words with arguments behind it, whatever it answers; only what keeps us from
    /// hearing the answer is an error.
    pub fn ask(&self, words: &str, args: &[&OsStr], input: &[u8]) -> Result<Said, GitError> {
        let verb = verb(words).to_owned();
        let mut command = Command::new(&self.git);
        command.env_clear().current_dir(&self.cwd).arg("--no-pager");
        command.args(words.split_whitespace()).args(args);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // By environment and not by `-c`: a driver's name may contain anything.
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (at, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{at}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        let limits = Limits { deadline: self.deadline, max_output: MAX_OUTPUT, keep_tail: false };
        let input = match &self.lock {
            Some(lock) if input.is_empty() => Input::Lock(lock),
            _ if input.is_empty() => Input::Nothing,
            _ => Input::Bytes(input),
        };
        run(&mut command, input, limits).map_err(|source| match source {
            super::command::CommandError::TooSlow(after) => GitError::TooSlow { verb, after },
            super::command::CommandError::TooMuch(cap) => GitError::TooMuch { verb, cap },
            super::command::CommandError::Start(error)
                if error.kind() == std::io::ErrorKind::NotFound && !self.git.exists() =>
            {
                GitError::Missing
            }
            source => GitError::Run { verb, source },
        })
    }

    /// Runs it and wants success.
    pub fn tell(&self, words: &str, args: &[&OsStr], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let said = self.ask(words, args, input)?;
        if said.status.success() { Ok(said.out) } else { Err(self.failed(verb(words), &said)) }
    }

    /// Runs it and wants success without a word of warning: what git could not look at counts as
    /// not looked at.
    pub fn check(&self, words: &str, args: &[&OsStr], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let said = self.ask(words, args, input)?;
        if !said.status.success() {
            return Err(self.failed(verb(words), &said));
        }
        if !said.err.is_empty() {
            let verb = verb(words).to_owned();
            return Err(GitError::Warned { verb, said: text_of(&said.err) });
        }
        Ok(said.out)
    }

    /// Runs one that answers yes or no by its status.
    pub fn decide(
        &self,
        words: &str,
        args: &[&OsStr],
        input: &[u8],
    ) -> Result<Option<Vec<u8>>, GitError> {
        let said = self.ask(words, args, input)?;
        match said.status.code() {
            Some(0) => Ok(Some(said.out)),
            Some(1) => Ok(None),
            _ => Err(self.failed(verb(words), &said)),
        }
    }

    pub fn failed(&self, verb: &str, said: &Said) -> GitError {
        GitError::failed(verb, said.status.to_string(), &said.err, &self.place)
    }
}

fn verb(words: &str) -> &str {
    words.split(' ').next().unwrap_or_default()
}
