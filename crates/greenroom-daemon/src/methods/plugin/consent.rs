//! What a person is asked to agree to: what will run, where it takes part and how it fails, what it
//! asks for.

use greenroom_formats::manifest::RuntimeKind;
use greenroom_plugins::host::{PluginInfo, Standing};
use greenroom_plugins::store::lock::Record;
use greenroom_protocol::api::plugin::Consent;

use super::view;
use crate::convert;

/// Whether somebody has to decide about it.
pub(crate) fn waits(info: &PluginInfo) -> bool {
    matches!(info.found.standing, Standing::NeedsConsent | Standing::Modified)
}

pub(crate) fn consent(info: &PluginInfo, record: Option<&Record>) -> Consent {
    let manifest = info.found.manifest.as_deref();
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
            deadline_ms: entry
                .timeout_ms
                .unwrap_or_else(|| convert::millis(entry.hook.hook.row().deadline)),
            on_failure: entry.policy().word().to_owned(),
        });
        views.collect::<Vec<_>>()
    };
    let hooks: Vec<_> = info.hooks.iter().map(view::hook).collect();
    Consent {
        name: info.found.name.clone(),
        version: identity.version,
        description: identity.description,
        state: info.state.word().to_owned(),
        source: record.map_or_else(
            || format!("dir+{}", info.found.dir.display()),
            |record| record.source.clone(),
        ),
        digest: info.found.digest.clone(),
        format: manifest.map(|manifest| manifest.format.word().to_owned()).unwrap_or_default(),
        runs: runs.collect(),
        hooks: if hooks.is_empty() { from_manifest() } else { hooks },
        capabilities: view::capabilities(info),
        warnings: info.found.warnings.clone(),
    }
}
