//! Every key of the configuration, once: section, name, default, meaning, and how it is read.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use greenroom_workspace::sandbox::HostPattern;
use greenroom_workspace::worktree::Share;

use super::plugins::{enforcement, milliseconds, policies};
use super::value::{Given, bytes, count, duration, flag, level, pairs, size, text, texts, word};
use super::{Config, Prefix};

pub struct Key {
    pub section: &'static str,
    pub name: &'static str,
    /// As a person would write it; `None` when leaving it out means something of its own.
    pub default: Option<&'static str>,
    pub about: &'static str,
    /// It is looked at each time it is needed, so that a new value holds at once. All others hold
    /// from the daemon's start.
    pub at_once: bool,
    pub set: fn(&mut Config, &Given) -> Result<(), String>,
    /// Whether both have the same value.
    pub same: fn(&Config, &Config) -> bool,
}

macro_rules! keys {
    ($($section:ident . $name:ident = $default:expr, $read:expr, $($when:ident,)? $about:literal;)*) => {
        pub const KEYS: &[Key] = &[$(Key {
            section: stringify!($section),
            name: stringify!($name),
            default: $default,
            about: $about,
            at_once: !concat!($(stringify!($when))?).is_empty(),
            set: |config, given| {
                config.$section.$name = $read(given)?;
                Ok(())
            },
            same: |one, other| one.$section.$name == other.$section.$name,
        },)*];
    };
}

/// More sessions than this would run into the kernel's limit on open files first.
const SESSIONS_MAX: u64 = 10_000;

fn maybe_text(given: &Given) -> Result<Option<String>, String> {
    text(given).map(Some)
}

fn sessions(given: &Given) -> Result<usize, String> {
    count(given, 1, SESSIONS_MAX).map(|count| count as usize)
}

fn journal(given: &Given) -> Result<u64, String> {
    bytes(given, 1024 * 1024)
}

fn log_file(given: &Given) -> Result<u64, String> {
    bytes(given, 64 * 1024)
}

fn log_files(given: &Given) -> Result<usize, String> {
    count(given, 1, 100).map(|count| count as usize)
}

fn rules_off(given: &Given) -> Result<Vec<String>, String> {
    let names = texts(given)?;
    match greenroom_engine::egress::Rules::without(&names) {
        Ok(_) => Ok(names),
        Err(unknown) => Err(format!("has no rule called {}", unknown.join(", "))),
    }
}

fn events(given: &Given) -> Result<u64, String> {
    count(given, 100, 10_000_000)
}

fn prefix(given: &Given) -> Result<String, String> {
    let prefix = word(given)?;
    if prefix.ends_with('/') && !prefix.starts_with('/') {
        return Ok(prefix);
    }
    Err(format!("must be a branch prefix such as \"greenroom/\", not \"{prefix}\""))
}

fn attach_key(given: &Given) -> Result<Prefix, String> {
    let text = word(given)?;
    text.parse().map_err(|why| format!("\"{text}\" is no such key: {why}"))
}

fn seconds(given: &Given) -> Result<u64, String> {
    duration(given).map(|time| time.as_secs().max(1))
}

fn share(given: &Given) -> Result<BTreeMap<String, Share>, String> {
    let one = |(dir, how): (String, String)| {
        let share = match how.as_str() {
            "none" => Share::None,
            "reflink" => Share::Reflink,
            "hardlink" => Share::Hardlink,
            "symlink" => Share::Symlink,
            other => {
                return Err(format!(
                    "must say none, reflink, hardlink or symlink for {dir}, not \"{other}\""
                ));
            }
        };
        Ok((dir, share))
    };
    pairs(given)?.into_iter().map(one).collect()
}

fn listen(given: &Given) -> Result<Option<SocketAddr>, String> {
    let text = word(given)?;
    crate::loopback(&text).map(Some).map_err(|error| format!("must be an address: {error}"))
}

