//! `session.*`: starting, describing, changing and ending sessions.

mod copy;

use greenroom_engine::EngineError;
use greenroom_engine::session::SessionInfo;
use greenroom_keeper as keeper;
use greenroom_protocol::Fault;
use greenroom_protocol::api::session as wire;
use greenroom_protocol::api::session::{
    CloseParams, CloseResult, CreateParams, CreateResult, InfoParams, KillParams, KillResult,
    ListParams, ListResult, Listed, MarkParams, MarkResult, RenameParams, RenameResult,
    ResizeParams, ResizeResult, SignalParams, SignalResult, SignalTarget,
};
use greenroom_protocol::events::SessionKilled;
use greenroom_workspace::spec::SessionSpec;
use serde_json::json;

use crate::call::Call;
use crate::call::fault;
use crate::chains;
use crate::convert;
use crate::events::about;
use crate::hooks;
use crate::host::Host;

/// A mark's label.
const MARK_BYTES: usize = 1024;

pub(crate) async fn create(call: Call, params: CreateParams) -> Result<CreateResult, Fault> {
    let spec = chains::spec(&call.host.sessions, &params)?;
    if params.dry_run {
        return would_be(&call, spec).await;
    }
    let copy = copy::of_output(&params)?;
    let handle = chains::start(&call.host.sessions, spec).await?;
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
            .sessions
            .chains()
            .look(handle.id())
            .map(|file| file.notes().to_vec())
            .unwrap_or_default(),
        dry_run: None,
    })
}

async fn would_be(call: &Call, spec: SessionSpec) -> Result<CreateResult, Fault> {
    let dry_run = chains::would_be(&call.host.sessions, spec).await?;
    Ok(CreateResult {
        session: String::new(),
        name: None,
        pid: None,
        notes: dry_run.notes.clone(),
        dry_run: Some(Box::new(dry_run)),
    })
}

pub(crate) async fn list(call: Call, params: ListParams) -> Result<ListResult, Fault> {
    let host = &call.host;
    for state in params.state.iter().flat_map(|states| states.as_slice()) {
        wire::SessionState::named(state).map_err(Fault::invalid_params)?;
    }
    let wanted = |info: &SessionInfo| {
        let state = convert::state(&info.record.state);
        let in_state = params
            .state
            .as_ref()
            .is_none_or(|states| states.as_slice().iter().any(|wanted| wanted == state.word()));
        let labelled = || {
            let about = wire::About::read(&info.record.about);
            params.labels.iter().all(|(name, value)| about.labels.get(name) == Some(value))
        };
        in_state && (params.labels.is_empty() || labelled())
    };
    let sessions = host
        .sessions
        .engine()
        .list()
        .into_iter()
        .filter(wanted)
        .map(|info| {
            if params.detail {
                return Listed::Info(Box::new(described(host, info)));
            }
            Listed::Id(info.record.id.to_string())
        })
        .collect();
    Ok(ListResult { sessions })
}

pub(crate) async fn info(call: Call, params: InfoParams) -> Result<wire::SessionInfo, Fault> {
    let handle = call.session(&params.session)?;
    if params.settled {
        chains::settled(&call.host.sessions, &handle).await;
    }
    let mut info = described(&call.host, handle.info());
    chains::measure(&call.host.sessions, handle.id(), &mut info).await;
    if params.explain {
        info.explain = Some(json!({
            "size": "the last client that typed owns it; without one the last size stays",
            "limit_bytes": call.host.settings.began().sessions.limit_bytes,
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
    let mut info = convert::info(info, host.edge.viewers.of(id));
    info.processes_left = left as u64;
    chains::describe(host.sessions.chains(), id, &mut info);
    info
}

pub(crate) async fn resize(call: Call, params: ResizeParams) -> Result<ResizeResult, Fault> {
    let size = greenroom_protocol::api::screen::Size::new(params.cols, params.rows);
    let size = convert::size_in(size)?;
    call.session(&params.session)?.resize(size).await.map_err(fault::engine)?;
    Ok(ResizeResult { resized: true })
}

pub(crate) async fn kill(call: Call, params: KillParams) -> Result<KillResult, Fault> {
    let handle = call.session(&params.session)?;
    let signal = params.signal.as_ref().map(convert::signal::number).transpose()?;
    let by = call.peer.client();
    let ended = handle.change().ended;
    let left = ended.map_or(0, |_| call.host.keeper.count_left(handle.id()));
    if let (Some(status), 0) = (ended, left) {
        let exit = Some(convert::exit(status));
        return Ok(KillResult { killed: true, exit, already_ended: true, processes_ended: 0 });
    }
    let name = signal.map(convert::signal::full_name);
    hooks::may_kill(&call.host.hooks, &handle, call.peer.client(), name.as_deref()).await?;
    call.host.storage.log(about(handle.id(), SessionKilled { by, signal: name.clone() }));
    let status = tokio::select! {
        status = handle.kill(call.host.sessions.ladder(signal, params.grace_ms)) => status,
        error = crate::keeper::stopped() => return Err(fault::keeper(&error)),
    };
    call.host.keeper.forget_lost(handle.id());
    let status = status.map_err(fault::engine)?;
    Ok(KillResult {
        killed: true,
        exit: Some(convert::exit(status)),
        already_ended: false,
        processes_ended: left as u64,
    })
}

pub(crate) async fn close(call: Call, params: CloseParams) -> Result<CloseResult, Fault> {
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
        hooks::may_kill(&call.host.hooks, &handle, call.peer.client(), None).await?;
        match handle.kill(call.host.sessions.ladder(None, None)).await {
            // The session ended by itself in between: just as well.
            Ok(_) | Err(EngineError::Ended { .. }) => {}
            Err(error) => return Err(fault::engine(error)),
        }
    }
    chains::remove(&call.host.sessions, &handle).await.map_err(fault::engine)?;
    call.host.edge.screens.forget(handle.id());
    Ok(CloseResult { closed: true })
}

pub(crate) async fn rename(call: Call, params: RenameParams) -> Result<RenameResult, Fault> {
    let handle = call.session(&params.session)?;
    call.host.sessions.engine().rename(handle.id(), &params.name).await.map_err(fault::engine)?;
    Ok(RenameResult { renamed: true, session: handle.id().to_string(), name: params.name })
}

pub(crate) async fn signal(call: Call, params: SignalParams) -> Result<SignalResult, Fault> {
    let handle = call.session(&params.session)?;
    let number = convert::signal::number(&params.signal)?;
    send_signal(&call, &handle, number, params.to).await?;
    Ok(SignalResult { signalled: true })
}

pub(crate) async fn send_signal(
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

pub(crate) async fn mark(call: Call, params: MarkParams) -> Result<MarkResult, Fault> {
    let handle = call.session(&params.session)?;
    let sequence = put_mark(&handle, params.label).await?;
    Ok(MarkResult { marked: true, sequence })
}

pub(crate) async fn put_mark(
    handle: &greenroom_engine::SessionHandle,
    label: String,
) -> Result<u64, Fault> {
    if label.is_empty() || label.len() > MARK_BYTES {
        return Err(Fault::invalid_params(format!("a label has 1 to {MARK_BYTES} bytes")));
    }
    Ok(handle.mark(label).await.map_err(fault::engine)?.0)
}
