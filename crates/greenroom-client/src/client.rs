//! Calls that survive a restart of the daemon.
//!
//! A call whose answer is lost with the connection is sent again if the method table says that
//! this is safe, or if it was never written; otherwise the caller learns that its effect is
//! unknown. Waits go on with the time they have left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use greenroom_protocol::api::server::SetNotifications;
use greenroom_protocol::api::session::{ListParams, Listed, SessionInfo, WaitParams, WaitResult};
use greenroom_protocol::methods::{Method, MethodId, MethodRow, Repeat, Scope, method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use crate::connect::{self, Losses, PATIENCE, Retry};
use crate::connection::{CallFailure, Connection};
use crate::error::ClientError;
use crate::notifications::{KEPT, Notifications, Push};
use crate::silence::{Stopped, unless_silent, watch};
use crate::wire::WireError;

/// How long an ordinary call may take: far beyond any real one, so that nobody hangs for ever.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// What a wait gets on top of its own time, for the way and a restart in between.
const WAIT_SLACK: Duration = Duration::from_secs(30);

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Connect again when the daemon restarts.
    pub reconnect: bool,
    /// How long to try to connect.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { reconnect: true, patience: PATIENCE }
    }
}

/// A cheap handle to the host: clones share one connection, and calls on it run side by side.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    options: Options,
    /// An async lock on purpose: while one caller connects, the others wait for it.
    current: tokio::sync::Mutex<Option<Arc<Connection>>>,
    pushes: broadcast::Sender<Push>,
    /// Asked again after a restart.
    wanted_pushes: Mutex<Option<SetNotifications>>,
}

