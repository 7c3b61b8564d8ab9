//! Plugins as people read them: tables of at most 80 columns.

use greenroom_protocol::api::plugin::*;

use crate::commands::ls::at_home;
use crate::output::{Cell, Output, Tone, count, one_line};

pub fn list(list: &PluginListResult, out: &Output) -> String {
    let head = ["NAME", "STATE", "HOOKS", "CALLS", "ERRORS", "DIR"];
    out.table(head, list.plugins.iter().map(row), &["DIR", "HOOKS"])
}

fn row(plugin: &PluginView) -> [Cell; 6] {
    let linked = if plugin.linked { " LINKED" } else { "" };
    let (glyph, tone) = state(&plugin.state);
    [
        plugin.name.as_str().into(),
        Cell::toned(tone, format!("{glyph} {}{linked}", plugin.state)),
        plugin.hooks.join(" ").into(),
        plugin.invoke_count.to_string().into(),
        plugin.error_count.to_string().into(),
        at_home(&plugin.dir).into(),
    ]
}

fn state(state: &str) -> (&'static str, Tone) {
    match state {
        "running" | "idle" => ("●", Tone::Good),
        "spawning" | "draining" => ("◐", Tone::Busy),
        "backoff" => ("◐", Tone::Warn),
        "disabled" | "stopped" => ("○", Tone::Dim),
        "needs_consent" | "modified" => ("?", Tone::Warn),
        "degraded" => ("✗", Tone::Warn),
        _ => ("✗", Tone::Bad),
    }
}

/// What to do about those that do not take part.
pub fn troubles(list: &PluginListResult, out: &Output) {
    for trouble in &list.troubles {
        out.note(&one_line(trouble));
    }
    for PluginView { name, state, format, problems, .. } in &list.plugins {
        for problem in problems {
            out.note(&format!("{name}: {}", one_line(problem)));
        }
        match state.as_str() {
            "needs_consent" => out.note(&format!(
                "{name} waits for consent: greenroom plugin pending, then greenroom plugin grant {name}"
            )),
            "modified" if format == "datawatch" => out.note(&format!(
                "{name} has changed: greenroom plugin reload takes it as it is now"
            )),
            "modified" => out
                .note(&format!("{name} has changed: greenroom plugin grant {name} agrees again")),
            _ => {}
        }
    }
}

/// Enough of a digest to tell it from others.
pub fn short(digest: &str) -> &str {
    digest.get(.."sha256:".len() + 12).unwrap_or(digest)
}

pub fn info(info: &PluginGetResult, out: &Output) -> String {
    let view = &info.view;
    let name = out.paint(Tone::Head, &one_line(&view.name));
    let mut text = format!("{name} {}\n", one_line(&view.version));
    let mut toned = |name: &str, tone: Tone, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<10} {}\n", out.paint(tone, &one_line(value))));
        }
    };
    toned("about", Tone::Plain, &view.description);
    let state = match &view.why {
        Some(why) => format!("{}: {why}", view.state),
        None => view.state.clone(),
    };
    toned("state", self::state(&view.state).1, &state);
    let mut line = |name: &str, value: &str| toned(name, Tone::Plain, value);
    line("linked", if view.linked { "whatever lies there runs" } else { "" });
    line("format", &view.format);
    line("runs", view.resolved_entry.as_deref().unwrap_or_default());
    line("held", view.level.as_deref().unwrap_or_default());
    line("from", info.source.as_deref().unwrap_or(&view.dir));
    line("digest", short(&view.digest));
    if let (Some(at), Some(by)) = (&info.granted_at, &info.granted_by) {
        line("granted", &format!("{at} by {by}"));
    }
    let PluginStats { calls, errors, timeouts, drops, .. } = &info.stats;
    line("calls", &format!("{calls} ({errors} errors, {timeouts} timeouts, {drops} drops)"));
    if let (Some(p50), Some(p99)) = (info.stats.p50_ms, info.stats.p99_ms) {
        line("times", &format!("half within {p50:.1} ms, nearly all within {p99:.1} ms"));
    }
    line("last error", view.last_error.as_deref().unwrap_or_default());
    if !info.hook_details.is_empty() {
        text.push_str(&format!("\n{}\n", hooks(&info.hook_details, out)));
    }
    if !info.capabilities.is_empty() {
        text.push_str(&format!("\n{}\n", capabilities(&info.capabilities, out)));
    }
    for problem in &view.problems {
        text.push_str(&format!("{} {}\n", out.paint(Tone::Bad, "error"), one_line(problem)));
    }
    for warning in &view.warnings {
        text.push_str(&format!("{} {}\n", out.paint(Tone::Warn, "warning"), one_line(warning)));
    }
    text
}

