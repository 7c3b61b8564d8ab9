//! The flags that say what a session is to be: of `new`, `serve` and `sandbox explain`; and what
//! they ask for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use greenroom_protocol::api::ask::{
    Asked, SandboxAsk, SandboxException, SandboxLevel, ScratchpadAsk, SessionAsk, Variables,
    WorktreeAsk,
};
use greenroom_protocol::api::screen::Size;

use serde::de::DeserializeOwned;

use super::{parse_pair, parse_size, parse_time};
use crate::error::Failure;

/// How a session is to be started.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct SessionArgs {
    /// A name to call it by [default: from the worktree or the program]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Columns and rows [default: this terminal's, else 80x24]
    #[arg(long, value_name = "COLSxROWS", value_parser = parse_size)]
    pub size: Option<Size>,
    /// Where to start it [default: here]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Set a variable; K=secret:NAME and K=file:PATH read its value
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub env: Vec<(String, String)>,
    /// Read variables from a file of K=V lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Attach a label, to find it by
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub label: Vec<(String, String)>,
    /// What it is for; told to plugins before the start
    #[arg(long, value_name = "TEXT")]
    pub task: Option<String>,
    /// Which agent does it, such as claude; told to plugins before the start
    #[arg(long, value_name = "WORD")]
    pub backend: Option<String>,
    /// How hard it shall think; told to plugins before the start
    #[arg(long, value_name = "WORD")]
    pub effort: Option<String>,
    /// Work in a git worktree and branch of its own
    #[arg(long, value_name = "SLUG", help_heading = PLUGINS)]
    pub worktree: Option<String>,
    /// Where a new branch begins [default: HEAD]
    #[arg(long, value_name = "REF", requires = "worktree", help_heading = PLUGINS)]
    pub base: Option<String>,
    /// Confine it: full (the default) or reduced
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full",
        value_parser = levels(),
        help_heading = PLUGINS
    )]
    pub sandbox: Option<SandboxLevel>,
    /// A host a confined session may reach, such as api.example.com or *.example.com
    #[arg(long, value_name = "HOST", help_heading = PLUGINS)]
    pub allow_host: Vec<String>,
    /// A directory a confined session may write besides its own
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = PLUGINS)]
    pub allow_write: Vec<PathBuf>,
    /// Also plain HTTP to those hosts
    #[arg(long, help_heading = PLUGINS)]
    pub allow_http: bool,
    /// An exception: unix sockets, debugging, the whole network
    #[arg(long, value_name = "WHAT", value_parser = exceptions(), help_heading = PLUGINS)]
    pub sandbox_allow: Vec<SandboxException>,
    /// A directory shared by all who say the same name, or its own
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        help_heading = PLUGINS
    )]
    pub scratchpad: Option<String>,
    /// End it after this long: seconds, or 90m
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = PLUGINS)]
    pub timeout: Option<Duration>,
    /// End it after this long without output
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = PLUGINS)]
    pub idle_timeout: Option<Duration>,
    /// Another session plugin by name (repeatable)
    #[arg(long, value_name = "PLUGIN", help_heading = PLUGINS)]
    pub with: Vec<String>,
    /// Start nothing; show the session and who changed what
    #[arg(long, help_heading = PLUGINS)]
    pub dry_run: bool,
    /// The program and its arguments [default: $SHELL]
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// A file larger than this is not a list of variables.
const ENV_FILE_MAX: u64 = 1024 * 1024;

const PLUGINS: &str = "Session plugins";

impl SessionArgs {
    /// What the flags ask for around the session.
    pub fn ask(&self) -> Result<SessionAsk, Failure> {
        let worktree = self.worktree.clone();
        let scratchpad = self.scratchpad.clone();
        Ok(SessionAsk {
            env: variables(self)?,
            timeout_ms: self.timeout.map(millis),
            idle_timeout_ms: self.idle_timeout.map(millis),
            worktree: worktree.map(|slug| WorktreeAsk { slug, base: self.base.clone() }).into(),
            sandbox: sandbox(self)?,
            scratchpad: scratchpad
                .map(|name| ScratchpadAsk { name: Some(name).filter(|name| !name.is_empty()) })
                .into(),
        })
    }
}