impl Client {
    /// Connects, retrying up to [`PATIENCE`] while the socket refuses or its backlog is full. A
    /// missing socket is an error at once.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Client, ClientError> {
        Client::connect_with(path, Options::default()).await
    }

    /// Connects if somebody listens right now, without retries, so that the caller can start the
    /// host. The client made comes back after restarts like any other.
    pub async fn connect_now(path: impl AsRef<Path>) -> Result<Client, ClientError> {
        let path = path.as_ref();
        let stream = connect::open(path, PATIENCE, Retry::Now).await?;
        Ok(Client::from_stream(path, Options::default(), stream))
    }

    /// Connects with other options.
    pub async fn connect_with(
        path: impl AsRef<Path>,
        options: Options,
    ) -> Result<Client, ClientError> {
        let stream = connect::open(path.as_ref(), options.patience, Retry::Listening).await?;
        Ok(Client::from_stream(path.as_ref(), options, stream))
    }

    fn from_stream(path: &Path, options: Options, stream: tokio::net::UnixStream) -> Client {
        let (pushes, _) = broadcast::channel(KEPT);
        let connection = Arc::new(Connection::new(stream, pushes.clone()));
        let shared = Shared {
            path: path.to_owned(),
            options,
            current: tokio::sync::Mutex::new(Some(connection)),
            pushes,
            wanted_pushes: Mutex::new(None),
        };
        Client { shared: Arc::new(shared) }
    }

    /// The path of the host's socket.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// How this client behaves.
    pub fn options(&self) -> Options {
        self.shared.options
    }

    /// Everything the host pushes from now on.
    pub fn notifications(&self) -> Notifications {
        Notifications::new(self.shared.pushes.subscribe(), self.clone())
    }

    /// Calls a method. Dropping the future cancels the call. Waits are better made with
    /// [`Client::wait`].
    pub async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Result, ClientError> {
        self.call_within(M::row(), ANSWER_LIMIT, &|_| params).await
    }

    /// Calls a method whose types are not known here: for views of the whole table.
    pub async fn call_untyped(
        &self,
        method: MethodId,
        params: &Value,
    ) -> Result<Value, ClientError> {
        // A caller that says how long the host may wait waits that long itself.
        let asked = Duration::from_millis(params["timeout_ms"].as_u64().unwrap_or(0));
        self.call_within(method.row(), ANSWER_LIMIT.saturating_add(asked), &|_| params).await
    }

    /// Every session, described.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        let params = ListParams { detail: true, ..ListParams::default() };
        let listed = self.call::<method::SessionList>(&params).await?;
        let info = |entry| match entry {
            Listed::Info(info) => Some(*info),
            Listed::Id(_) => None,
        };
        Ok(listed.sessions.into_iter().filter_map(info).collect())
    }

    /// `session.wait`; after a restart it goes on with the time that is left.
    pub async fn wait(&self, params: &WaitParams) -> Result<WaitResult, ClientError> {
        let total = Duration::from_millis(params.timeout_ms);
        let limit = total.saturating_add(WAIT_SLACK);
        let start = Instant::now();
        let left = |elapsed: Duration| {
            let left = total.saturating_sub(elapsed).as_millis();
            WaitParams { timeout_ms: u64::try_from(left).unwrap_or(u64::MAX), ..params.clone() }
        };
        let row = method::SessionWait::row();
        let mut result: WaitResult = self.call_within(row, limit, &left).await?;
        let elapsed = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The host knows only the last of several tries.
        if result.elapsed_ms + 1000 < elapsed {
            result.elapsed_ms = elapsed;
        }
        Ok(result)
    }

    /// `server.set_notifications`, remembered across restarts.
    pub async fn set_notifications(
        &self,
        params: &SetNotifications,
    ) -> Result<SetNotifications, ClientError> {
        let set = self.call::<method::ServerSetNotifications>(params).await?;
        let wanted = params.enabled.then(|| params.clone());
        *self.shared.wanted_pushes.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
        Ok(set)
    }

    /// Calls until there is an answer or time is up. The params are made for each try, from the
    /// time that has passed.
    async fn call_within<P: Serialize, R: DeserializeOwned>(
        &self,
        row: &MethodRow,
        limit: Duration,
        params: &(dyn Fn(Duration) -> P + Sync),
    ) -> Result<R, ClientError> {
        let method = row.name;
        let start = Instant::now();
        let answered = async {
            let mut losses = Losses::default();
            loop {
                let connection = self.connection().await?;
                losses.begin();
                let params = params(start.elapsed());
                let call = connection.call(method, &params);
                let written = match unless_silent(&connection, method, call).await? {
                    Ok(raw) => return Ok(raw),
                    Err(CallFailure::Failed(error)) => return Err(error),
                    Err(CallFailure::Lost { written }) => written,
                };
                if !self.shared.options.reconnect || (written && row.repeat == Repeat::Once) {
                    return Err(ClientError::EffectUnknown { method: method.to_owned() });
                }
                losses.lost(method).await?;
            }
        };
        let late = || ClientError::NoAnswer { method: method.to_owned(), after: limit };
        let raw = timeout(limit, answered).await.unwrap_or_else(|_| Err(late()));
        let raw =
            raw.map_err(|error| if row.scope == Scope::Read { error } else { error.or_late() });
        serde_json::from_str(raw?.get())
            .map_err(|source| ClientError::Answer { method: method.to_owned(), source })
    }

    /// Ends only if the host will not answer, for whoever speaks to it in other ways.
    pub async fn silence(&self) -> ClientError {
        match self.connection().await {
            Ok(connection) => watch(&connection, method::ServerHello::NAME).await,
            Err(error) => error,
        }
    }

    /// Ends only if the daemon is stopped, also when it answers nobody any more because it is about
    /// to end.
    pub async fn stopped(&self) -> ClientError {
        let keeper = self.shared.current.lock().await.as_ref().and_then(|now| now.keeper());
        Stopped::new(keeper).seen().await
    }

    /// A wait on another wire that ends early if this host can answer nobody.
    pub(crate) async fn unless_silent<T>(
        &self,
        method: &'static str,
        work: impl Future<Output = Result<T, WireError>>,
    ) -> Result<T, WireError> {
        let connection = self.connection().await.map_err(WireError::Failed)?;
        unless_silent(&connection, method, work).await.map_err(WireError::Failed)?
    }

    /// The live connection, made anew if the last one died.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        let mut current = self.shared.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| !connection.is_dead()) {
            return Ok(Arc::clone(connection));
        }
        if !self.shared.options.reconnect {
            let (path, source) = (self.shared.path.clone(), io::ErrorKind::NotConnected.into());
            return Err(ClientError::Unreachable { path, source });
        }
        let stream =
            connect::open(&self.shared.path, self.shared.options.patience, Retry::Returning)
                .await?;
        let connection = Arc::new(Connection::new(stream, self.shared.pushes.clone()));
        let wanted =
            self.shared.wanted_pushes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wanted) = wanted {
            // If this connection dies too, the next one asks again.
            let _ = timeout(
                ANSWER_LIMIT,
                connection.call(method::ServerSetNotifications::NAME, &wanted),
            )
            .await;
        }
        *current = Some(Arc::clone(&connection));
        let _ = self.shared.pushes.send(Push::Reconnected);
        Ok(connection)
    }
}
