//! The way to the host: connect, and start it if nobody listens.
//!
//! In: the environment and `--no-start`. Out: a [`HostClient`] to call, or a failure that says what
//! to do. Two starters at once are fine: one keeper gets the directory, the other starter connects
//! to it. A directory that is held is never given a second host: its keeper is asked to make a
//! vanished socket again, and after a while it is said who holds it. Absent on purpose: what the
//! host does.

pub mod keeper;
mod private;
mod socket_link;

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use greenroom_client::{Client, ClientError, Method, method};
use greenroom_config::{Config, Paths, PathsError};
use greenroom_keeper::claim::keeper_of;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::server::StatsResult;
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Failure, plain};
pub use keeper::{OwnedKeeper, Said, program};
pub use private::PrivateHost;
pub use socket_link::SocketLink;

/// How long a keeper that holds the directory may take to listen again, or to end.
const HELD_PATIENCE: Duration = Duration::from_secs(10);
/// A starter looks for the socket again after this pause, which doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How much of a daemon's last line is told.
const LAST_WORDS: usize = 400;
/// Names the socket of a host that was started with `serve --socket`.
pub const SOCKET_VARIABLE: &str = "GREENROOM_SOCKET";

/// The host, connected.
#[derive(Clone, Debug)]
pub struct HostClient {
    pub client: Client,
}

/// Where the host listens and whether we may start it.
#[derive(Clone, Debug)]
pub struct Address {
    pub socket: PathBuf,
    /// Where everything else of it lies. Nothing is known of a socket somebody named, and it is
    /// somebody's to serve.
    paths: Option<Paths>,
}

impl Address {
    /// As the environment says.
    pub fn from_env() -> Result<Address, Failure> {
        if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty()) {
            return Ok(Address { socket: socket.into(), paths: None });
        }
        let paths = paths()?;
        Ok(Address { socket: paths.socket(), paths: Some(paths) })
    }

    /// Connects if somebody listens right now.
    async fn connect(&self) -> Result<Client, ClientError> {
        let error = match Client::connect_now(&self.socket).await {
            Ok(client) => {
                self.lead();
                return Ok(client);
            }
            Err(error) => error,
        };
        // A host of an earlier version listens in the login's directory only.
        let elder = self.paths.as_ref().and_then(Paths::alias).filter(|path| {
            std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
        });
        match elder {
            Some(elder) if is_absent(&error) => Client::connect_now(elder).await.or(Err(error)),
            _ => Err(error),
        }
    }

    /// A login that began after the host has its second way to it from now on.
    fn lead(&self) {
        if let Some(alias) = self.paths.as_ref().and_then(Paths::alias) {
            // Without the alias only programs that know no other path miss the host.
            let _ = greenroom_keeper::make_alias(&alias, &self.socket);
        }
    }

    /// The keeper that has the directory, whether it listens or not.
    pub fn holder(&self) -> Option<i32> {
        keeper_of(self.paths.as_ref()?.state())
    }
}

/// Where everything lies.
pub fn paths() -> Result<Paths, Failure> {
    Paths::from_env().map_err(|error| {
        let hint = match &error {
            PathsError::RelativeHome { .. } => "set HOME to the whole path of your home".to_owned(),
            PathsError::Relative { path } => {
                format!("give the whole path: GREENROOM_HOME=\"$PWD/{}\"", path.display())
            }
            PathsError::Writable { path, .. } => format!("chmod go-w {}", path.display()),
            PathsError::Foreign { owner, .. } => format!(
                "run greenroom as the user it belongs to (sudo -u '#{owner}' -i), or set HOME or GREENROOM_HOME to a directory of yours"
            ),
            _ => "set GREENROOM_HOME to a directory of yours".to_owned(),
        };
        Failure::failed(error.to_string()).hint(hint)
    })
}

/// The settings, as the host would read them now.
pub fn config() -> Result<Config, Failure> {
    Config::load(&paths()?.config_file()).map_err(|error| {
        Failure::failed(error.to_string()).hint(format!("edit {}", error.file().display()))
    })
}

impl HostClient {
    /// Connects, starting the host if nobody listens and `may_start`.
    pub async fn reach(may_start: bool) -> Result<HostClient, Failure> {
        let address = Address::from_env()?;
        let mut wait = Wait::default();
        loop {
            let error = match address.connect().await {
                Ok(client) => return Ok(HostClient { client }),
                Err(error) => error,
            };
            if !is_absent(&error) {
                return Err(called("reach the host", error));
            }
            if let Some(pid) = address.holder() {
                // Harmless to whoever does not wait for it.
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::URG));
                wait.again(Some(pid), &address).await?;
                continue;
            }
            let Some(paths) = address.paths.as_ref().filter(|_| may_start) else {
                return Err(nobody(&address));
            };
            match start_in_background(paths).await? {
                Started::Up => {}
                Started::Raced(pid) => wait.again(pid, &address).await?,
            }
        }
    }

    /// The host if one runs; never started.
    pub async fn if_running() -> Result<Option<HostClient>, Failure> {
        let address = Address::from_env()?;
        match Client::connect_now(&address.socket).await {
            Ok(client) => Ok(Some(HostClient { client })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(called("reach the host", error)),
        }
    }

    /// Connects to a host at this socket; never starts one.
    pub async fn at(socket: &Path) -> Result<HostClient, Failure> {
        let client =
            Client::connect(socket).await.map_err(|error| called("reach the host", error))?;
        Ok(HostClient { client })
    }

    /// What the host says of itself.
    pub async fn stats(&self) -> Result<StatsResult, Failure> {
        self.call::<method::ServerStats>(&Empty {}, "ask the host").await
    }

    /// Calls a method; `attempt` ("send to s3") names it in a failure.
    pub async fn call<M: Method>(
        &self,
        params: &M::Params,
        attempt: &str,
    ) -> Result<M::Result, Failure> {
        self.client.call::<M>(params).await.map_err(|error| called(attempt, error))
    }
}

