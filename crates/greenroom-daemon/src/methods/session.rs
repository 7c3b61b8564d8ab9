//! `session.*`: starting, describing, changing and ending sessions.

mod environment;

pub use environment::check_variables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_engine::session::{Ladder, SessionInfo};
use greenroom_engine::{EngineError, SessionSpec};
use greenroom_keeper as keeper;
use greenroom_plugins::spec::{Ask, Limits, Secret};
use greenroom_protocol::Fault;
use greenroom_protocol::api::session as wire;
use greenroom_protocol::api::session::{
    CloseParams, CloseResult, CreateParams, CreateResult, InfoParams, KillParams, KillResult,
    ListParams, ListResult, Listed, MarkParams, MarkResult, RenameParams, RenameResult,
    ResizeParams, ResizeResult, SignalParams, SignalResult, SignalTarget,
};
use serde_json::json;

use crate::chains;
use crate::convert;
use crate::events::about;
use crate::hooks;
use crate::host::Host;
use crate::rpc::fault;
use crate::rpc::router::Call;

/// Labels of one session, and the length of each name and value: they are kept in memory and told
/// in every list.
const LABELS_MAX: usize = 64;
const LABEL_BYTES: usize = 1024;

/// A task's description.
const TASK_BYTES: usize = 64 * 1024;

/// Words such as `claude` and `thorough`.
const WORD_BYTES: usize = 256;

/// A mark's label.
const MARK_BYTES: usize = 1024;

/// A session may be given at most this long to end by itself.
const GRACE_MAX: Duration = Duration::from_secs(600);

pub async fn create(call: Call, params: CreateParams) -> Result<CreateResult, Fault> {
    let ask = ask(&params);
    let dry_run = params.dry_run;
    environment::check(&params)?;
    let copy = if dry_run { None } else { environment::copy_of_output(&params)? };
    let spec = spec(&call.host, params)?;
    if dry_run {
        return would_be(&call, spec, ask).await;
    }
    let handle = chains::start(&call.host, spec, ask).await?;
    if let Some(copy) = copy {
        copy.follow(handle.clone());
    }
    let info = handle.info();
    Ok(CreateResult {
        session: info.record.id.to_string(),
        name: Some(info.record.name).filter(|name| *name != info.record.id.to_string()),
        pid: info.pid,
        notes: call
            .host
            .chains
            .look(handle.id())
            .map(|file| file.notes().to_vec())
            .unwrap_or_default(),
        dry_run: None,
    })
}

/// What is asked of session plugins.
pub fn ask(params: &CreateParams) -> Ask {
    let env = params.env.iter().map(|(name, value)| (name.clone(), Secret::new(value)));
    Ask {
        worktree: params.worktree.clone(),
        scratchpad: params.scratchpad.clone(),
        sandbox: params.sandbox.clone(),
        env: env.collect(),
        limits: Limits {
            timeout: params.timeout_ms.map(Duration::from_millis),
            idle_timeout: params.idle_timeout_ms.map(Duration::from_millis),
        },
        run: params.run.clone(),
        with: params.with.clone(),
    }
}

async fn would_be(call: &Call, base: SessionSpec, ask: Ask) -> Result<CreateResult, Fault> {
    let dry_run = chains::would_be(&call.host, base, ask).await?;
    Ok(CreateResult {
        session: String::new(),
        name: None,
        pid: None,
        notes: dry_run.notes.clone(),
        dry_run: Some(Box::new(dry_run)),
    })
}

pub fn spec(host: &Host, params: CreateParams) -> Result<SessionSpec, Fault> {
    environment::check(&params)?;
    check_labels(&params)?;
    let env = environment::of(host, &params);
    let size = match (params.size, params.rows, params.cols) {
        (None, None, None) => {
            let (cols, rows) = host.settings.now().sessions.default_size;
            greenroom_engine::term::Size::new(cols, rows).ok_or_else(|| fault::invalid("size"))?
        }
        _ => convert::size_in(params.size())?,
    };
    let argv = match params.argv() {
        Some(argv) => argv.into_iter().map(std::ffi::OsString::from).collect(),
        None => vec![environment::shell(host, &params, &env)],
    };
    let cwd = match &params.cwd {
        Some(cwd) => PathBuf::from(cwd),
        None => match params.env.get("HOME").map(PathBuf::from) {
            Some(home) => home,
            None => env.get(std::ffi::OsStr::new("HOME")).map_or_else(|| "/".into(), PathBuf::from),
        },
    };
    let named_after = match &params.worktree {
        Some(worktree) => Some(worktree.slug.clone()),
        None => argv.first().and_then(|program| {
            Some(Path::new(program).file_name()?.to_string_lossy().into_owned())
        }),
    };
    Ok(SessionSpec {
        name: params.name,
        named_after,
        argv,
        cwd,
        env,
        size,
        labels: params.labels,
        task: params.task,
        backend: params.backend,
        effort: params.effort,
        hidden: Vec::new(),
        confinement: None,
    })
}

