//! `plugin.*`: what plugins there are, what was agreed to, and asking one by hand.
//!
//! Thin: the store knows files and grants, the host knows who runs. What changes a grant is written into the audit log.

mod consent;
mod view;

use std::path::Path;
use std::sync::Arc;

use greenroom_plugins::host::{HostError, PluginHost, PluginInfo};
use greenroom_plugins::store::{Granting, Store, StoreError};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::plugin::*;
use greenroom_protocol::manifest::{self, CAPABILITIES, HookName};
use greenroom_protocol::{Fault, FaultKind, Timestamp, tree};
use serde_json::{Map, Value, json};

use crate::host::Host;
use crate::plugins::Plugins;
use crate::rpc::peer::Via;
use crate::rpc::router::Call;

/// Lines of a log when nobody says how many.
const LINES_DEFAULT: u32 = 100;
/// Most lines of one answer.
const LINES_MAX: u32 = 10_000;

/// ptywright's, in its order.
const PERMISSIONS: [&str; 7] = [
    "session.spawn",
    "session.kill",
    "session.resize",
    "screen.read",
    "transcript.read",
    "input.write",
    "matcher.wait",
];

pub async fn list(call: Call, _: Empty) -> Result<PluginListResult, Fault> {
    let plugins = enabled(&call.host)?;
    Ok(PluginListResult {
        plugins: plugins.host.list().iter().map(view::view).collect(),
        native: view::native(),
        dir: plugins.store.places().plugins.display().to_string(),
    })
}

pub async fn get(call: Call, params: PluginParams) -> Result<PluginGetResult, Fault> {
    let plugins = enabled(&call.host)?;
    let info = plugins.host.info(&params.name).map_err(host_fault)?;
    let record = plugins.store.record(&params.name).map_err(store_fault)?;
    Ok(view::get(&info, record))
}

pub async fn reload(call: Call, params: PluginReloadParams) -> Result<PluginReloadResult, Fault> {
    let plugins = enabled(&call.host)?;
    reload_by(plugins, params.name, by(&call)).await
}

/// All of them, when the settings are read again; `None` while plugins are off.
pub async fn look_again(host: &Host, by: &str) -> Option<Result<PluginReloadResult, Fault>> {
    let plugins = host.plugins.get()?;
    Some(reload_by(plugins, None, by.to_owned()).await)
}

