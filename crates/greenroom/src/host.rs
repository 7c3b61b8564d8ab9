//! The way to the host: connect, and start it if nobody listens.
//!
//! In: the environment and `--no-start`. Out: a [`Host`] to call, or a failure that says what to do.
//! Two starters at once are fine: one keeper gets the lock, the other starter connects to it.
//! Absent on purpose: what the host does.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use greenroom_client::{Client, ClientError};
use greenroom_daemon::Paths;
use greenroom_protocol::api::server::ShutdownParams;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Failure, plain};

/// How long a host may take to come up: a cold disk and a long recovery included.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// A starter that lost the race looks again this often.
const RACE_PAUSE: Duration = Duration::from_millis(20);
/// Longest text on the ready pipe: the keeper sends at most 4 KiB of a failed daemon's last words.
const READY_MAX: u64 = 16 * 1024;
/// Names the socket of a host that was started with `serve --socket`.
pub const SOCKET_VARIABLE: &str = "GREENROOM_SOCKET";

/// The host, connected.
#[derive(Clone, Debug)]
pub struct Host {
    pub client: Client,
}

/// Where the host listens and whether we may start it.
#[derive(Clone, Debug)]
pub struct Address {
    pub socket: PathBuf,
    /// A socket somebody named is somebody's to serve.
    named: bool,
}

impl Address {
    /// As the environment says.
    pub fn from_env() -> Result<Address, Failure> {
        if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|value| !value.is_empty()) {
            return Ok(Address { socket: socket.into(), named: true });
        }
        Ok(Address { socket: paths()?.socket(), named: false })
    }
}

/// Where everything lies.
pub fn paths() -> Result<Paths, Failure> {
    Paths::from_env().map_err(|error| {
        Failure::failed(error.to_string())
            .hint("set GREENROOM_HOME to a short path of a directory of yours")
    })
}

impl Host {
    /// Connects, starting the host if nobody listens and `may_start`.
    pub async fn reach(may_start: bool) -> Result<Host, Failure> {
        let address = Address::from_env()?;
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let error = match Client::connect_now(&address.socket).await {
                Ok(client) => return Ok(Host { client }),
                Err(error) => error,
            };
            if address.named || !may_start || !is_absent(&error) {
                return Err(unreachable(error, may_start, &address));
            }
            match start_in_background() {
                Ok(()) => {}
                Err(Start::Raced) if Instant::now() < deadline => {
                    tokio::time::sleep(RACE_PAUSE).await
                }
                Err(Start::Raced) => {
                    let message =
                        "cannot start the host: another one is going down and does not end";
                    return Err(Failure::unavailable(message).hint("look with greenroom doctor"));
                }
                Err(Start::Failed(failure)) => return Err(failure),
            }
        }
    }

    /// The host if one runs; never started.
    pub async fn if_running() -> Result<Option<Host>, Failure> {
        let address = Address::from_env()?;
        match Client::connect_now(&address.socket).await {
            Ok(client) => Ok(Some(Host { client })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(called("reach the host", error)),
        }
    }

    /// Connects to a host at this socket; never starts one.
    pub async fn at(socket: &Path) -> Result<Host, Failure> {
        let client =
            Client::connect(socket).await.map_err(|error| called("reach the host", error))?;
        Ok(Host { client })
    }

    /// Calls a method; `attempt` ("send to s3") names it in a failure.
    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
        attempt: &str,
    ) -> Result<R, Failure> {
        self.client.call(method, params).await.map_err(|error| called(attempt, error))
    }
}

/// A client's error as the user hears of it.
pub fn called(attempt: &str, error: ClientError) -> Failure {
    let hint = error.hint();
    match error {
        ClientError::Fault(fault) => Failure::refused(attempt, fault),
        ClientError::Unreachable { path, source } => {
            let kind = ClientError::Unreachable {
                path: path.clone(),
                source: std::io::Error::from(source.kind()),
            }
            .kind();
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
        error => {
            Failure { hint, ..Failure::new(error.kind(), format!("cannot {attempt}: {error}")) }
        }
    }
}

fn is_absent(error: &ClientError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, ClientError::Unreachable { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused))
}

fn unreachable(error: ClientError, may_start: bool, address: &Address) -> Failure {
    if !is_absent(&error) {
        return called("reach the host", error);
    }
    let message = format!("cannot reach the host: nobody listens on {}", address.socket.display());
    let hint = match (address.named, may_start) {
        (true, _) => format!(
            "{SOCKET_VARIABLE} names this socket; start a host there with greenroom serve --socket"
        ),
        (false, _) => "leave --no-start out, or start it with greenroom serve".to_owned(),
    };
    Failure::unavailable(message).hint(hint)
}

/// Why a start did not lead to a host of ours.
enum Start {
    /// Another keeper is there, or still there.
    Raced,
    Failed(Failure),
}

fn start_in_background() -> Result<(), Start> {
    let paths = paths().map_err(Start::Failed)?;
    paths.prepare().map_err(|error| {
        let failure = Failure::failed(format!("cannot start the host: {error}"));
        Start::Failed(failure.hint("set GREENROOM_HOME to a directory you can write to"))
    })?;
    let mut keeper = Keeper::command(None, &[]);
    keeper.command.stdout(Stdio::null()).stderr(Stdio::null());
    let (child, ready) = keeper.start().map_err(Start::Failed)?;
    let said = ready.wait();
    // It goes on without us, and the kernel's table must not keep a zombie meanwhile: we end soon.
    drop(child);
    match said {
        Ok(()) => Ok(()),
        Err(text) if text.contains("already") => Err(Start::Raced),
        Err(text) => {
            let log = paths.daemon_err();
            let reason = reason(&text);
            let failure = Failure::unavailable(format!("cannot start the host: {reason}"));
            Err(Start::Failed(failure.hint(format!(
                "look into {} and {}",
                log.display(),
                paths.keeper_log().display()
            ))))
        }
    }
}

