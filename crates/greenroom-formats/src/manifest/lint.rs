//! What a manifest may say and its author probably should not.
//!
//! Each warning has a stable code; nothing here keeps a plugin from loading.

use greenroom_plugin_api::capability::Allow;
use greenroom_plugin_api::file::{Manifest, RuntimeKind};
use greenroom_plugin_api::hook::{Class, Hook, OnFailure, Stage};

use super::load::Doubt;
use crate::tree::{Node, Step};

/// How long all plugins of one hook may take together; a longer deadline is never used up.
pub fn budget_ms(hook: Hook) -> Option<u64> {
    match hook {
        Hook::SessionBefore => Some(30_000),
        Hook::InputSubmit => Some(5_000),
        Hook::OutputFilter => Some(500),
        _ => None,
    }
}

pub(super) fn lint(manifest: &Manifest, root: &Node<'_>) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    hooks(manifest, root, &mut doubts);
    capabilities(manifest, root, &mut doubts);
    let idle = manifest.hooks.is_empty()
        && manifest.session.is_none()
        && manifest.adapter.is_none()
        && manifest.capsule.is_none();
    if idle {
        let text =
            "this plugin takes part in nothing: it has no hooks, session, adapter or capsule";
        doubts.push(Doubt::new("W-IDLE", root.at, text));
    }
    doubts
}

fn hooks(manifest: &Manifest, root: &Node<'_>, doubts: &mut Vec<Doubt>) {
    for (index, entry) in manifest.hooks.iter().enumerate() {
        // datawatch's list holds names, ours tables; the walk stops where the path ends.
        let at = |key| root.find(&[Step::Key("hooks"), Step::Index(index), Step::Key(key)]);
        let (name, class) = (entry.hook.name(), entry.hook.hook.class());
        let open = entry.policy() == OnFailure::Pass;
        if open && class == Class::Filter && (entry.stage == Stage::Redact || entry.hook.datawatch)
        {
            let text = format!(
                "{name} fails open: when the plugin is late or broken its lines pass unchanged; \
                 on_failure = \"mask\" hides them instead"
            );
            doubts.push(Doubt::new("W-FAILOPEN", at("on_failure"), text));
        }
        if entry.on_failure == Some(OnFailure::Pass)
            && entry.hook.hook.row().on_failure == OnFailure::Block
        {
            let text =
                format!("{name} fails open: when the plugin is broken everything is let through");
            doubts.push(Doubt::new("W-FAILOPEN", at("on_failure"), text));
        }
        let kind = manifest.runtime_of(entry).map(|runtime| runtime.kind);
        if class == Class::Filter
            && kind == Some(RuntimeKind::Oneshot)
            && entry.when.regex.is_none()
        {
            let text = format!(
                "{name} starts a program for every line; a jsonl runtime or when.regex makes it \
                 a hundred times faster"
            );
            doubts.push(Doubt::new("W-SLOW", at("runtime"), text));
        }
        let said =
            entry.timeout_ms.or(manifest.runtime_of(entry).and_then(|runtime| runtime.timeout_ms));
        if let (Some(said), Some(budget)) = (said, budget_ms(entry.hook.hook))
            && said > budget
            && !entry.hook.datawatch
        {
            let text = format!(
                "all plugins of {name} together get {budget} ms, so {said} ms are never used"
            );
            doubts.push(Doubt::new("W-BUDGET", at("timeout_ms"), text));
        }
        let twice = manifest.hooks[..index]
            .iter()
            .any(|other| other.hook.hook == entry.hook.hook && other.when == entry.when);
        if twice {
            doubts.push(Doubt::new("W-TWICE", at("hook"), format!("{name} is hooked twice")));
        }
    }
}

fn capabilities(manifest: &Manifest, root: &Node<'_>, doubts: &mut Vec<Doubt>) {
    for (name, allow) in manifest.capabilities.asked.iter().filter(|(_, allow)| allow.any()) {
        let at = root.find(&[Step::Key("capabilities"), Step::Key(name)]);
        let native = manifest.format == super::Format::Native;
        if native && !manifest.capabilities.reason.contains_key(name) && takes_reason(name) {
            let text =
                format!("say why in [capabilities.reason]: whoever is asked for {name} reads it");
            doubts.push(Doubt::new("W-NOREASON", at, text));
        }
        if *allow == Allow::Flag(true) && matches!(name.as_str(), "net.connect" | "proc.exec") {
            let text = format!("{name} = true is everything; a list says what is needed");
            doubts.push(Doubt::new("W-BROAD", at, text));
        }
    }
}

/// Whether a capability reaches beyond the host.
fn takes_reason(name: &str) -> bool {
    ["fs.", "net.", "proc.", "socket.", "secrets.", "env."]
        .iter()
        .any(|group| name.starts_with(group))
}
