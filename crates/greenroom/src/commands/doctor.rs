//! `greenroom doctor`: what works here, what does not, and what to do about it.
//!
//! Each check tries the thing itself where it can: a terminal is opened, a splice is done, a file
//! is written. A check that could not be made is a warning, never an "ok".

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use clap::Args;
use greenroom_client::Client;
use greenroom_config::{Config, Paths};
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::server::StatsResult;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::SpliceFlags;
use rustix::process::{PidfdFlags, Resource, getrlimit, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::error::{ExitResult, Failure, plain};
use crate::host::{Address, HostClient};
use crate::output::{self, Tone, bytes, count, one_line, span};

/// Check this machine and the host, and say how to fix what is wrong
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  greenroom doctor\n  greenroom doctor --json")]
pub struct DoctorArgs {}

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

fn check(verdict: Verdict, detail: impl Into<String>, fix: Option<String>) -> Check {
    Check { name: "", verdict, detail: detail.into(), fix }
}

fn ok(detail: impl Into<String>) -> Check {
    check(Verdict::Ok, detail, None)
}

fn warn(detail: impl Into<String>, fix: impl Into<String>) -> Check {
    check(Verdict::Warn, detail, Some(fix.into()))
}

fn fail(detail: impl Into<String>, fix: impl Into<String>) -> Check {
    check(Verdict::Fail, detail, Some(fix.into()))
}

impl Check {
    fn named(self, name: &'static str) -> Check {
        Check { name, ..self }
    }
}

pub async fn run(_: DoctorArgs, context: &Context) -> ExitResult {
    let mut checks = Vec::new();
    match Paths::from_env() {
        Err(error) => {
            checks.push(fail(error.to_string(), "set GREENROOM_HOME").named("home"));
        }
        Ok(paths) => {
            checks.extend(host().await);
            checks.push(directories(&paths).named("directories"));
            checks.push(config(&paths).named("config"));
            checks.push(disk(&paths).named("disk"));
        }
    }
    checks.extend([
        pty().named("terminals"),
        splice().named("splice"),
        pidfd().named("pidfd"),
        holding().named("processes"),
        files().named("open files"),
        terminal().named("TERM"),
        locale().named("locale"),
        nesting().named("nesting"),
    ]);
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
    let stats = match stats().await {
        Err(check) => return vec![check.named("host")],
        Ok(stats) => stats,
    };
    let mut checks = vec![running(&stats).named("host")];
    // Where clients that are not this program find the host.
    let socket = Address::from_env().map(|at| ok(at.socket.display().to_string()).named("socket"));
    checks.extend(socket);
    checks.extend(clean_ups(&stats).map(|check| check.named("clean-up")));
    let fix = "put the file back if you have it; what was set aside lies beside its old place";
    checks.extend(stats.troubles.iter().map(|it| fail(it.as_str(), fix).named("state")));
    checks
}

async fn stats() -> Result<StatsResult, Check> {
    let address =
        Address::from_env().map_err(|failure| fail(failure.message, "set GREENROOM_HOME"))?;
    let failed = |failure: Failure| {
        let fix = failure.hint.unwrap_or_else(|| "look into greenroom logs".to_owned());
        fail(failure.message, fix)
    };
    let (socket, held) = (&address.socket, address.holder().is_some());
    if !held && !socket.exists() {
        let detail =
            format!("not running; it starts on first use and listens on {}", socket.display());
        return Err(ok(detail));
    }
    let host = if held {
        HostClient::reach(false).await.map_err(failed)?
    } else {
        Client::connect_now(socket).await.map(|client| HostClient { client }).map_err(|_| {
            let detail = format!("nobody listens on {}", socket.display());
            warn(detail, "it is cleaned up by the next start: greenroom ls")
        })?
    };
    host.stats().await.map_err(failed)
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
    let now = Timestamp::from_system(std::time::SystemTime::now());
    let wait = span(first.next_at.0.saturating_sub(now.0));
    Some(warn(detail, format!("remove the cause; the host tries again in {wait}")))
}

fn running(stats: &StatsResult) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    let detail = format!(
        "version {}, pid {}, up {}, {} running",
        stats.version,
        stats.daemon_pid,
        span(stats.keeper.uptime_ms),
        count(stats.sessions.running, "session")
    );
    if stats.version != ours {
        return warn(format!("{detail}; this program is {ours}"), "greenroom upgrade");
    }
    if stats.keeper.daemon_starts > stats.keeper.generation + 1 {
        return warn(format!("{detail}; restarted after a crash"), "look into greenroom logs");
    }
    ok(detail)
}

