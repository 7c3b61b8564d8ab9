//! `greenroom doctor`: what works here, what does not, and what to do about it.
//!
//! Each check tries the thing itself where it can: a terminal is opened, a splice is done, a file is
//! written. A check that could not be made is a warning, never an "ok".

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use greenroom_client::Client;
use greenroom_daemon::Paths;
use greenroom_daemon::config::Config;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::server::StatsResult;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::SpliceFlags;
use rustix::process::{PidfdFlags, Resource, getrlimit, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::cli::DoctorArgs;
use crate::error::{Failure, Outcome, plain};
use crate::host::{Address, Host};
use crate::output::{self, Tone, bytes, count, one_line, span};

/// Free disk space below which sessions will stop being recorded soon.
const DISK_FAIL: u64 = 64 * 1024 * 1024;
/// A full set of recordings is 4 GiB by default; a quarter of it is a reason to look.
const DISK_WARN: u64 = 1024 * 1024 * 1024;
/// Descriptors a session takes in keeper and daemon together, and those for everything else.
const FDS_PER_SESSION: u64 = 8;
const FDS_OTHER: u64 = 128;
/// Fewer sessions than this is not enough for a day's work.
const SESSIONS_WANTED: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Ok, detail: detail.into(), fix: None }
    }

    fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Warn, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Fail, detail: detail.into(), fix: Some(fix.into()) }
    }
}

pub async fn run(_: DoctorArgs, context: &Context) -> Outcome {
    let mut checks = Vec::new();
    match Paths::from_env() {
        Err(error) => checks.push(Check::fail("home", error.to_string(), "set GREENROOM_HOME")),
        Ok(paths) => {
            checks.extend(host().await);
            checks.push(directories(&paths));
            checks.push(config(&paths));
            checks.push(disk(&paths));
        }
    }
    checks.extend([pty(), splice(), pidfd(), holding(), files(), terminal(), locale(), nesting()]);
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    context.out.answer(&json!({ "ok": !failed, "checks": checks }), || table(&checks, context))?;
    Ok(u8::from(failed))
}

fn table(checks: &[Check], context: &Context) -> String {
    let mut text = String::new();
    for check in checks {
        let (tone, word) = match check.verdict {
            Verdict::Ok => (Tone::Good, "✓ ok  "),
            Verdict::Warn => (Tone::Warn, "! warn"),
            Verdict::Fail => (Tone::Bad, "✗ fail"),
        };
        let detail = one_line(&check.detail);
        text.push_str(&format!("{} {:12} {detail}\n", context.out.paint(tone, word), check.name));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{:20}fix: {fix}\n", ""));
        }
    }
    text
}

/// The host, and what it has to say of its sessions.
async fn host() -> Vec<Check> {
    match stats().await {
        Err(check) => vec![check],
        Ok(stats) => {
            let checks = [Some(running(&stats)), socket(), clean_ups(&stats)];
            checks.into_iter().flatten().chain(troubles(&stats)).collect()
        }
    }
}

async fn stats() -> Result<StatsResult, Check> {
    let name = "host";
    let address = Address::from_env()
        .map_err(|failure| Check::fail(name, failure.message, "set GREENROOM_HOME"))?;
    let failed = |failure: Failure| {
        let fix = failure.hint.unwrap_or_else(|| "look into greenroom logs".to_owned());
        Check::fail(name, failure.message, fix)
    };
    let (socket, held) = (&address.socket, address.holder().is_some());
    if !held && !socket.exists() {
        let detail =
            format!("not running; it starts on first use and listens on {}", socket.display());
        return Err(Check::ok(name, detail));
    }
    let host = match held {
        true => Host::reach(false).await.map_err(failed)?,
        false => Client::connect_now(socket).await.map(|client| Host { client }).map_err(|_| {
            let detail = format!("nobody listens on {}", socket.display());
            Check::warn(name, detail, "it is cleaned up by the next start: greenroom ls")
        })?,
    };
    host.call("server.stats", &Empty {}, "ask the host").await.map_err(failed)
}

