//! Every key of the configuration, once: section, name, default, meaning, and how it is read.

use super::Config;
use super::value::{Given, bytes, count, duration, level, size, text, word};

pub struct Key {
    pub section: &'static str,
    pub name: &'static str,
    /// As a person would write it; `None` when leaving it out means something of its own.
    pub default: Option<&'static str>,
    pub about: &'static str,
    pub set: fn(&mut Config, &Given) -> Result<(), String>,
}

macro_rules! keys {
    ($($section:ident . $name:ident = $default:expr, $read:expr, $about:literal;)*) => {
        pub const KEYS: &[Key] = &[$(Key {
            section: stringify!($section),
            name: stringify!($name),
            default: $default,
            about: $about,
            set: |config, given| {
                config.$section.$name = $read(given)?;
                Ok(())
            },
        },)*];
    };
}

/// More sessions than this would run into the kernel's limit on open files first.
const SESSIONS_MAX: u64 = 10_000;

fn shell(given: &Given) -> Result<Option<String>, String> {
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

fn events(given: &Given) -> Result<u64, String> {
    count(given, 100, 10_000_000)
}

keys! {
    sessions.default_size = Some("80x24"), size,
        "size of a session that nobody looks at, columns by rows";
    sessions.shell = None, shell,
        "program of a session that names none; without it $SHELL, else /bin/sh";
    sessions.term = Some("xterm-256color"), word,
        "TERM of every session";
    sessions.limit_bytes = Some("64MiB"), journal,
        "output kept of one session; the oldest goes first";
    sessions.total_bytes = Some("4GiB"), journal,
        "output kept of all sessions together";
    sessions.max = Some("1000"), sessions,
        "sessions that run at once";
    sessions.kill_grace = Some("5s"), duration,
        "time between asking a session to end and killing it";
    attach.prefix = Some("ctrl-b"), word,
        "the key that begins a command while attached";
    events.keep = Some("100000"), events,
        "events kept for replay; the oldest go first";
    log.level = Some("info"), level,
        "off, error, warn, info, debug or trace";
    log.file_bytes = Some("8MiB"), log_file,
        "a log file is set aside when it is this large";
    log.files = Some("4"), log_files,
        "log files kept";
}