fn directories(paths: &Paths) -> Check {
    if let Err(error) = paths.prepare() {
        return fail(error.to_string(), "make it yours, or set GREENROOM_HOME to another place");
    }
    for dir in [paths.state(), paths.runtime()] {
        let mode = match std::fs::metadata(dir) {
            Ok(meta) => meta.mode() & 0o777,
            Err(error) => {
                return fail(
                    format!("{}: {}", dir.display(), plain(&error)),
                    "look at its parents",
                );
            }
        };
        if mode != 0o700 {
            return fail(
                format!("{} has mode {mode:o}", dir.display()),
                format!("chmod 700 {}", dir.display()),
            );
        }
    }
    ok(format!("{} and {}, for you alone", paths.state().display(), paths.runtime().display()))
}

fn config(paths: &Paths) -> Check {
    let file = paths.config_file();
    match Config::load(&file) {
        Ok(_) if file.exists() => ok(file.display().to_string()),
        Ok(_) => ok("defaults (no config.toml)"),
        Err(error) => fail(error.to_string(), format!("edit {}", error.file().display())),
    }
}

fn disk(paths: &Paths) -> Check {
    let fix = format!("make room on the disk of {}", paths.state().display());
    match rustix::fs::statvfs(paths.state()) {
        Err(errno) => warn(format!("cannot ask: {}", plain(&errno.into())), fix),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} free", bytes(free));
            match free {
                0..DISK_FAIL => fail(detail, fix),
                DISK_FAIL..DISK_WARN => warn(detail, fix),
                _ => ok(detail),
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
        Ok(_) => ok("can be opened"),
        Err(errno) => fail(plain(&errno.into()), "mount devpts, and look at /proc/sys/kernel/pty"),
    }
}

fn splice() -> Check {
    let tried = || -> rustix::io::Result<usize> {
        let (master, slave) = open_pty()?;
        let (_read, write) = rustix::pipe::pipe()?;
        File::from(slave.as_fd().try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE)?)
            .write_all(b"x")
            .map_err(|_| rustix::io::Errno::IO)?;
        rustix::pipe::splice(&master, None, &write, None, 1, SpliceFlags::NONBLOCK)
    };
    match tried() {
        Ok(1) => ok("terminal output reaches the recording without a copy"),
        Ok(count) => {
            warn(format!("moved {count} bytes of 1"), "the slower way is used; nothing to do")
        }
        Err(errno) => warn(plain(&errno.into()), "the slower way is used; nothing to do"),
    }
}

fn pidfd() -> Check {
    match pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => ok("processes can be watched without races"),
        Err(errno) => warn(plain(&errno.into()), "use Linux 5.3 or newer"),
    }
}

/// What holds a session's processes together; tried, not assumed.
fn holding() -> Check {
    let own = rustix::process::getpid();
    let before = rustix::process::child_subreaper();
    let tried = rustix::process::set_child_subreaper(Some(own));
    let _ = rustix::process::set_child_subreaper(before.ok().flatten());
    let lists = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    match (tried, lists) {
        (Ok(()), Ok(_)) => ok(
            "everything a session starts stays below a warden of its own (a subreaper; no cgroup is used)",
        ),
        (Ok(()), Err(_)) => warn(
            "the kernel has no lists of children: sessions' processes are searched for, which is slow",
            "use a kernel with CONFIG_PROC_CHILDREN",
        ),
        (Err(errno), _) => fail(
            format!("no process can hold what others start: {}", plain(&errno.into())),
            "use Linux 3.4 or newer",
        ),
    }
}

fn files() -> Check {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let room = limit.saturating_sub(FDS_OTHER) / FDS_PER_SESSION;
    let room_for = count(room.min(100_000), "session");
    let detail = format!("limit {limit}: room for about {room_for}");
    if room < SESSIONS_WANTED {
        return warn(
            detail,
            "raise the hard limit: ulimit -Hn 65536, or in /etc/security/limits.conf",
        );
    }
    ok(detail)
}

fn terminal() -> Check {
    if !std::io::stdout().is_terminal() {
        return ok("no terminal here; attach needs one");
    }
    match std::env::var("TERM") {
        Ok(term) if !term.is_empty() && term != "dumb" => ok(term),
        _ => warn("not set, or dumb", "export TERM=xterm-256color"),
    }
}

fn locale() -> Check {
    match output::locale() {
        Some(value) if output::is_utf8(Some(&value)) => ok(value),
        other => {
            let value = other.unwrap_or_else(|| "not set".to_owned());
            warn(format!("{value}: programs may not write UTF-8"), "export LANG=C.UTF-8")
        }
    }
}

fn nesting() -> Check {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("TMUX") || set("STY") {
        let fix = "press the prefix twice, or choose another with attach.prefix in config.toml";
        return warn("inside tmux or screen: both may want the same prefix key", fix);
    }
    if set("GREENROOM_SESSION") {
        return warn("inside a session: attaching here nests", "detach first");
    }
    ok("not inside tmux, screen or a session")
}
