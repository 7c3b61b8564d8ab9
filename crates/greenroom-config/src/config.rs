//! The configuration file.
//!
//! In: the text of `config.toml` or `config.yaml`. Out: [`Config`], or every mistake in the file
//! with its line. [`KEYS`] is the whole schema: what can be set, its default, what it means; both
//! syntaxes are read as the same tree. Deliberately absent: secrets, and anything a request can say
//! itself.

mod keys;
mod plugins;
mod prefix;
mod settled;
mod value;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_formats::tree::{self, Kind, Member, Node, Syntax};
use greenroom_workspace::sandbox::SandboxConfig;
use greenroom_workspace::scratchpad::ScratchpadConfig;
use greenroom_workspace::worktree::WorktreeConfig;
use serde_json::Value;

pub use keys::{KEYS, Key};
pub(crate) use plugins::Plugins;
pub use prefix::Prefix;
pub use settled::Settled;
pub(crate) use value::Given;

/// A file larger than this is not a configuration.
const FILE_MAX: u64 = 1024 * 1024;

/// Brackets within brackets; a table of policies has three.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub sessions: Sessions,
    pub worktree: WorktreeConfig,
    pub scratchpad: ScratchpadConfig,
    pub sandbox: SandboxConfig,
    pub attach: Attach,
    pub plugins: Plugins,
    pub redact: Redact,
    pub http: Http,
    pub events: Events,
    pub log: Log,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    pub default_size: (u16, u16),
    /// `None`: `$SHELL` of whoever starts a session, else `/bin/sh`.
    pub shell: Option<String>,
    pub term: String,
    pub limit_bytes: u64,
    pub total_bytes: u64,
    pub max: usize,
    pub kill_grace: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    pub prefix: Prefix,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// `None`: nowhere, until somebody asks for it.
    pub listen: Option<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Redact {
    pub attach: bool,
    /// Rules that are off.
    pub without: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Events {
    pub keep: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub level: String,
    pub file_bytes: u64,
    pub files: usize,
}

impl Default for Config {
    fn default() -> Config {
        let mut config = Config {
            sessions: Sessions {
                default_size: (80, 24),
                shell: None,
                term: String::new(),
                limit_bytes: 0,
                total_bytes: 0,
                max: 0,
                kill_grace: Duration::ZERO,
            },
            worktree: WorktreeConfig::default(),
            scratchpad: ScratchpadConfig::default(),
            sandbox: SandboxConfig::default(),
            attach: Attach { prefix: Prefix::default() },
            plugins: Plugins::default(),
            redact: Redact { attach: false, without: Vec::new() },
            http: Http { listen: None },
            events: Events { keep: 0 },
            log: Log { level: String::new(), file_bytes: 0, files: 0 },
        };
        // One truth: the defaults are those the table documents.
        for key in KEYS {
            if let Some(default) = key.default {
                (key.set)(&mut config, &Given::Text(default.to_owned()))
                    .expect("the table's defaults are valid");
            }
        }
        config
    }
}

/// Everything that is wrong with a file, in its order.
#[derive(Debug, PartialEq)]
pub struct ConfigError {
    file: PathBuf,
    problems: Vec<Problem>,
}

#[derive(Debug, PartialEq)]
struct Problem {
    line: Option<usize>,
    text: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            match problem.line {
                Some(line) => write!(f, "{}:{line}: {}", self.file.display(), problem.text)?,
                None => write!(f, "{}: {}", self.file.display(), problem.text)?,
            }
        }
        Ok(())
    }
}

impl ConfigError {
    /// About all of the file.
    fn whole(file: &Path, text: String) -> ConfigError {
        ConfigError { file: file.to_owned(), problems: vec![Problem { line: None, text }] }
    }