fn check_labels(params: &CreateParams) -> Result<(), Fault> {
    if params.labels.len() > LABELS_MAX {
        return Err(fault::invalid(format!("more than {LABELS_MAX} labels")));
    }
    if params.labels.iter().any(|(name, value)| name.len().max(value.len()) > LABEL_BYTES) {
        return Err(fault::invalid(format!("a label longer than {LABEL_BYTES} bytes")));
    }
    if params.task.as_ref().is_some_and(|task| task.len() > TASK_BYTES) {
        return Err(fault::invalid(format!("a task longer than {TASK_BYTES} bytes")));
    }
    for (what, word) in [("backend", &params.backend), ("effort", &params.effort)] {
        if word.as_ref().is_some_and(|word| word.is_empty() || word.len() > WORD_BYTES) {
            return Err(fault::invalid(format!("{what} has 1 to {WORD_BYTES} bytes")));
        }
    }
    Ok(())
}

pub async fn list(call: Call, params: ListParams) -> Result<ListResult, Fault> {
    let host = &call.host;
    for state in params.state.iter().flat_map(|states| states.as_slice()) {
        wire::SessionState::named(state).map_err(fault::invalid)?;
    }
    let wanted = |info: &SessionInfo| {
        let state = convert::state(&info.state);
        let in_state = params
            .state
            .as_ref()
            .is_none_or(|states| states.as_slice().iter().any(|wanted| wanted == state.word()));
        let labels = &info.record.labels;
        in_state && params.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    };
    let sessions = host
        .engine
        .list()
        .into_iter()
        .filter(wanted)
        .map(|info| match params.detail {
            false => Listed::Id(info.record.id.to_string()),
            true => Listed::Info(Box::new(described(host, info))),
        })
        .collect();
    Ok(ListResult { sessions })
}

pub async fn info(call: Call, params: InfoParams) -> Result<wire::SessionInfo, Fault> {
    let handle = call.session(&params.session)?;
    if params.settled {
        chains::settled(&call.host, &handle).await;
    }
    let mut info = described(&call.host, handle.info());
    chains::measure(&call.host, handle.id(), &mut info).await;
    if params.explain {
        info.explain = Some(json!({
            "size": "the last client that typed owns it; without one the last size stays",
            "limit_bytes": call.host.config.sessions.limit_bytes,
        }));
    }
    Ok(info)
}

fn described(host: &Host, info: SessionInfo) -> wire::SessionInfo {
    let id = info.record.id;
    let left = match info.state {
        greenroom_engine::SessionState::Exited { .. } => host.keeper.count_left(id),
        _ => 0,
    };
    let mut info = convert::info(info, host.viewers.of(id));
    info.processes_left = left as u64;
    chains::describe(&host.chains, id, &mut info);
    info
}

pub async fn resize(call: Call, params: ResizeParams) -> Result<ResizeResult, Fault> {
    let size = greenroom_protocol::api::screen::Size::new(params.cols, params.rows);
    let size = convert::size_in(size)?;
    call.session(&params.session)?.resize(size).await.map_err(fault::engine)?;
    Ok(ResizeResult { resized: true })
}

/// How a session is ended when its caller says so.
pub fn ladder(host: &Host, signal: Option<i32>, grace_ms: Option<u64>) -> Ladder {
    let grace = grace_ms.map_or(host.settings.now().sessions.kill_grace, Duration::from_millis);
    Ladder { signal, grace: grace.min(GRACE_MAX), ..Ladder::default() }
}