/// A client's error as the user hears of it.
pub fn called(attempt: &str, error: ClientError) -> Failure {
    let (kind, hint) = (error.kind(), error.hint());
    match error {
        ClientError::Fault(fault) => Failure::refused(attempt, fault),
        ClientError::Late { why } => {
            let failure = called(attempt, *why);
            Failure {
                message: format!("{}; what was asked may still happen", failure.message),
                ..failure
            }
        }
        ClientError::KeepsDying => {
            let why = last_words().map(|words| format!(": {words}")).unwrap_or_default();
            let message = format!("cannot {attempt}: {error}{why}");
            Failure { hint, ..Failure::unavailable(message) }
        }
        ClientError::Unreachable { path, source } => {
            let message = format!(
                "cannot {attempt}: the host at {} does not answer: {}",
                path.display(),
                plain(&source)
            );
            // Inside a session that may not: its fence refuses the socket.
            let inside = std::env::var_os("GREENROOM_SESSION").is_some();
            let hint = match source.kind() {
                std::io::ErrorKind::PermissionDenied if inside => Some(
                    "a session in a sandbox cannot reach the host; ask from a terminal outside of it"
                        .to_owned(),
                ),
                _ => hint,
            };
            Failure { hint, ..Failure::new(kind, message) }
        }
        error => Failure { hint, ..Failure::new(kind, format!("cannot {attempt}: {error}")) },
    }
}

/// What the daemon said last, before it had a log.
fn last_words() -> Option<String> {
    let text = std::fs::read(paths().ok()?.daemon_err()).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // It may quote a file that anybody wrote.
    Some(line.chars().filter(|c| !c.is_control()).take(LAST_WORDS).collect())
}

fn is_absent(error: &ClientError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, ClientError::Unreachable { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused))
}

fn nobody(address: &Address) -> Failure {
    let message = format!("cannot reach the host: nobody listens on {}", address.socket.display());
    let hint = match &address.paths {
        None => format!(
            "{SOCKET_VARIABLE} names this socket; start a host there with greenroom serve --socket"
        ),
        Some(_) => "leave --no-start out, or start it with greenroom serve".to_owned(),
    };
    Failure::unavailable(message).hint(hint)
}

/// Waiting for a keeper that has the directory and does not listen, or does no longer.
#[derive(Default)]
struct Wait {
    since: Option<Instant>,
    pause: Duration,
}

impl Wait {
    async fn again(&mut self, pid: Option<i32>, address: &Address) -> Result<(), Failure> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= HELD_PATIENCE {
            return Err(held(pid, address));
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        tokio::time::sleep(self.pause).await;
        Ok(())
    }
}

fn held(pid: Option<i32>, address: &Address) -> Failure {
    let state = address.paths.as_ref().map(|paths| paths.state().display().to_string());
    let state = state.unwrap_or_default();
    let who =
        pid.map_or_else(|| "another host".to_owned(), |pid| format!("its keeper (pid {pid})"));
    let message = format!(
        "cannot reach the host: {who} holds {state}, but nobody listens on {}",
        address.socket.display()
    );
    let hint = match pid {
        Some(pid) => format!(
            "it may be ending, or stopped: look with ps -fp {pid}; kill -CONT {pid} lets it go on"
        ),
        None => "look with greenroom doctor".to_owned(),
    };
    Failure::unavailable(message).hint(hint)
}

/// The result of starting a keeper.
enum Started {
    Up,
    /// Another keeper is there, or still there.
    Raced(Option<i32>),
}

async fn start_in_background(paths: &Paths) -> Result<Started, Failure> {
    paths.prepare().map_err(|error| {
        Failure::failed(format!("cannot start the host: {error}"))
            .hint("set GREENROOM_HOME to a directory you can write to")
    })?;
    let mut command = keeper::command(None);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (child, said) = keeper::start(command)?;
    let said = said.await;
    // It goes on without us, and the kernel's table must not keep a zombie meanwhile: we end soon.
    drop(child);
    match said {
        Said::Up => Ok(Started::Up),
        Said::Held { pid, .. } => Ok(Started::Raced(pid)),
        Said::Failed(why) => {
            let (err, log) = (paths.daemon_err(), paths.keeper_log());
            let why = reason(&why);
            Err(Failure::unavailable(format!("cannot start the host: {why}")).hint(format!(
                "look into {} and {}",
                err.display(),
                log.display()
            )))
        }
    }
}

/// The daemon's last words if there are any, else the keeper's sentence that it ended.
fn reason(text: &str) -> &str {
    match text.trim_end().split_once('\n') {
        Some((_, said)) if !said.trim().is_empty() => said.trim(),
        _ => text.trim_end(),
    }
}
