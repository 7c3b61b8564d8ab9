//! What a person is asked to agree to: what will run, where it takes part and how it fails, what it asks for.

use greenroom_plugins::host::{PluginInfo, Standing};
use greenroom_plugins::store::lock::Record;
use greenroom_protocol::api::plugin::Consent;
use greenroom_protocol::manifest::RuntimeKind;

use super::view;

/// Whether somebody has to decide about it.
pub fn waits(info: &PluginInfo) -> bool {
    matches!(info.standing, Standing::NeedsConsent | Standing::Modified)
}

pub fn consent(info: &PluginInfo, record: Option<&Record>) -> Consent {
    let manifest = info.manifest.as_deref();
    let runs = manifest.into_iter().flat_map(|manifest| &manifest.runtime).map(|runtime| {
        let words = match runtime.kind {
            RuntimeKind::Lua => runtime.entry.clone().unwrap_or_default(),
            _ => runtime.command.join(" "),
        };
        format!("{words} ({})", runtime.kind.word())
    });
    let identity = manifest.map(|manifest| manifest.plugin.clone()).unwrap_or_default();
    let from_manifest = || {
        let entries = manifest.into_iter().flat_map(|manifest| &manifest.hooks);
        let views = entries.map(|entry| greenroom_protocol::api::plugin::HookView {
            hook: entry.hook.name().to_owned(),
            class: entry.hook.hook.class().word().to_owned(),
            stage: entry.stage.word().to_owned(),
            priority: entry.priority,
            deadline_ms: entry.timeout_ms.unwrap_or_else(|| {
                u64::try_from(entry.hook.hook.row().deadline.as_millis()).unwrap_or(u64::MAX)
            }),
            on_failure: entry.policy().word().to_owned(),
        });
        views.collect::<Vec<_>>()
    };
    let hooks: Vec<_> = info.hooks.iter().map(view::hook).collect();
    Consent {
        name: info.name.clone(),
        version: identity.version,
        description: identity.description,
        state: info.state.word().to_owned(),
        source: record
            .map_or_else(|| format!("dir+{}", info.dir.display()), |record| record.source.clone()),
        digest: info.digest.clone(),
        format: manifest.map(|manifest| manifest.format.word().to_owned()).unwrap_or_default(),
        runs: runs.collect(),
        hooks: if hooks.is_empty() { from_manifest() } else { hooks },
        capabilities: view::capabilities(info),
        warnings: info.warnings.clone(),
    }
}
