//! `server.*` except the event log: greeting, numbers, and the end.

mod reload;

pub(crate) use reload::reload as reload_settings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_engine::SessionInfo;
use greenroom_keeper as keeper;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::server::{
    CapabilitiesResult, HelloParams, HelloResult, KeeperStats, LastExit, ProcessStats,
    ReloadResult, SchemaParams, SessionCounts, ShutdownParams, ShutdownResult, StatsResult,
    UpgradeParams, UpgradeResult, WebParams, WebResult,
};
use greenroom_protocol::events;
use greenroom_protocol::methods::{self, METHODS};
use greenroom_protocol::{Fault, FaultKind, PROTOCOL_VERSIONS, Timestamp};
use serde_json::Value;

use crate::call::Call;
use crate::call::fault;
use crate::chains;
use crate::convert;
use crate::events::of_the_host;
use crate::host::Host;
use crate::http::{self, HttpError};
use crate::lifecycle::Ending;
use crate::rpc::ask::Api;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a client may rely on beyond the methods it can see.
const FEATURES: [&str; 4] = ["attach", "events", "batch", "cancel"];

/// The answer to whoever asked for the end leaves before the end begins.
const ANSWER_FIRST: Duration = Duration::from_millis(50);

/// Sessions get at most this long to end by themselves.
const GRACE_MAX: Duration = Duration::from_secs(600);

fn features() -> Vec<String> {
    FEATURES.map(str::to_owned).to_vec()
}

pub(crate) async fn hello(call: Call, params: HelloParams) -> Result<HelloResult, Fault> {
    let common = PROTOCOL_VERSIONS.iter().rev().find(|ours| params.protocol.contains(ours));
    let protocol = match (params.protocol.is_empty(), common) {
        (true, _) => 1,
        (false, Some(common)) => *common,
        (false, None) => {
            let message = format!(
                "cannot agree on a protocol: the client speaks {:?}, this host {PROTOCOL_VERSIONS:?}",
                params.protocol
            );
            return Err(Fault::new(FaultKind::Unsupported, message)
                .hint("greenroom upgrade replaces a host that is older than its clients"));
        }
    };
    if let Some(client) = &params.client {
        call.peer.calls_itself(client.name());
    }
    Ok(HelloResult {
        protocol,
        name: "greenroom".to_owned(),
        version: VERSION.to_owned(),
        features: features(),
        daemon_pid: std::process::id(),
    })
}

pub(crate) async fn capabilities(_: Call, _: Empty) -> Result<CapabilitiesResult, Fault> {
    Ok(CapabilitiesResult {
        name: "greenroom".to_owned(),
        version: VERSION.to_owned(),
        framing: vec!["ndjson".to_owned(), "lsp".to_owned()],
        methods: METHODS.iter().map(|row| row.name.to_owned()).collect(),
        notifications: events::PUSHES.iter().map(|push| push.kind.to_owned()).collect(),
        protocol: PROTOCOL_VERSIONS.to_vec(),
        features: features(),
    })
}

pub(crate) async fn schema(_: Call, params: SchemaParams) -> Result<Value, Fault> {
    methods::document(params.method.as_deref()).ok_or_else(|| {
        let method = params.method.unwrap_or_default();
        Fault::new(FaultKind::NotFound, format!("there is no method {method}"))
    })
}

pub(crate) async fn stats(call: Call, _: Empty) -> Result<StatsResult, Fault> {
    let host = &call.host;
    let infos = host.sessions.engine().list();
    let running = infos.iter().filter(|info| info.pid.is_some()).count() as u64;
    let total = infos.len() as u64;
    let kept: u64 = infos.iter().map(|info| info.seq.since(info.first_seq)).sum();
    let daemon_pid = std::process::id();
    let keeper_pid = u32::try_from(host.hello.keeper_pid).unwrap_or(0);
    let keeper_started = UNIX_EPOCH + Duration::from_millis(host.hello.keeper_started_unix_ms);
    Ok(StatsResult {
        version: VERSION.to_owned(),
        daemon_pid,
        keeper_pid,
        uptime_ms: since(host.started),
        daemon: ProcessStats {
            pid: daemon_pid,
            started_at: Timestamp::from_system(host.started),
            uptime_ms: since(host.started),
            rss_bytes: rss_bytes(daemon_pid),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
        },
        keeper: KeeperStats {
            pid: keeper_pid,
            started_at: Timestamp::from_system(keeper_started),
            uptime_ms: since(keeper_started),
            rss_bytes: rss_bytes(keeper_pid),
            generation: host.hello.generation.into(),
            daemon_starts: host.hello.daemon_starts.into(),
            last_exit: host.hello.last_exit.map(last_exit),
        },
        sessions: SessionCounts { total, running, ended: total - running },
        clients: host.edge.counters.connections(),
        attached: host.edge.viewers.count() as u64,
        requests: host.edge.counters.requests(),
        waits: host.edge.waits.count() as u64,
        output_bytes: infos.iter().map(|info| info.seq.0).sum(),
        journal_bytes: kept,
        last_event: host.storage.newest_event(),
        counters: BTreeMap::from([
            ("connections_refused".to_owned(), host.edge.counters.refused()),
            ("events_dropped".to_owned(), host.storage.lost_events()),
            ("marks_dropped".to_owned(), infos.iter().map(|info| info.dropped_marks).sum()),
        ]),
        cleanups: chains::pending(&host.sessions),
        troubles: troubles(host, &infos),
    })
}