pub fn hooks(hooks: &[HookView], out: &Output) -> String {
    let rows = hooks.iter().map(|hook| {
        let failure = hook.on_failure.as_str();
        [
            hook.hook.as_str().into(),
            hook.class.as_str().into(),
            hook.stage.as_str().into(),
            hook.priority.to_string().into(),
            format!("{} ms", hook.deadline_ms).into(),
            Cell::toned(if failure == "pass" { Tone::Warn } else { Tone::Plain }, failure),
        ]
    });
    out.table(["HOOK", "CLASS", "STAGE", "PRIORITY", "DEADLINE", "ON FAILURE"], rows, &["HOOK"])
}

pub fn capabilities(capabilities: &[CapabilityView], out: &Output) -> String {
    let rows = capabilities.iter().map(|one| {
        let granted = match &one.granted {
            Some(granted) => Cell::toned(Tone::Good, granted.to_string()),
            None => Cell::toned(Tone::Dim, "no"),
        };
        [
            one.name.as_str().into(),
            one.asked.to_string().into(),
            granted,
            one.level.as_str().into(),
            one.reason.as_deref().unwrap_or(&one.means).into(),
        ]
    });
    out.table(["CAPABILITY", "ASKS", "HAS", "LEVEL", "WHY"], rows, &["ASKS", "HAS", "WHY"])
}

pub fn logs(logs: &PluginLogsResult) -> String {
    let line =
        |line: &PluginLogLine| format!("{} {:<7} {}", line.at, line.kind, one_line(&line.text));
    logs.lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub fn reloaded(done: &PluginReloadResult) -> String {
    let mut text = count(done.count, "plugin");
    for (word, names) in
        [("added", &done.added), ("changed", &done.changed), ("removed", &done.removed)]
    {
        if !names.is_empty() {
            text.push_str(&format!("\n{word}: {}", names.join(", ")));
        }
    }
    for failed in &done.failed {
        text.push_str(&format!("\nbroken: {}", one_line(failed)));
    }
    text
}

/// The answer as the plugin would have given it, on one line.
pub fn tested(tested: &PluginTestResult) -> String {
    let mut answer = serde_json::Map::new();
    answer.insert("action".to_owned(), tested.action.clone().into());
    answer.extend(tested.answer.clone());
    crate::safe::json(&serde_json::Value::Object(answer).to_string())
}

pub fn test_remarks(name: &str, tested: &PluginTestResult, out: &Output) {
    if let Some(failure) = &tested.failure {
        out.note(&format!(
            "the plugin failed: {}; {} is what its policy says",
            one_line(failure),
            tested.action
        ));
    }
    for line in tested.stderr.lines().take(20) {
        out.note(&format!("stderr: {}", one_line(line)));
    }
    out.note(&format!("took {:.1} ms", tested.took_ms));
    if tested.failure.is_some() {
        out.note(&format!(
            "hint: greenroom plugin logs {name} has what it said; a program that stays must flush \
             after each line, and without proc.exec it starts no others"
        ));
    }
}

pub fn order(order: &PluginOrderResult, out: &Output) -> String {
    let rows = (1..).zip(&order.order).map(|(place, entry): (usize, _)| {
        let (tone, asked) = if entry.asked { (Tone::Good, "yes") } else { (Tone::Dim, "no") };
        [
            place.to_string().into(),
            entry.plugin.as_str().into(),
            entry.hook.stage.as_str().into(),
            entry.hook.priority.to_string().into(),
            format!("{} ms", entry.hook.deadline_ms).into(),
            entry.hook.on_failure.as_str().into(),
            Cell::toned(tone, asked),
            entry.why.as_str().into(),
        ]
    });
    let head = ["", "PLUGIN", "STAGE", "PRIO", "DEADLINE", "FAILS", "ASKED", "WHY"];
    out.table(head, rows, &["WHY", "PLUGIN"])
}

pub fn stats(stats: &PluginStatsResult, out: &Output) -> String {
    let ms = |time: Option<f64>| time.map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
    let rows = stats.plugins.iter().map(|(name, stats)| {
        [
            name.as_str().into(),
            stats.calls.to_string().into(),
            stats.errors.to_string().into(),
            stats.timeouts.to_string().into(),
            stats.drops.to_string().into(),
            stats.restarts.to_string().into(),
            ms(stats.p50_ms).into(),
            ms(stats.p99_ms).into(),
            stats.last_error.as_deref().unwrap_or_default().into(),
        ]
    });
    let head = ["NAME", "CALLS", "ERRORS", "LATE", "DROPS", "STARTS", "P50", "P99", "LAST ERROR"];
    out.table(head, rows, &["LAST ERROR", "NAME"])
}