fn variables(args: &SessionArgs) -> Result<Variables, Failure> {
    let mut env = BTreeMap::new();
    for file in &args.env_file {
        // A file's text is a text, whatever it begins with.
        env.extend(read_env_file(file)?.into_iter().map(|(name, value)| (name, literal(value))));
    }
    env.extend(args.env.iter().cloned());
    Ok(Variables(env))
}

fn sandbox(args: &SessionArgs) -> Result<Asked<SandboxAsk>, Failure> {
    let Some(level) = args.sandbox else { return unconfined(args) };
    let mut allow_write = Vec::new();
    for dir in &args.allow_write {
        let dir = std::path::absolute(dir)
            .map_err(|error| Failure::io(format!("cannot allow {}", dir.display()), &error))?;
        allow_write.push(utf8(&dir)?);
    }
    Ok(Asked::Yes(SandboxAsk {
        level,
        allow_hosts: args.allow_host.clone(),
        allow_write,
        allow_http: args.allow_http,
        allow: args.sandbox_allow.clone(),
    }))
}

/// What opens a fence is no use without one, and whoever asked believes there is one.
fn unconfined(args: &SessionArgs) -> Result<Asked<SandboxAsk>, Failure> {
    let asked = [
        ("--allow-host", !args.allow_host.is_empty()),
        ("--allow-write", !args.allow_write.is_empty()),
        ("--allow-http", args.allow_http),
        ("--sandbox-allow", !args.sandbox_allow.is_empty()),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(Asked::Unsaid),
        Some((flag, _)) => Err(Failure::usage(format!(
            "cannot start a session: {flag} says what a sandbox lets through, and there is none"
        ))
        .hint("add --sandbox")),
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// So that the host takes it as it is.
fn literal(value: String) -> String {
    match ["secret:", "file:", "literal:"].iter().any(|word| value.starts_with(word)) {
        true => format!("literal:{value}"),
        false => value,
    }
}

pub fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::failed(format!("cannot start a session in {}: not UTF-8", path.display()))
    })
}

/// `K=V` lines; `#` starts a comment line, `export ` before and quotes around are taken off.
fn read_env_file(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let refuse =
        |error: std::io::Error| Failure::io(format!("cannot read {}", path.display()), &error);
    let size = std::fs::metadata(path).map_err(refuse)?.len();
    if size > ENV_FILE_MAX {
        return Err(Failure::failed(format!(
            "cannot read {}: larger than {ENV_FILE_MAX} bytes",
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(refuse)?;
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        // The line is not shown: it may hold a secret.
        let Some((name, value)) = pair.filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(Failure::usage(format!("{}:{number}: K=V is wanted", path.display())));
        };
        pairs.push((name.trim().to_owned(), unquoted(value.trim()).to_owned()));
    }
    Ok(pairs)
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

/// What `--sandbox` takes.
fn levels() -> impl TypedValueParser<Value = SandboxLevel> {
    let full = PossibleValue::new("full").help("Every layer");
    let reduced = PossibleValue::new("reduced");
    let reduced = reduced.help("Without namespaces: file contents and network only");
    PossibleValuesParser::new([full, reduced]).map(of_word::<SandboxLevel>)
}

/// What `--sandbox-allow` takes.
fn exceptions() -> impl TypedValueParser<Value = SandboxException> {
    let unix = PossibleValue::new("unix").help("Unix sockets by path");
    let debug = PossibleValue::new("debug").help("ptrace within the session");
    let network = PossibleValue::new("network").help("The whole network");
    PossibleValuesParser::new([unix, debug, network]).map(of_word::<SandboxException>)
}

fn of_word<T: DeserializeOwned>(word: String) -> T {
    serde_json::from_value(word.into()).expect("the words are those of the wire")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_files_as_people_write_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.env");
        std::fs::write(&file, "# c\n\nA=1\nexport B = 'two words'\nC=\"x=y\"\nD=\n").unwrap();
        let pairs = read_env_file(&file).unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "x=y"), ("D", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        std::fs::write(&file, "A=1\nsecret-token\n").unwrap();
        let failure = read_env_file(&file).unwrap_err();
        assert!(failure.message.contains("x.env:2: K=V"), "{failure}");
        assert!(!failure.message.contains("secret"), "{failure}");
    }
}