/// What the daemon said when it ended says more than that it ended.
fn reason(text: &str) -> &str {
    match text.trim_end().split_once('\n') {
        Some((_, said)) if !said.trim().is_empty() => said.trim(),
        _ => text.trim_end(),
    }
}

/// A keeper about to be started.
pub struct Keeper {
    pub command: Command,
}

/// The other end of a keeper's ready pipe.
pub struct Ready {
    pipe: std::fs::File,
}

impl Keeper {
    /// This program as a keeper. Its stdin will be the ready pipe: the only descriptor that can be
    /// handed to a child without unsafe code and is of no use to it.
    ///
    /// `home` is where everything of that host lies, if not where the environment says.
    pub fn command(home: Option<&Path>, args: &[OsString]) -> Keeper {
        let mut command = Command::new(program());
        command.arg0("greenroom").arg("keeper").arg("--ready").args(args).current_dir("/");
        // A relative home is relative to here, not to the keeper's directory.
        let own = || {
            std::env::var_os("GREENROOM_HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
        };
        if let Some(home) = home.map(Path::to_owned).or_else(own)
            && let Ok(home) = std::path::absolute(home)
        {
            command.env("GREENROOM_HOME", home);
        }
        Keeper { command }
    }

    /// Starts it.
    pub fn start(mut self) -> Result<(Child, Ready), Failure> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| {
            Failure::io("cannot start the host: cannot make a pipe", &error.into())
        })?;
        let spawned = self.command.stdin(Stdio::from(write)).spawn();
        let child = spawned.map_err(|error| Failure::io("cannot start the host", &error))?;
        Ok((child, Ready { pipe: read.into() }))
    }
}

impl Ready {
    /// Waits until the host is up, or for the reason why it will not be.
    pub fn wait(self) -> Result<(), String> {
        let limit = Timespec::try_from(START_PATIENCE).unwrap_or_default();
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        if let Ok(0) = poll(&mut fds, Some(&limit)) {
            return Err(format!("it is not up after {} s", START_PATIENCE.as_secs()));
        }
        let mut text = String::new();
        // Written at once and closed: reading to the end does not wait for long.
        let read = self.pipe.take(READY_MAX).read_to_string(&mut text);
        match read {
            Ok(_) if text.starts_with("ok") => Ok(()),
            Ok(0) => Err("it ended without a word".to_owned()),
            Ok(_) => Err(text),
            Err(error) => Err(plain(&error)),
        }
    }
}

/// A host of our own, in a directory that goes with it: for the demo and for `serve --stdio`.
///
/// It ends with [`PrivateHost::stop`], or at the latest when this value is dropped.
#[derive(Debug)]
pub struct PrivateHost {
    pub host: Host,
    pub home: tempfile::TempDir,
    keeper: Child,
}

impl PrivateHost {
    /// Starts it; its configuration is the user's.
    pub async fn start() -> Result<PrivateHost, Failure> {
        let refuse = |error: std::io::Error| {
            Failure::io("cannot make a directory for a private host", &error)
        };
        // A short name in a short place: the path of a socket may have 107 bytes.
        let home = tempfile::Builder::new().prefix("greenroom-").tempdir().map_err(refuse)?;
        let config = paths().ok().map(|paths| paths.config_file()).filter(|file| file.is_file());
        if let Some(config) = config {
            std::fs::copy(config, home.path().join("config.toml")).map_err(refuse)?;
        }
        let mut command = Keeper::command(Some(home.path()), &[]);
        command.command.stdout(Stdio::null()).stderr(Stdio::null());
        let (keeper, ready) = command.start()?;
        let mut guard = Stopped(Some(keeper));
        ready.wait().map_err(|text| {
            Failure::unavailable(format!("cannot start a private host: {}", text.trim_end()))
        })?;
        let host = Host::at(&Paths::below(home.path()).socket()).await?;
        let keeper = guard.0.take().expect("nobody else has taken it");
        Ok(PrivateHost { host, home, keeper })
    }

    /// Ends its sessions and the host, and waits for both.
    pub async fn stop(mut self) -> Result<(), Failure> {
        let params = ShutdownParams { if_idle: false, grace_ms: Some(PRIVATE_GRACE_MS) };
        let stopped = crate::commands::stop(&self.host, &params).await;
        if stopped.is_ok() {
            // It listens no more and has nothing left to do but to exit.
            let _ = self.keeper.wait();
        }
        stopped.map(drop)
    }
}

impl Drop for PrivateHost {
    fn drop(&mut self) {
        end(&mut self.keeper);
    }
}

/// A keeper that must not outlive a failed start.
struct Stopped(Option<Child>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(keeper) = &mut self.0 {
            end(keeper);
        }
    }
}

/// Asks a keeper of ours to end everything and waits for it; nothing if it has ended.
fn end(keeper: &mut Child) {
    if let Ok(None) = keeper.try_wait() {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(keeper),
            rustix::process::Signal::TERM,
        );
        let _ = keeper.wait();
    }
}

/// Sessions of a private host end with it; whoever needs longer has been told by EOF already.
const PRIVATE_GRACE_MS: u64 = 1000;

/// This program. Its own path if it is still there: a replaced file leaves `/proc/self/exe` only.
pub fn program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}
