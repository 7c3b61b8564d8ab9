//! What the host knows of plugins, as the wire shows it.

use std::path::Path;

use greenroom_formats::manifest::{Allow, Hook, Runtime, capability};
use greenroom_plugins::host::{HookInfo, OrderedHook, PluginInfo, Standing, Statistics, starts};
use greenroom_plugins::store::lock::Record;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::plugin::*;
use greenroom_workspace::chain::Registry;
use serde_json::{Value, json};

use crate::convert;

/// What the host itself does to sessions.
pub(crate) fn native(plugins: &Registry) -> Vec<NativePlugin> {
    let native = plugins.descriptions().filter_map(|about| {
        Some(NativePlugin {
            name: about.name.to_owned(),
            kind: "native".to_owned(),
            description: about.summary?.to_owned(),
            enabled: true,
        })
    });
    native.collect()
}

pub(crate) fn view(info: &PluginInfo) -> PluginView {
    let manifest = info.found.manifest.as_deref();
    let identity = manifest.map(|manifest| manifest.plugin.clone()).unwrap_or_default();
    let runtime = manifest.and_then(|manifest| manifest.runtime.first());
    let entry = runtime.and_then(program);
    PluginView {
        name: info.found.name.clone(),
        version: identity.version,
        description: identity.description,
        format: manifest.map(|manifest| manifest.format.word().to_owned()).unwrap_or_default(),
        hooks: info.hooks.iter().map(|hook| hook.hook.name().to_owned()).collect(),
        resolved_entry: entry.map(|entry| resolved(&info.found.root, entry)),
        entry: entry.map(str::to_owned),
        mode: runtime.map(|runtime| runtime.kind.word().to_owned()),
        timeout_ms: runtime.and_then(|runtime| runtime.timeout_ms),
        dir: info.found.dir.display().to_string(),
        enabled: info.enabled,
        state: info.state.word().to_owned(),
        why: info.why.clone(),
        linked: info.found.standing == Standing::Linked,
        level: info.level.map(str::to_owned),
        digest: info.found.digest.clone(),
        invoke_count: info.stats.calls,
        error_count: info.stats.errors,
        last_invoke_at: info.stats.last_call_ms.map(Timestamp),
        last_error: info.stats.last_error.clone(),
        problems: match &info.found.standing {
            Standing::Invalid(problems) => problems.clone(),
            _ => Vec::new(),
        },
        warnings: info.found.warnings.clone(),
    }
}

/// What runs, in the words of the manifest.
pub(crate) fn program(runtime: &Runtime) -> Option<&str> {
    runtime.command.first().or(runtime.entry.as_ref()).map(String::as_str)
}

fn resolved(root: &Path, entry: &str) -> String {
    root.join(entry.trim_start_matches("./")).display().to_string()
}

pub(crate) fn get(info: &PluginInfo, record: Option<Record>) -> PluginGetResult {
    PluginGetResult {
        view: view(info),
        manifest: manifest(info),
        hook_details: info.hooks.iter().map(hook).collect(),
        capabilities: capabilities(info),
        stats: stats(&info.stats),
        generation: info.generation,
        source: record.as_ref().map(|record| record.source.clone()),
        granted_at: record.as_ref().and_then(|record| record.granted_at.clone()),
        granted_by: record.and_then(|record| record.granted_by),
    }
}

/// Values of its environment may be secrets of the operator.
pub(crate) fn manifest(info: &PluginInfo) -> Option<Value> {
    let mut value = serde_json::to_value(info.found.manifest.as_deref()?).ok()?;
    let runtimes = value.get_mut("runtime").and_then(Value::as_array_mut);
    for env in
        runtimes.into_iter().flatten().filter_map(|runtime| runtime.get_mut("env")?.as_object_mut())
    {
        for (_, value) in env.iter_mut() {
            if !value.as_str().is_some_and(|text| text.starts_with("${secret:")) {
                *value = json!("(hidden)");
            }
        }
    }
    Some(value)
}

pub(crate) fn hook(info: &HookInfo) -> HookView {
    HookView {
        hook: info.hook.name().to_owned(),
        class: info.hook.hook.class().word().to_owned(),
        stage: info.stage.to_owned(),
        priority: info.priority,
        deadline_ms: convert::millis(info.deadline),
        on_failure: info.on_failure.word().to_owned(),
    }
}

pub(crate) fn ordered(one: &OrderedHook) -> OrderEntry {
    let (plugin, why) = (one.plugin.clone(), one.why.clone());
    OrderEntry { plugin, hook: hook(&one.hook), asked: one.asked, why }
}

/// Each that is asked for; in the order of their names.
pub(crate) fn capabilities(info: &PluginInfo) -> Vec<CapabilityView> {
    let Some(manifest) = info.found.manifest.as_deref() else { return Vec::new() };
    let asked = manifest.capabilities.asked.iter().filter(|(_, allow)| allow.any());
    let view = |(name, allow): (&String, &_)| {
        let row = capability::find(name);
        let level = match row.map(|row| row.held_by) {
            // The host asks on every call: there is no way around it.
            Some(capability::HeldBy::Host) => "enforced",
            _ => info.level.unwrap_or("advisory"),
        };
        CapabilityView {
            name: name.clone(),
            means: row.map(|row| row.summary.to_owned()).unwrap_or_default(),
            asked: Clone::clone(allow),
            granted: info.found.grants.get(name).filter(|allow| allow.any()).cloned(),
            reason: manifest.capabilities.reason.get(name).cloned(),
            level: level.to_owned(),
        }
    };
    let mut views: Vec<CapabilityView> = asked.map(view).collect();
    views.extend(implied(info).filter(|one| manifest.capabilities.get(&one.name).is_none()));
    views
}

/// What datawatch's contract gives a hook without being asked: whoever agrees to the plugin agrees
/// to that.
fn implied(info: &PluginInfo) -> impl Iterator<Item = CapabilityView> {
    let hooks = info.found.manifest.iter().flat_map(|manifest| &manifest.hooks);
    let starts =
        hooks.filter(|entry| entry.hook.datawatch && entry.hook.hook == Hook::SessionBefore);
    let view = |entry: &greenroom_formats::manifest::HookEntry| CapabilityView {
        name: starts::CAPABILITY.to_owned(),
        means: capability::find(starts::CAPABILITY).map_or("", |row| row.summary).to_owned(),
        asked: Allow::Flag(true),
        granted: info.found.standing.may_run().then_some(Allow::Flag(true)),
        reason: Some(format!("{} may do so by datawatch's contract", entry.hook.name())),
        level: "enforced".to_owned(),
    };
    starts.map(view).take(1)
}

pub(crate) fn stats(stats: &Statistics) -> PluginStats {
    PluginStats {
        calls: stats.calls,
        errors: stats.errors,
        timeouts: stats.timeouts,
        drops: stats.drops,
        restarts: stats.restarts,
        p50_ms: stats.quantile(0.5).map(|time| time.as_secs_f64() * 1000.0),
        p99_ms: stats.quantile(0.99).map(|time| time.as_secs_f64() * 1000.0),
        last_error: stats.last_error.clone(),
        last_error_at: stats.last_error_ms.map(Timestamp),
        hooks: stats
            .hooks
            .iter()
            .map(|(hook, (calls, errors))| {
                (hook.clone(), HookCounts { calls: *calls, errors: *errors })
            })
            .collect(),
    }
}