async fn reload_by(
    plugins: &Plugins,
    name: Option<String>,
    by: String,
) -> Result<PluginReloadResult, Fault> {
    let only = name.clone();
    let accepted = blocking(&plugins.store, move |store| store.accept(only.as_deref())).await?;
    let done = plugins.host.reload(name.as_deref()).await.map_err(host_fault)?;
    if !accepted.is_empty() {
        plugins.host.audit(json!({"what": "accepted", "plugins": &accepted, "by": by}));
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

pub async fn enable(call: Call, params: PluginParams) -> Result<PluginSwitched, Fault> {
    let info = enabled(&call.host)?.host.enable(&params.name).await.map_err(host_fault)?;
    Ok(switched(&info, "enable"))
}

pub async fn disable(call: Call, params: PluginParams) -> Result<PluginSwitched, Fault> {
    let info = enabled(&call.host)?.host.disable(&params.name).await.map_err(host_fault)?;
    Ok(switched(&info, "disable"))
}

fn switched(info: &PluginInfo, action: &str) -> PluginSwitched {
    PluginSwitched {
        status: "ok".to_owned(),
        name: info.name.clone(),
        action: action.to_owned(),
        state: info.state.word().to_owned(),
    }
}

pub async fn test(call: Call, params: PluginTestParams) -> Result<PluginTestResult, Fault> {
    let plugins = enabled(&call.host)?;
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
    let tested = plugins.host.test(&params.name, hook, payload).await.map_err(host_fault)?;
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

pub async fn order(call: Call, params: PluginOrderParams) -> Result<PluginOrderResult, Fault> {
    let plugins = enabled(&call.host)?;
    let hook = hook_named(&params.hook)?;
    let (turns, remarks) = plugins.host.order(hook.hook);
    Ok(PluginOrderResult {
        hook: hook.hook.name().to_owned(),
        order: turns.iter().map(view::turn).collect(),
        remarks,
    })
}

pub async fn stats(call: Call, params: PluginStatsParams) -> Result<PluginStatsResult, Fault> {
    let plugins = enabled(&call.host)?;
    let infos = match &params.name {
        Some(name) => vec![plugins.host.info(name).map_err(host_fault)?],
        None => plugins.host.list(),
    };
    let plugins = infos.iter().map(|info| (info.name.clone(), view::stats(&info.stats))).collect();
    Ok(PluginStatsResult { plugins })
}

pub async fn logs(call: Call, params: PluginLogsParams) -> Result<PluginLogsResult, Fault> {
    let plugins = enabled(&call.host)?;
    let lines = params.lines.unwrap_or(LINES_DEFAULT).min(LINES_MAX) as usize;
    let lines = plugins.host.logs(&params.name, lines).map_err(host_fault)?;
    let lines = lines.into_iter().map(|line| PluginLogLine {
        at: Timestamp::from_system(line.at),
        kind: line.kind.to_owned(),
        text: line.text,
    });
    Ok(PluginLogsResult { lines: lines.collect() })
}

pub async fn add(call: Call, params: PluginAddParams) -> Result<PluginAddResult, Fault> {
    let plugins = enabled(&call.host)?;
    let taken = blocking(&plugins.store, move |store| store.add(&params.source)).await?;
    refresh(&plugins.host, Some(&taken.name)).await;
    plugins.host.audit(
        json!({"what": "added", "plugin": &taken.name, "digest": &taken.digest, "by": by(&call)}),
    );
    let info = plugins.host.info(&taken.name).map_err(host_fault)?;
    let record = plugins.store.record(&taken.name).map_err(store_fault)?;
    let consent = consent::consent(&info, record.as_ref());
    Ok(PluginAddResult { name: taken.name, trusted: taken.trusted, consent })
}

pub async fn link(call: Call, params: PluginLinkParams) -> Result<PluginGranted, Fault> {
    let plugins = enabled(&call.host)?;
    let who = by(&call);
    let taken =
        blocking(&plugins.store, move |store| store.link(Path::new(&params.path), &who)).await?;
    plugins.host.audit(json!({"what": "linked", "plugin": &taken.name, "by": by(&call)}));
    granted(plugins, &taken.name).await
}

pub async fn remove(call: Call, params: PluginParams) -> Result<PluginRemoved, Fault> {
    let plugins = enabled(&call.host)?;
    let name = params.name.clone();
    blocking(&plugins.store, move |store| store.remove(&name)).await?;
    refresh(&plugins.host, None).await;
    plugins.host.audit(json!({"what": "removed", "plugin": &params.name, "by": by(&call)}));
    Ok(PluginRemoved { name: params.name, removed: true })
}

pub async fn grant(call: Call, params: PluginGrantParams) -> Result<PluginGranted, Fault> {
    let plugins = enabled(&call.host)?;
    let granting = Granting { digest: params.digest, only: params.only, by: by(&call) };
    let name = params.name.clone();
    let found = blocking(&plugins.store, move |store| store.grant(&name, &granting)).await?;
    plugins.host.audit(json!({
        "what": "granted", "plugin": &params.name, "digest": &found.digest, "grants": &found.grants, "by": by(&call),
    }));
    granted(plugins, &params.name).await
}

pub async fn revoke(call: Call, params: PluginParams) -> Result<PluginGranted, Fault> {
    let plugins = enabled(&call.host)?;
    let name = params.name.clone();
    let found = blocking(&plugins.store, move |store| store.revoke(&name)).await?;
    plugins.host.audit(json!({"what": "revoked", "plugin": &params.name, "by": by(&call)}));
    refresh(&plugins.host, Some(&params.name)).await;
    let state = match plugins.host.info(&params.name) {
        Ok(info) => info.state.word(),
        Err(_) => "removed",
    };
    Ok(PluginGranted { name: params.name, state: state.to_owned(), digest: found.digest })
}

pub async fn pending(call: Call, _: Empty) -> Result<PluginPendingResult, Fault> {
    let plugins = enabled(&call.host)?;
    let mut pending = Vec::new();
    for info in plugins.host.list().iter().filter(|info| consent::waits(info)) {
        let record = plugins.store.record(&info.name).map_err(store_fault)?;
        pending.push(consent::consent(info, record.as_ref()));
    }
    Ok(PluginPendingResult { pending })
}

pub async fn capabilities(call: Call, _: Empty) -> Result<PluginCapabilitiesResult, Fault> {
    Ok(PluginCapabilitiesResult {
        permissions: PERMISSIONS.map(str::to_owned).to_vec(),
        embedded_lua: false,
        wasm: false,
        builtin_plugins: Vec::new(),
        capabilities: CAPABILITIES.iter().map(|row| row.name.to_owned()).collect(),
        hooks: HookName::all().map(str::to_owned).collect(),
        runtimes: ["oneshot", "jsonl"].map(str::to_owned).to_vec(),
        enabled: enabled(&call.host).is_ok(),
    })
}

pub async fn validate_manifest(
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

pub async fn describe(call: Call, params: PluginParams) -> Result<PluginDescribeResult, Fault> {
    let info = enabled(&call.host)?.host.info(&params.name).map_err(host_fault)?;
    Ok(PluginDescribeResult {
        manifest: view::manifest(&info).unwrap_or_default(),
        plugin: info.name,
        ..PluginDescribeResult::default()
    })
}

pub async fn load(call: Call, params: PluginLoadParams) -> Result<PluginLoadResult, Fault> {
    let plugins = loading(&call, "plugin.load")?;
    let path = params.manifest_path;
    let name = blocking(&plugins.store, move |store| store.load(Path::new(&path))).await?;
    refresh(&plugins.host, Some(&name)).await;
    plugins.host.audit(json!({"what": "loaded", "plugin": &name, "by": by(&call)}));
    Ok(PluginLoadResult { plugin: name })
}

pub async fn unload(call: Call, params: PluginUnloadParams) -> Result<PluginUnloadResult, Fault> {
    let plugins = loading(&call, "plugin.unload")?;
    let name = params.plugin.clone();
    blocking(&plugins.store, move |store| store.unload(&name)).await?;
    refresh(&plugins.host, None).await;
    plugins.host.audit(json!({"what": "unloaded", "plugin": &params.plugin, "by": by(&call)}));
    Ok(PluginUnloadResult { unloaded: true })
}

/// The host was started to allow it; else what ptywright's clients expect to be told.
fn loading<'c>(call: &'c Call, method: &str) -> Result<&'c Plugins, Fault> {
    let refused = || {
        let message = format!(
            "not allowed to call {method}: this host was not started with --allow-plugin-load"
        );
        Fault::new(FaultKind::PermissionDenied, message)
            .with("method", method)
            .with("reason", "server_did_not_grant_plugin_load")
    };
    let plugins =
        call.host.plugins.get().filter(|plugins| plugins.allow_load).ok_or_else(refused)?;
    enabled(&call.host).map(|_| plugins)
}

async fn granted(plugins: &Plugins, name: &str) -> Result<PluginGranted, Fault> {
    refresh(&plugins.host, Some(name)).await;
    let info = plugins.host.info(name).map_err(host_fault)?;
    Ok(PluginGranted { name: info.name, state: info.state.word().to_owned(), digest: info.digest })
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

/// The plugins, unless they are off.
pub fn enabled(host: &Host) -> Result<&Plugins, Fault> {
    let plugins = host.plugins.get().filter(|plugins| plugins.host.enabled());
    plugins.ok_or_else(|| {
        Fault::new(FaultKind::PluginsDisabled, "plugins disabled")
            .hint("set plugins.enabled = true in the configuration and restart the host with greenroom upgrade")
    })
}

fn hook_named(name: &str) -> Result<HookName, Fault> {
    HookName::parse(name).ok_or_else(|| {
        let fault = Fault::new(FaultKind::InvalidParams, format!("there is no hook {name:?}"));
        match tree::nearest(name, HookName::all()) {
            Some(nearest) => fault.hint(format!("did you mean {nearest}?")),
            None => fault.hint("docs/plugins/hooks.md lists them"),
        }
    })
}

fn by(call: &Call) -> String {
    let via = match call.peer.caller.via {
        Via::Socket => "socket",
        Via::Http => "http",
    };
    format!("uid:{} {via}", rustix::process::getuid().as_raw())
}

/// Reads and digests files: not on a thread that serves others.
async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Fault> {
    let store = store.clone();
    match tokio::task::spawn_blocking(move || work(&store)).await {
        Ok(done) => done.map_err(store_fault),
        Err(error) => Err(Fault::new(FaultKind::Internal, error.to_string())),
    }
}

fn store_fault(error: StoreError) -> Fault {
    let kind = match &error {
        StoreError::Unknown { .. } => FaultKind::NotFound,
        StoreError::Taken { .. } | StoreError::Dropped { .. } | StoreError::Digest { .. } => {
            FaultKind::Conflict
        }
        StoreError::Disk { .. } | StoreError::Lock { .. } => FaultKind::Disk,
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
        HostError::Supply(_) | HostError::Keep { .. } => Fault::new(FaultKind::Disk, message),
    }
}
