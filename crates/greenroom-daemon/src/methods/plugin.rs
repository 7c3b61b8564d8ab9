//! `plugin.*`: what plugins there are, what was agreed to, and asking one by hand.
//!
//! Thin: the store knows files and grants, the host knows who runs. What changes a grant is written
//! into the audit log.

mod consent;
mod view;

use std::path::Path;
use std::sync::Arc;

use greenroom_formats::manifest::{self, CAPABILITIES, HookName, PTYWRIGHT_PERMISSIONS};
use greenroom_plugins::host::{HostError, PluginHost, PluginInfo};
use greenroom_plugins::store::{Granting, Store, StoreError};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::plugin::*;
use greenroom_protocol::methods::{Method as _, method};
use greenroom_protocol::{Fault, FaultKind, Timestamp};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::hooks::Hooks;
use crate::sync::blocking;

/// Lines of a log when nobody says how many.
const LINES_DEFAULT: u32 = 100;
/// Most lines of one answer.
const LINES_MAX: u32 = 10_000;

pub(crate) async fn list(call: Call, _: Empty) -> Result<PluginListResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    Ok(PluginListResult {
        plugins: hooks.plugins().list().iter().map(view::view).collect(),
        native: view::native(call.host.sessions.chains().registry()),
        dir: hooks.store().places().plugins.display().to_string(),
        troubles: hooks.plugins().troubles(),
    })
}

pub(crate) async fn get(call: Call, params: PluginParams) -> Result<PluginGetResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let info = hooks.plugins().info(&params.name).map_err(host_fault)?;
    // The plugin's state tells of a lock that cannot be read.
    let record = hooks.store().record(&params.name).unwrap_or_default();
    Ok(view::get(&info, record))
}

pub(crate) async fn reload(
    call: Call,
    params: PluginReloadParams,
) -> Result<PluginReloadResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    reload_by(hooks, params.name, by(&call)).await
}

/// All of them, when the settings are read again; `None` while plugins are off.
pub(crate) async fn look_again(
    hooks: &Hooks,
    by: &str,
) -> Option<Result<PluginReloadResult, Fault>> {
    let hooks = hooks.enabled().ok()?;
    Some(reload_by(hooks, None, by.to_owned()).await)
}

async fn reload_by(
    hooks: &Hooks,
    name: Option<String>,
    by: String,
) -> Result<PluginReloadResult, Fault> {
    let only = name.clone();
    let accepted = asked(hooks.store(), move |store| store.accept(only.as_deref())).await?;
    let done = hooks.plugins().reload(name.as_deref()).await.map_err(host_fault)?;
    if !accepted.is_empty() {
        hooks.plugins().audit(json!({"what": "accepted", "plugins": &accepted, "by": by}));
    }
    let mut changed = done.changed;
    changed.extend(accepted.into_iter().filter(|name| !done.added.contains(name)));
    changed.sort();
    changed.dedup();
    Ok(PluginReloadResult {
        status: "ok".to_owned(),
        count: done.count as u64,
        added: done.added,
        changed,
        removed: done.removed,
        failed: done.failed.into_iter().map(|(name, why)| format!("{name}: {why}")).collect(),
    })
}

pub(crate) async fn enable(call: Call, params: PluginParams) -> Result<PluginSwitched, Fault> {
    switched(call.host.hooks.enabled()?.plugins().enable(&params.name).await, "enable")
}

pub(crate) async fn disable(call: Call, params: PluginParams) -> Result<PluginSwitched, Fault> {
    switched(call.host.hooks.enabled()?.plugins().disable(&params.name).await, "disable")
}

fn switched(done: Result<PluginInfo, HostError>, action: &str) -> Result<PluginSwitched, Fault> {
    let PluginInfo { found, state, .. } = done.map_err(host_fault)?;
    let (status, action) = ("ok".to_owned(), action.to_owned());
    Ok(PluginSwitched { status, name: found.name.clone(), action, state: state.word().to_owned() })
}

pub(crate) async fn test(call: Call, params: PluginTestParams) -> Result<PluginTestResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let hook = hook_named(&params.hook)?;
    let payload = match params.payload {
        TestPayload::Object(payload) => payload,
        TestPayload::Text(text) => {
            serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| {
                let message =
                    format!("cannot test {}: the payload is no JSON object: {error}", params.name);
                Fault::new(FaultKind::InvalidParams, message)
            })?
        }
    };
    let tested = hooks.plugins().test(&params.name, hook, payload).await.map_err(host_fault)?;
    let mut answer = tested.answer;
    answer.remove("action");
    Ok(PluginTestResult {
        action: tested.action,
        failure: tested.failure,
        took_ms: tested.took.as_secs_f64() * 1000.0,
        stderr: tested.stderr,
        answer,
    })
}