/// Where clients that are not this program find the host.
fn socket() -> Option<Check> {
    let socket = Address::from_env().ok()?.socket;
    Some(Check::ok("socket", socket.display().to_string()))
}

/// Only if something of a session could not be cleaned up.
fn clean_ups(stats: &StatsResult) -> Option<Check> {
    let first = stats.cleanups.first()?;
    let more = match stats.cleanups.len() {
        1 => String::new(),
        count => format!("; and {} more", count - 1),
    };
    let detail = format!(
        "{} of {} failed {}: {}{more}",
        first.plugin,
        first.session,
        count(first.tries.into(), "time"),
        first.why
    );
    let wait = Timestamp::from_system(std::time::SystemTime::now());
    let wait = span(first.next_at.0.saturating_sub(wait.0));
    Some(Check::warn(
        "clean-up",
        detail,
        format!("remove the cause; the host tries again in {wait}"),
    ))
}

/// Files of the host that are damaged, and sessions that show less for it.
fn troubles(stats: &StatsResult) -> impl Iterator<Item = Check> {
    let fix = "put the file back if you have it; what was set aside lies beside its old place";
    stats.troubles.iter().map(move |trouble| Check::fail("state", trouble.as_str(), fix))
}

fn running(stats: &StatsResult) -> Check {
    let name = "host";
    let ours = env!("CARGO_PKG_VERSION");
    let detail = format!(
        "version {}, pid {}, up {}, {} running",
        stats.version,
        stats.daemon_pid,
        span(stats.keeper.uptime_ms),
        count(stats.sessions.running, "session")
    );
    if stats.version != ours {
        return Check::warn(name, format!("{detail}; this program is {ours}"), "greenroom upgrade");
    }
    if stats.keeper.daemon_starts > stats.keeper.generation + 1 {
        return Check::warn(
            name,
            format!("{detail}; restarted after a crash"),
            "look into greenroom logs",
        );
    }
    Check::ok(name, detail)
}

fn directories(paths: &Paths) -> Check {
    let name = "directories";
    if let Err(error) = paths.prepare() {
        return Check::fail(
            name,
            error.to_string(),
            "make it yours, or set GREENROOM_HOME to another place",
        );
    }
    for dir in [paths.state(), paths.runtime()] {
        let mode = match std::fs::metadata(dir) {
            Ok(meta) => meta.mode() & 0o777,
            Err(error) => {
                return Check::fail(
                    name,
                    format!("{}: {}", dir.display(), plain(&error)),
                    "look at its parents",
                );
            }
        };
        if mode != 0o700 {
            return Check::fail(
                name,
                format!("{} has mode {mode:o}", dir.display()),
                format!("chmod 700 {}", dir.display()),
            );
        }
    }
    Check::ok(
        name,
        format!("{} and {}, for you alone", paths.state().display(), paths.runtime().display()),
    )
}

fn config(paths: &Paths) -> Check {
    let file = paths.config_file();
    match Config::load(&file) {
        Ok(_) if file.exists() => Check::ok("config", file.display().to_string()),
        Ok(_) => Check::ok("config", "defaults (no config.toml)"),
        Err(error) => Check::fail("config", error.to_string(), format!("edit {}", file.display())),
    }
}

fn disk(paths: &Paths) -> Check {
    let name = "disk";
    let fix = format!("make room on the disk of {}", paths.state().display());
    match rustix::fs::statvfs(paths.state()) {
        Err(errno) => Check::warn(name, format!("cannot ask: {}", plain(&errno.into())), fix),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} free", bytes(free));
            match free {
                0..DISK_FAIL => Check::fail(name, detail, fix),
                DISK_FAIL..DISK_WARN => Check::warn(name, detail, fix),
                _ => Check::ok(name, detail),
            }
        }
    }
}

/// A fresh terminal pair: the master, and the slave opened.
fn open_pty() -> rustix::io::Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?;
    let slave =
        rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((master, slave))
}