fn troubles(host: &Host, infos: &[SessionInfo]) -> Vec<String> {
    let mut sentences = host.settings.troubles().sentences();
    sentences.extend(host.hooks.plugins().troubles());
    let withheld = |info: &SessionInfo| {
        let why = info.withheld.as_ref()?;
        Some(format!("session {} is masked: {why}", info.record.id))
    };
    sentences.extend(infos.iter().filter_map(withheld));
    sentences
}

fn since(time: SystemTime) -> u64 {
    convert::millis(time.elapsed().unwrap_or_default())
}

fn last_exit(last: keeper::LastExit) -> LastExit {
    let (code, signal) = match last.status {
        keeper::ExitStatus::Code(code) => (Some(code), None),
        keeper::ExitStatus::Signal { signo, .. } => (None, Some(signo)),
    };
    LastExit { code, signal, lived_ms: last.lived_ms }
}

/// The second number of `statm`, in pages.
fn rss_bytes(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

pub(crate) fn for_http(host: &Arc<Host>) -> http::Parts {
    http::Parts {
        api: Api::of(host),
        callers: host.callers.clone(),
        counters: host.edge.counters.clone(),
        hooks: host.hooks.clone(),
        life: host.life.clone(),
        settings: host.settings.clone(),
    }
}

/// Only by the socket: whoever came by HTTP has the token, and nobody else shall get it there.
pub(crate) async fn web(call: Call, params: WebParams) -> Result<WebResult, Fault> {
    if !call.peer.caller.is_local() {
        let message = "not allowed to call server.web: the token is told on the socket only";
        return Err(Fault::new(FaultKind::PermissionDenied, message));
    }
    let wanted = params.listen.as_deref().map(greenroom_config::loopback).transpose();
    let wanted = wanted.map_err(HttpError::from)?;
    let web = &call.host.edge.web;
    let serving = web.start(&for_http(&call.host), wanted).await?;
    Ok(WebResult {
        url: format!("http://{}", serving.address),
        token: serving.token.reveal().to_owned(),
        token_file: web.token_file().display().to_string(),
    })
}

pub(crate) async fn shutdown(call: Call, params: ShutdownParams) -> Result<ShutdownResult, Fault> {
    let host = call.host;
    let running =
        host.sessions.engine().list().iter().filter(|info| info.pid.is_some()).count() as u64;
    if params.if_idle && running > 0 {
        let message = match running {
            1 => "cannot shut down: 1 session is running".to_owned(),
            _ => format!("cannot shut down: {running} sessions are running"),
        };
        return Err(Fault::new(FaultKind::Conflict, message).hint("greenroom ls lists them"));
    }
    let grace =
        params.grace_ms.map_or(host.settings.now().sessions.kill_grace, Duration::from_millis);
    let ending = Ending::Shutdown { grace: grace.min(GRACE_MAX) };
    tokio::spawn(async move {
        tokio::time::sleep(ANSWER_FIRST).await;
        host.life.end(ending);
    });
    Ok(ShutdownResult { stopping: true, sessions: running })
}

pub(crate) async fn reload(call: Call, _: Empty) -> Result<ReloadResult, Fault> {
    let by = call.peer.client().unwrap_or_else(|| "a client".to_owned());
    reload_settings(&call.host, &by).await
}

pub(crate) async fn upgrade(call: Call, params: UpgradeParams) -> Result<UpgradeResult, Fault> {
    let host = call.host;
    let keeper = !params.daemon_only;
    if keeper {
        let path = match params.path {
            Some(path) => PathBuf::from(path),
            None => own_program()?,
        };
        if !path.is_absolute() {
            return Err(Fault::invalid_params(format!("path {} is not absolute", path.display())));
        }
        host.keeper.replace(&path).await.map_err(|error| fault::keeper(&error))?;
    } else if params.path.is_some() {
        let why =
            "a daemon alone is started from the keeper's program: leave out path or daemon_only";
        return Err(Fault::invalid_params(why));
    }
    let event = events::DaemonUpgraded { from: VERSION.to_owned(), keeper };
    host.storage.log(of_the_host(event));
    tokio::spawn(async move {
        tokio::time::sleep(ANSWER_FIRST).await;
        host.life.end(Ending::Upgrade);
    });
    Ok(UpgradeResult { upgrading: true, from: VERSION.to_owned(), to: None, keeper })
}

/// The file this program was started from, also after another took its place.
fn own_program() -> Result<PathBuf, Fault> {
    let path = std::env::current_exe().map_err(|error| {
        Fault::new(FaultKind::Unavailable, format!("cannot tell where the program is: {error}"))
    })?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}