pub(crate) async fn order(
    call: Call,
    params: PluginOrderParams,
) -> Result<PluginOrderResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let hook = hook_named(&params.hook)?;
    let (order, remarks) = hooks.plugins().order(hook.hook);
    Ok(PluginOrderResult {
        hook: hook.hook.name().to_owned(),
        order: order.iter().map(view::ordered).collect(),
        remarks,
    })
}

pub(crate) async fn stats(
    call: Call,
    params: PluginStatsParams,
) -> Result<PluginStatsResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let infos = match &params.name {
        Some(name) => vec![hooks.plugins().info(name).map_err(host_fault)?],
        None => hooks.plugins().list(),
    };
    let plugins =
        infos.iter().map(|info| (info.found.name.clone(), view::stats(&info.stats))).collect();
    Ok(PluginStatsResult { plugins })
}

pub(crate) async fn logs(call: Call, params: PluginLogsParams) -> Result<PluginLogsResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let lines = params.lines.unwrap_or(LINES_DEFAULT).min(LINES_MAX) as usize;
    let lines = hooks.plugins().logs(&params.name, lines).map_err(host_fault)?;
    let lines = lines.into_iter().map(|line| PluginLogLine {
        at: Timestamp::from_system(line.at),
        kind: line.kind.to_owned(),
        text: line.text,
    });
    Ok(PluginLogsResult { lines: lines.collect() })
}

pub(crate) async fn add(call: Call, params: PluginAddParams) -> Result<PluginAddResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let taken = asked(hooks.store(), move |store| store.add(&params.source)).await?;
    refresh(hooks.plugins(), Some(&taken.name)).await;
    hooks.plugins().audit(
        json!({"what": "added", "plugin": &taken.name, "digest": &taken.digest, "by": by(&call)}),
    );
    let info = hooks.plugins().info(&taken.name).map_err(host_fault)?;
    let record = hooks.store().record(&taken.name).map_err(store_fault)?;
    let consent = consent::consent(&info, record.as_ref());
    Ok(PluginAddResult { name: taken.name, trusted: taken.trusted, consent })
}

pub(crate) async fn link(call: Call, params: PluginLinkParams) -> Result<PluginGranted, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let who = by(&call);
    let taken =
        asked(hooks.store(), move |store| store.link(Path::new(&params.path), &who)).await?;
    hooks.plugins().audit(json!({"what": "linked", "plugin": &taken.name, "by": by(&call)}));
    granted(hooks, &taken.name).await
}

pub(crate) async fn remove(call: Call, params: PluginParams) -> Result<PluginRemoved, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let name = params.name.clone();
    asked(hooks.store(), move |store| store.remove(&name)).await?;
    refresh(hooks.plugins(), None).await;
    hooks.plugins().audit(json!({"what": "removed", "plugin": &params.name, "by": by(&call)}));
    Ok(PluginRemoved { name: params.name, removed: true })
}

pub(crate) async fn grant(call: Call, params: PluginGrantParams) -> Result<PluginGranted, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let granting = Granting { digest: params.digest, only: params.only, by: by(&call) };
    let name = params.name.clone();
    let found = asked(hooks.store(), move |store| store.grant(&name, &granting)).await?;
    hooks.plugins().audit(json!({
        "what": "granted", "plugin": &params.name, "digest": &found.digest, "grants": &found.grants, "by": by(&call),
    }));
    granted(hooks, &params.name).await
}

pub(crate) async fn revoke(call: Call, params: PluginParams) -> Result<PluginGranted, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let name = params.name.clone();
    let found = asked(hooks.store(), move |store| store.revoke(&name)).await?;
    hooks.plugins().audit(json!({"what": "revoked", "plugin": &params.name, "by": by(&call)}));
    refresh(hooks.plugins(), Some(&params.name)).await;
    let state = match hooks.plugins().info(&params.name) {
        Ok(info) => info.state.word(),
        Err(_) => "removed",
    };
    Ok(PluginGranted { name: params.name, state: state.to_owned(), digest: found.digest })
}

pub(crate) async fn pending(call: Call, _: Empty) -> Result<PluginPendingResult, Fault> {
    let hooks = call.host.hooks.enabled()?;
    let mut pending = Vec::new();
    for info in hooks.plugins().list().iter().filter(|info| consent::waits(info)) {
        let record = hooks.store().record(&info.found.name).map_err(store_fault)?;
        pending.push(consent::consent(info, record.as_ref()));
    }
    Ok(PluginPendingResult { pending })
}

pub(crate) async fn capabilities(call: Call, _: Empty) -> Result<PluginCapabilitiesResult, Fault> {
    Ok(PluginCapabilitiesResult {
        permissions: PTYWRIGHT_PERMISSIONS.map(str::to_owned).to_vec(),
        embedded_lua: false,
        wasm: false,
        builtin_plugins: Vec::new(),
        capabilities: CAPABILITIES.iter().map(|row| row.name.to_owned()).collect(),
        hooks: HookName::all().map(str::to_owned).collect(),
        runtimes: ["oneshot", "jsonl"].map(str::to_owned).to_vec(),
        enabled: call.host.hooks.enabled().is_ok(),
    })
}

