//! Nobody answers: is the daemon busy, stopped, or does it not come up?
//!
//! In: a connection on which something is waited for. Out: nothing while the host is well; else why
//! it will not answer. It is asked for its name now and then, on the same connection; if it does
//! not even say that, its process is looked at. In between, and where nothing can be asked, only a
//! stopped process is looked for: that wakes nobody. A daemon that has just started reads its
//! sessions first and is waited for. Absent on purpose: what the daemon wrote before it died;
//! whoever knows the files may add it.

use std::time::Duration;

use greenroom_protocol::api::Empty;
use greenroom_protocol::methods::{Method as _, method};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::connect::keeper_of;
use crate::connection::{CallFailure, Connection};
use crate::error::ClientError;

/// Longer than nearly every call takes.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// A call that takes this long and more is looked after ever more rarely.
const LAST_LOOK: Duration = Duration::from_secs(300);
/// How often a silent host's process is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A host that runs and says nothing for this long never will. A machine may be very busy.
const SILENCE: Duration = Duration::from_secs(30);
/// A host that comes up with many sessions may take this long.
const COMING_UP: Duration = Duration::from_secs(90);
/// Looks that must find no daemon in a row. A keeper starts the next at once, unless the last ones
/// died young.
const NOBODY: u32 = 2;

/// Ends only if the host will not answer.
pub(crate) async fn watch(connection: &Connection, method: &str) -> ClientError {
    let mut pause = FIRST_LOOK;
    let mut stopped = Stopped::new(connection.keeper());
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            error = stopped.seen() => return error,
        }
        let asked = connection.call(method::ServerHello::NAME, &Empty {});
        let looked = look_until_sure(connection.keeper(), method);
        tokio::select! {
            answer = asked => match answer {
                // The connection is gone; the call itself learns that.
                Err(CallFailure::Lost { .. }) => return std::future::pending().await,
                Ok(_) | Err(CallFailure::Failed(_)) => {}
            },
            error = looked => return error,
        }
        pause = (pause * 3).min(LAST_LOOK);
    }
}

async fn look_until_sure(keeper: Option<i32>, method: &str) -> ClientError {
    let began = Instant::now();
    let mut nobody = 0;
    loop {
        let found = keeper.map_or(Found::Unknown, look);
        match found {
            Found::Stopped { process, pid } => return ClientError::Stopped { process, pid },
            Found::Nobody => nobody += 1,
            Found::Young | Found::Grown | Found::Unknown => {}
        }
        if nobody >= NOBODY {
            return ClientError::KeepsDying;
        }
        let patience = if found == Found::Young { COMING_UP } else { SILENCE };
        let after = began.elapsed();
        if after >= patience {
            return ClientError::NoAnswer { method: method.to_owned(), after };
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Looks for a stopped daemon, for whoever listens without having asked.
#[derive(Debug)]
pub(crate) struct Stopped {
    keeper: Option<i32>,
    look_at: Instant,
    /// It was stopped at the last look. Once may be a debugger's doing.
    before: bool,
}

impl Stopped {
    pub(crate) fn new(keeper: Option<i32>) -> Stopped {
        Stopped { keeper, look_at: Instant::now() + FIRST_LOOK, before: false }
    }

    /// The daemon at the other end.
    pub(crate) fn of(stream: &UnixStream) -> Stopped {
        Stopped::new(keeper_of(stream))
    }

    /// Ends only if the daemon is stopped. Cancel-safe: whoever asks again and again learns it as
    /// soon.
    pub(crate) async fn seen(&mut self) -> ClientError {
        loop {
            sleep_until(self.look_at).await;
            self.look_at = Instant::now() + FIRST_LOOK;
            let found = self.keeper.map_or(Found::Unknown, look);
            match found {
                Found::Stopped { process, pid } if self.before => {
                    return ClientError::Stopped { process, pid };
                }
                found => self.before = matches!(found, Found::Stopped { .. }),
            }
        }
    }
}

/// The daemon as its process shows it.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Or the keeper, while there is no daemon.
    Stopped {
        process: &'static str,
        pid: i32,
    },
    /// Started a moment ago.
    Young,
    Grown,
    /// The keeper has none.
    Nobody,
    /// Nothing can be seen.
    Unknown,
}

fn look(keeper: i32) -> Found {
    let path = format!("/proc/{keeper}/task/{keeper}/children");
    let Ok(children) = std::fs::read_to_string(path) else { return Found::Unknown };
    let pids = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
    let daemon = pids.filter(|pid| is_daemon(*pid)).find_map(|pid| state("daemon", pid));
    match daemon {
        None | Some(Found::Nobody) => match state("keeper", keeper) {
            Some(stopped @ Found::Stopped { .. }) => stopped,
            _ => Found::Nobody,
        },
        Some(found) => found,
    }
}

fn is_daemon(pid: i32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0 || *byte == b' ').any(|word| word == b"daemon")
}

fn state(process: &'static str, pid: i32) -> Option<Found> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let began: u64 = fields.get(19)?.parse().ok()?;
    let up = std::fs::read_to_string("/proc/uptime").ok()?;
    let up: f64 = up.split_ascii_whitespace().next()?.parse().ok()?;
    let ticks = rustix::param::clock_ticks_per_second();
    let age = Duration::from_secs((up as u64).saturating_sub(began / ticks.max(1)));
    Some(match *fields.first()? {
        "T" | "t" => Found::Stopped { process, pid },
        "Z" | "X" => Found::Nobody,
        _ if age < COMING_UP => Found::Young,
        _ => Found::Grown,
    })
}

/// A wait for an answer that ends early if none can come.
pub(crate) async fn unless_silent<T>(
    connection: &Connection,
    method: &str,
    work: impl Future<Output = T>,
) -> Result<T, ClientError> {
    tokio::select! {
        done = work => Ok(done),
        error = watch(connection, method) => Err(error),
    }
}