fn hosts(given: &Given) -> Result<Vec<String>, String> {
    let hosts = texts(given)?;
    for host in &hosts {
        HostPattern::parse(host).map_err(|error| format!("must name hosts: {error}"))?;
    }
    Ok(hosts)
}

keys! {
    sessions.default_size = Some("80x24"), size, at_once,
        "size of a session that nobody looks at, columns by rows";
    sessions.shell = None, maybe_text, at_once,
        "program of a session that names none; without it $SHELL, else /bin/sh";
    sessions.term = Some("xterm-256color"), word, at_once,
        "TERM of every session";
    sessions.limit_bytes = Some("64MiB"), journal,
        "output kept of one session; the oldest goes first";
    sessions.total_bytes = Some("4GiB"), journal,
        "output kept of all sessions together";
    sessions.max = Some("1000"), sessions,
        "sessions that run at once";
    sessions.kill_grace = Some("5s"), duration, at_once,
        "time between asking a session to end and killing it";
    worktree.prefix = Some("greenroom/"), prefix, at_once,
        "what branches of worktrees begin with";
    worktree.setup = None, texts, at_once,
        "commands run by sh in a new worktree";
    worktree.teardown = None, texts, at_once,
        "commands run by sh in a worktree after each session";
    worktree.command_timeout_s = Some("600s"), seconds, at_once,
        "time for each of those commands";
    worktree.share = None, share, at_once,
        "directories brought along: none, reflink, hardlink or symlink for each";
    worktree.disposable = None, texts, at_once,
        "ignored directories that hold nothing but build products";
    worktree.ports = Some("true"), flag, at_once,
        "whether a session in a worktree gets ten ports of its own";
    scratchpad.link = Some("scratchpad"), word,
        "what the shared directory is called in each session's directory";
    sandbox.hide = None, texts, at_once,
        "paths a confined session cannot see, besides credentials and our own";
    sandbox.show = None, texts, at_once,
        "paths it can see although they would be hidden";
    sandbox.allow_hosts = None, hosts, at_once,
        "hosts every confined session may reach";
    sandbox.allow_write = None, texts, at_once,
        "directories every confined session may write";
    sandbox.without_landlock = Some("false"), flag, at_once,
        "accept level full where Landlock is missing (before Linux 6.2)";
    attach.prefix = Some("ctrl-b"), attach_key, at_once,
        "the key that begins a command while attached";
    http.listen = None, listen, at_once,
        "where REST, MCP and WebSocket listen from the start, such as 127.0.0.1:7878; without it only once asked for";
    redact.attach = Some("false"), flag,
        "mask secrets in your own attached terminal, too";
    redact.without = None, rules_off,
        "built-in rules that are off, by name; greenroom redact rules lists them";
    plugins.enabled = Some("false"), flag,
        "whether plugins run; without it none is even looked for";
    plugins.dir = None, maybe_text,
        "where plugins are looked for; without it plugins/ in the data directory";
    plugins.timeout_ms = Some("2000"), milliseconds,
        "how long a plugin with one of datawatch's hooks may take, if its manifest does not say";
    plugins.disabled = None, texts,
        "names of plugins that are found and listed but not asked";
    plugins.policy = None, policies,
        "what a failure means, by HOOK or PLUGIN/HOOK; wins over manifests";
    plugins.min_enforcement = Some("partial"), enforcement,
        "the least that must be enforced on a plugin's program: advisory, partial or enforced";
    plugins.idle = Some("30s"), duration, at_once,
        "a session that prints nothing for this long is told to plugins as idle";
    plugins.approval_timeout = Some("10m"), duration, at_once,
        "how long a person has to decide what a plugin asks; then the answer is no";
    events.keep = Some("100000"), events,
        "events kept for replay; the oldest go first";
    log.level = Some("info"), level,
        "off, error, warn, info, debug or trace";
    log.file_bytes = Some("8MiB"), log_file,
        "a log file is set aside when it is this large";
    log.files = Some("4"), log_files,
        "log files kept";
}