pub(crate) async fn validate_manifest(
    _: Call,
    params: ValidateManifestParams,
) -> Result<ValidateManifestResult, Fault> {
    match manifest::from_value(&Value::Object(params.manifest)) {
        Ok(loaded) => Ok(ValidateManifestResult { valid: true, warnings: loaded.warnings }),
        Err(error) => {
            let problems = serde_json::to_value(&error.problems).unwrap_or_default();
            Err(Fault::new(FaultKind::InvalidParams, format!("the manifest is not valid: {error}"))
                .with("problems", problems))
        }
    }
}

pub(crate) async fn describe(
    call: Call,
    params: PluginParams,
) -> Result<PluginDescribeResult, Fault> {
    let info = call.host.hooks.enabled()?.plugins().info(&params.name).map_err(host_fault)?;
    Ok(PluginDescribeResult {
        manifest: view::manifest(&info).unwrap_or_default(),
        plugin: info.found.name.clone(),
        ..PluginDescribeResult::default()
    })
}

pub(crate) async fn load(_: Call, _: PluginLoadParams) -> Result<PluginLoadResult, Fault> {
    Err(no_loading(method::PluginLoad::NAME))
}

pub(crate) async fn unload(_: Call, _: PluginUnloadParams) -> Result<PluginUnloadResult, Fault> {
    Err(no_loading(method::PluginUnload::NAME))
}

/// No host can be started to allow it; this is what ptywright's clients expect to be told.
fn no_loading(method: &str) -> Fault {
    let message =
        format!("not allowed to call {method}: this host was not started with --allow-plugin-load");
    Fault::new(FaultKind::PermissionDenied, message)
        .with("method", method)
        .with("reason", "server_did_not_grant_plugin_load")
}

async fn granted(hooks: &Hooks, name: &str) -> Result<PluginGranted, Fault> {
    refresh(hooks.plugins(), Some(name)).await;
    let info = hooks.plugins().info(name).map_err(host_fault)?;
    Ok(PluginGranted {
        name: info.found.name.clone(),
        state: info.state.word().to_owned(),
        digest: info.found.digest.clone(),
    })
}

/// The decision is in the lock already; a plugin that is broken is told in its state.
async fn refresh(host: &PluginHost, only: Option<&str>) {
    // All first: `only` must be known, and begins anew even if its bytes are the same.
    let mut done = host.reload(None).await;
    if let (Ok(_), Some(only)) = (&done, only) {
        done = host.reload(Some(only)).await;
    }
    if let Err(error) = done {
        tracing::warn!(%error, "looking at plugins again");
    }
}

fn hook_named(name: &str) -> Result<HookName, Fault> {
    HookName::parse(name).ok_or_else(|| {
        let fault = Fault::new(FaultKind::InvalidParams, format!("there is no hook {name:?}"));
        match greenroom_protocol::nearest(name, HookName::all()) {
            Some(nearest) => fault.hint(format!("did you mean {nearest}?")),
            None => fault.hint("docs/plugins/hooks.md lists them"),
        }
    })
}

fn by(call: &Call) -> String {
    let via = if call.peer.caller.is_local() { "socket" } else { "http" };
    format!("uid:{} {via}", rustix::process::getuid().as_raw())
}

/// Reads and digests files: not on a thread that serves others.
async fn asked<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Fault> {
    let store = store.clone();
    blocking(move || work(&store)).await?.map_err(store_fault)
}

fn store_fault(error: StoreError) -> Fault {
    let kind = match &error {
        StoreError::Unknown { .. } => FaultKind::NotFound,
        StoreError::Taken { .. } | StoreError::Dropped { .. } | StoreError::Digest { .. } => {
            FaultKind::Conflict
        }
        StoreError::Disk { .. } | StoreError::Lock { .. } | StoreError::Unguarded(_) => {
            FaultKind::Disk
        }
        _ => FaultKind::InvalidParams,
    };
    let fault = Fault::new(kind, error.to_string());
    match error.hint() {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

fn host_fault(error: HostError) -> Fault {
    let message = error.to_string();
    match error {
        HostError::Disabled => Fault::new(FaultKind::PluginsDisabled, "plugins disabled"),
        HostError::Unknown { nearest: Some(nearest), .. } => {
            Fault::new(FaultKind::NotFound, message).hint(format!("did you mean {nearest}?"))
        }
        HostError::Unknown { .. } => {
            Fault::new(FaultKind::NotFound, message).hint("list plugins with greenroom plugin list")
        }
        HostError::CannotRun { name, .. } => Fault::new(FaultKind::NeedsConsent, message)
            .hint(format!("see greenroom plugin info {name}")),
        HostError::NoSuchHook { name, .. } => Fault::new(FaultKind::InvalidParams, message)
            .hint(format!("see greenroom plugin info {name}")),
        HostError::Catalog(_) | HostError::Keep { .. } => Fault::new(FaultKind::Disk, message),
    }
}
