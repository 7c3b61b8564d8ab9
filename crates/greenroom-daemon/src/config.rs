//! The configuration file.
//!
//! In: the text of `config.toml` or `config.yaml`. Out: [`Config`], or every mistake in the file with its line.
//! [`KEYS`] is the whole schema: what can be set, its default, what it means; both formats fill the
//! same table. Deliberately absent: secrets, and anything a request can say itself.

mod keys;
mod plugins;
mod prefix;
mod settled;
mod value;
mod yaml;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_plugins::sandbox::SandboxConfig;
use greenroom_plugins::scratchpad::ScratchpadConfig;
use greenroom_plugins::worktree::WorktreeConfig;
use toml::de::{DeTable, DeValue};

pub use keys::{KEYS, Key};
pub use plugins::Plugins;
pub use prefix::Prefix;
pub use settled::Settled;
pub use value::Given;

/// A file larger than this is not a configuration.
const FILE_MAX: u64 = 1024 * 1024;

/// A word this similar to a known one was probably meant to be it.
const SIMILAR: f64 = 0.7;

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

impl Config {
    /// Reads a file, or the one beside it that ends in `.yaml`; neither being there means the defaults.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let file = &yaml::chosen(file)?;
        let trouble = |text: String| ConfigError {
            file: file.to_owned(),
            problems: vec![Problem { line: None, text }],
        };
        match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            Ok(meta) if meta.len() > FILE_MAX => {
                return Err(trouble(format!("larger than {FILE_MAX} bytes")));
            }
            _ => {}
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| trouble(format!("cannot read it: {error}")))?;
        Config::parse(file, &text)
    }

    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
        let mut reading = Reading { text, config: Config::default(), problems: Vec::new() };
        match DeTable::parse(text) {
            _ if yaml::is_yaml(file) => reading.yaml(),
            Ok(root) => reading.root(root.get_ref()),
            Err(error) => {
                let at = error.span().map(|span| span.start);
                reading.problem(at, error.message().to_owned());
            }
        }
        if reading.problems.is_empty() {
            return Ok(reading.config);
        }
        reading.problems.sort_by_key(|problem| problem.line);
        Err(ConfigError { file: file.to_owned(), problems: reading.problems })
    }
}

/// A file with every key, its meaning and its default, all commented out.
pub fn documented() -> String {
    let mut out = String::new();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            out.push_str(&format!("\n[{section}]\n"));
        }
        let default = key.default.unwrap_or("");
        out.push_str(&format!("# {}\n# {} = \"{default}\"\n", key.about, key.name));
    }
    out
}

struct Reading<'a> {
    text: &'a str,
    config: Config,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        for (name, value) in root.iter() {
            let known = KEYS.iter().any(|key| key.section == name.get_ref());
            match value.get_ref() {
                DeValue::Table(table) if known => self.section(name.get_ref(), table),
                _ if known => {
                    let text = format!("`{0}` is a section: write [{0}]", name.get_ref());
                    self.problem(Some(name.span().start), text);
                }
                other => {
                    let what = if other.is_table() { "section" } else { "key" };
                    let text = unknown(what, name.get_ref(), KEYS.iter().map(|key| key.section));
                    self.problem(Some(name.span().start), text);
                }
            }
        }
    }

    fn section(&mut self, section: &str, table: &DeTable<'_>) {
        let keys = || KEYS.iter().filter(|key| key.section == section);
        for (name, value) in table.iter() {
            let Some(key) = keys().find(|key| key.name == name.get_ref()) else {
                let text = unknown("key", name.get_ref(), keys().map(|key| key.name));
                self.problem(Some(name.span().start), text);
                continue;
            };
            if let Err(why) = (key.set)(&mut self.config, &given(value.get_ref())) {
                self.problem(Some(value.span().start), format!("`{}` {why}", key.name));
            }
        }
    }

    fn problem(&mut self, at: Option<usize>, text: String) {
        let line = at.map(|at| {
            let before = &self.text.as_bytes()[..at.min(self.text.len())];
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        });
        self.problems.push(Problem { line, text });
    }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.clone().into_owned()),
        DeValue::Boolean(flag) => Given::Flag(*flag),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Given::Other("an integer out of range"), Given::Number),
        DeValue::Float(_) => Given::Other("a fraction"),
        DeValue::Array(items) => {
            let text = |item: &toml::Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) => Some(text.clone().into_owned()),
                _ => None,
            };
            let texts: Option<Vec<String>> = items.iter().map(text).collect();
            texts.map_or(Given::Other("a list"), Given::List)
        }
        DeValue::Table(table) => {
            let pair = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let DeValue::String(text) = value.get_ref() else { return None };
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                Some((name.clone().into_owned(), text.clone().into_owned()))
            };
            let pairs: Option<Vec<(String, String)>> = table.iter().map(pair).collect();
            pairs.map_or(Given::Other("a table"), Given::Pairs)
        }
        DeValue::Datetime(_) => Given::Other("a date"),
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, known)) => format!("unknown {what} `{name}`, did you mean `{known}`?"),
        None => format!("unknown {what} `{name}`"),
    }
}

#[cfg(test)]
mod tests;