pub async fn kill(call: Call, params: KillParams) -> Result<KillResult, Fault> {
    let handle = call.session(&params.session)?;
    let signal = params.signal.as_ref().map(convert::signal::number).transpose()?;
    let by = call.peer.client();
    let data = json!({ "by": by, "signal": signal.map(convert::signal::full_name) });
    let ended = handle.change().ended;
    let left = ended.map_or(0, |_| call.host.keeper.count_left(handle.id()));
    if let (Some(status), 0) = (ended, left) {
        let exit = Some(convert::exit(status));
        return Ok(KillResult { killed: true, exit, already_ended: true, processes_ended: 0 });
    }
    let name = signal.map(convert::signal::full_name);
    hooks::may_kill(&call.host, &handle, call.peer.client(), name.as_deref()).await?;
    call.host.storage.log(about(handle.id(), "session.killed", data));
    let status = handle.kill(ladder(&call.host, signal, params.grace_ms)).await;
    call.host.keeper.forget_lost(handle.id());
    let status = status.map_err(fault::engine)?;
    Ok(KillResult {
        killed: true,
        exit: Some(convert::exit(status)),
        already_ended: false,
        processes_ended: left as u64,
    })
}

pub async fn close(call: Call, params: CloseParams) -> Result<CloseResult, Fault> {
    let handle = call.session(&params.session)?;
    let ended = handle.change().ended.is_some();
    let left = if ended { call.host.keeper.count_left(handle.id()) } else { 0 };
    if !ended || left > 0 {
        let id = handle.id();
        if params.if_ended && left > 0 {
            return Err(fault::engine(EngineError::LeftBehind { id, left }));
        }
        if params.if_ended {
            return Err(fault::engine(EngineError::StillRunning { id }));
        }
        hooks::may_kill(&call.host, &handle, call.peer.client(), None).await?;
        match handle.kill(ladder(&call.host, None, None)).await {
            // It ended by itself in between: just as well.
            Ok(_) | Err(EngineError::Ended { .. }) => {}
            Err(error) => return Err(fault::engine(error)),
        }
    }
    chains::remove(&call.host, &handle).await.map_err(fault::engine)?;
    call.host.screens.forget(handle.id());
    Ok(CloseResult { closed: true })
}

pub async fn rename(call: Call, params: RenameParams) -> Result<RenameResult, Fault> {
    let handle = call.session(&params.session)?;
    call.host.engine.rename(handle.id(), &params.name).await.map_err(fault::engine)?;
    Ok(RenameResult { renamed: true, session: handle.id().to_string(), name: params.name })
}

pub async fn signal(call: Call, params: SignalParams) -> Result<SignalResult, Fault> {
    let handle = call.session(&params.session)?;
    let number = convert::signal::number(&params.signal)?;
    send_signal(&call, &handle, number, params.to).await?;
    Ok(SignalResult { signalled: true })
}

pub async fn send_signal(
    call: &Call,
    handle: &greenroom_engine::SessionHandle,
    number: i32,
    to: SignalTarget,
) -> Result<(), Fault> {
    use greenroom_engine::process::Target;
    let sent = match to {
        SignalTarget::Leader => handle.signal(Target::Leader, number).await,
        SignalTarget::Foreground => handle.signal(Target::Foreground, number).await,
        SignalTarget::Group => {
            if let greenroom_engine::SessionState::Exited { at, status } = handle.info().state {
                let id = handle.id();
                return Err(fault::engine(EngineError::Ended { verb: "signal", id, status, at }));
            }
            let group = keeper::SignalTarget::Group;
            call.host.keeper.signal_one(handle.id(), number, group).await.map_err(Into::into)
        }
    };
    sent.map_err(fault::engine)
}

pub async fn mark(call: Call, params: MarkParams) -> Result<MarkResult, Fault> {
    let handle = call.session(&params.session)?;
    let sequence = put_mark(&handle, params.label).await?;
    Ok(MarkResult { marked: true, sequence })
}

pub async fn put_mark(
    handle: &greenroom_engine::SessionHandle,
    label: String,
) -> Result<u64, Fault> {
    if label.is_empty() || label.len() > MARK_BYTES {
        return Err(fault::invalid(format!("a label has 1 to {MARK_BYTES} bytes")));
    }
    Ok(handle.mark(label).await.map_err(fault::engine)?.0)
}