    /// The file with the mistakes: of the two there may be, the one that was read.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl Config {
    /// Reads a file, or the one beside it that ends in `.yaml`; neither being there means the
    /// defaults.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let file = &chosen(file)?;
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            Ok(meta) if meta.len() > FILE_MAX => {
                return Err(ConfigError::whole(file, format!("larger than {FILE_MAX} bytes")));
            }
            _ => {}
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::whole(file, format!("cannot read it: {error}")))?;
        Config::parse(file, &text)
    }

    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
        let mut reading = Reading { text, config: Config::default(), problems: Vec::new() };
        reading.all(if is_yaml(file) { Syntax::Yaml } else { Syntax::Toml });
        if reading.problems.is_empty() {
            return Ok(reading.config);
        }
        reading.problems.sort_by_key(|problem| problem.line);
        Err(ConfigError { file: file.to_owned(), problems: reading.problems })
    }
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// The file that is there. Two are one too many: which of them is meant cannot be guessed.
fn chosen(file: &Path) -> Result<PathBuf, ConfigError> {
    let other = file.with_extension("yaml");
    if is_yaml(file) || !other.exists() {
        return Ok(file.to_owned());
    }
    if file.exists() {
        let text = format!("{} is there, too: keep one of the two", other.display());
        return Err(ConfigError::whole(file, text));
    }
    Ok(other)
}

struct Reading<'a> {
    text: &'a str,
    config: Config,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn all(&mut self, syntax: Syntax) {
        let root = match tree::read(syntax, self.text, DEPTH_MAX) {
            Ok(root) => root,
            Err(fault) => return self.problem(fault.at, fault.text),
        };
        let sections = match &root.kind {
            Kind::Map(sections) => sections,
            // An empty file.
            Kind::Plain(Value::Null) => return,
            _ => return self.problem(root.at, "expected sections with keys".to_owned()),
        };
        for Member { at, name, value } in sections {
            let known = KEYS.iter().any(|key| key.section == name);
            match &value.kind {
                Kind::Map(keys) if known => self.section(name, keys),
                Kind::Plain(Value::Null) if known => {}
                _ if known => {
                    let how = match syntax {
                        Syntax::Yaml => format!("indent its keys below `{name}:`"),
                        _ => format!("write [{name}]"),
                    };
                    self.problem(*at, format!("`{name}` is a section: {how}"));
                }
                other => {
                    let what = if matches!(other, Kind::Map(_)) { "section" } else { "key" };
                    self.problem(*at, unknown(what, name, KEYS.iter().map(|key| key.section)));
                }
            }
        }
    }

    fn section(&mut self, section: &str, members: &[Member<'_>]) {
        let keys = || KEYS.iter().filter(|key| key.section == section);
        for Member { at, name, value } in members {
            let Some(key) = keys().find(|key| key.name == name) else {
                self.problem(*at, unknown("key", name, keys().map(|key| key.name)));
                continue;
            };
            if let Err(why) = (key.set)(&mut self.config, &given(value)) {
                self.problem(value.at, format!("`{}` {why}", key.name));
            }
        }
    }

    fn problem(&mut self, at: usize, text: String) {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        self.problems.push(Problem { line: Some(line), text });
    }
}

fn given(node: &Node<'_>) -> Given {
    match &node.kind {
        Kind::Plain(Value::String(text)) => Given::Text(text.clone()),
        Kind::Plain(Value::Bool(flag)) => Given::Flag(*flag),
        Kind::Plain(Value::Number(number)) => {
            number.as_i64().map_or(Given::Other("a fraction"), Given::Number)
        }
        Kind::Plain(_) => Given::Other("nothing"),
        Kind::List(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.text().map(str::to_owned)).collect();
            texts.map_or(Given::Other("a list"), Given::List)
        }
        Kind::Map(members) => {
            let pair = |member: &Member<'_>| {
                Some((member.name.clone().into_owned(), member.value.text()?.to_owned()))
            };
            let pairs: Option<Vec<(String, String)>> = members.iter().map(pair).collect();
            pairs.map_or(Given::Other("a table"), Given::Pairs)
        }
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match greenroom_protocol::nearest(name, known) {
        Some(known) => format!("unknown {what} `{name}`, did you mean `{known}`?"),
        None => format!("unknown {what} `{name}`"),
    }
}

#[cfg(test)]
mod tests;