fn pty() -> Check {
    match open_pty() {
        Ok(_) => Check::ok("terminals", "can be opened"),
        Err(errno) => Check::fail(
            "terminals",
            plain(&errno.into()),
            "mount devpts, and look at /proc/sys/kernel/pty",
        ),
    }
}

fn splice() -> Check {
    let name = "splice";
    let tried = || -> rustix::io::Result<usize> {
        let (master, slave) = open_pty()?;
        let (_read, write) = rustix::pipe::pipe()?;
        File::from(slave.as_fd().try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE)?)
            .write_all(b"x")
            .map_err(|_| rustix::io::Errno::IO)?;
        rustix::pipe::splice(&master, None, &write, None, 1, SpliceFlags::NONBLOCK)
    };
    match tried() {
        Ok(1) => Check::ok(name, "terminal output reaches the recording without a copy"),
        Ok(count) => Check::warn(
            name,
            format!("moved {count} bytes of 1"),
            "the slower way is used; nothing to do",
        ),
        Err(errno) => {
            Check::warn(name, plain(&errno.into()), "the slower way is used; nothing to do")
        }
    }
}

fn pidfd() -> Check {
    match pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => Check::ok("pidfd", "processes can be watched without races"),
        Err(errno) => Check::warn("pidfd", plain(&errno.into()), "use Linux 5.3 or newer"),
    }
}

/// What holds a session's processes together; tried, not assumed.
fn holding() -> Check {
    let name = "processes";
    let own = rustix::process::getpid();
    let before = rustix::process::child_subreaper();
    let tried = rustix::process::set_child_subreaper(Some(own));
    let _ = rustix::process::set_child_subreaper(before.ok().flatten());
    let lists = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    match (tried, lists) {
        (Ok(()), Ok(_)) => Check::ok(
            name,
            "everything a session starts stays below a warden of its own (a subreaper; no cgroup is used)",
        ),
        (Ok(()), Err(_)) => Check::warn(
            name,
            "the kernel has no lists of children: sessions' processes are searched for, which is slow",
            "use a kernel with CONFIG_PROC_CHILDREN",
        ),
        (Err(errno), _) => Check::fail(
            name,
            format!("no process can hold what others start: {}", plain(&errno.into())),
            "use Linux 3.4 or newer",
        ),
    }
}

fn files() -> Check {
    let name = "open files";
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let room = limit.saturating_sub(FDS_OTHER) / FDS_PER_SESSION;
    let room_for = count(room.min(100_000), "session");
    let detail = format!("limit {limit}: room for about {room_for}");
    if room < SESSIONS_WANTED {
        return Check::warn(
            name,
            detail,
            "raise the hard limit: ulimit -Hn 65536, or in /etc/security/limits.conf",
        );
    }
    Check::ok(name, detail)
}

fn terminal() -> Check {
    let name = "TERM";
    if !std::io::stdout().is_terminal() {
        return Check::ok(name, "no terminal here; attach needs one");
    }
    match std::env::var("TERM") {
        Ok(term) if !term.is_empty() && term != "dumb" => Check::ok(name, term),
        _ => Check::warn(name, "not set, or dumb", "export TERM=xterm-256color"),
    }
}

fn locale() -> Check {
    match output::locale() {
        Some(value) if output::is_utf8(Some(&value)) => Check::ok("locale", value),
        other => {
            let value = other.unwrap_or_else(|| "not set".to_owned());
            Check::warn(
                "locale",
                format!("{value}: programs may not write UTF-8"),
                "export LANG=C.UTF-8",
            )
        }
    }
}

fn nesting() -> Check {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let name = "nesting";
    if set("TMUX") || set("STY") {
        let fix = "press the prefix twice, or choose another with attach.prefix in config.toml";
        return Check::warn(name, "inside tmux or screen: both may want the same prefix key", fix);
    }
    if set("GREENROOM_SESSION") {
        return Check::warn(name, "inside a session: attaching here nests", "detach first");
    }
    Check::ok(name, "not inside tmux, screen or a session")
}
