//! Plugins as people read them: tables of at most 80 columns.

use greenroom_protocol::api::plugin::*;

use crate::output::{Cell, Output, Tone, count, one_line};

pub fn list(list: &PluginListResult, out: &Output) -> String {
    let rows: Vec<Vec<Cell>> = list.plugins.iter().map(row).collect();
    out.table(&["NAME", "STATE", "HOOKS", "CALLS", "ERRORS", "DIR"], &rows, &["DIR", "HOOKS"])
}

fn row(plugin: &PluginView) -> Vec<Cell> {
    let linked = if plugin.linked { " LINKED" } else { "" };
    vec![
        Cell::from(plugin.name.as_str()),
        Cell::toned(
            tone(&plugin.state),
            format!("{} {}{linked}", glyph(&plugin.state), plugin.state),
        ),
        Cell::from(plugin.hooks.join(" ")),
        Cell::from(plugin.invoke_count.to_string()),
        Cell::from(plugin.error_count.to_string()),
        Cell::from(super::super::ls::at_home(&plugin.dir)),
    ]
}

fn glyph(state: &str) -> &'static str {
    match state {
        "running" | "idle" => "●",
        "spawning" | "draining" | "backoff" => "◐",
        "disabled" | "stopped" => "○",
        "needs_consent" | "modified" => "?",
        _ => "✗",
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "running" | "idle" => Tone::Good,
        "spawning" | "draining" => Tone::Busy,
        "disabled" | "stopped" => Tone::Dim,
        "needs_consent" | "modified" | "backoff" | "degraded" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// What to do about those that do not take part.
pub fn troubles(list: &PluginListResult, out: &Output) {
    for plugin in &list.plugins {
        for problem in &plugin.problems {
            out.note(&format!("{}: {}", plugin.name, one_line(problem)));
        }
        match plugin.state.as_str() {
            "needs_consent" => out.note(&format!(
                "{} waits for consent: greenroom plugin pending, then greenroom plugin grant {}",
                plugin.name, plugin.name
            )),
            "modified" if plugin.format == "datawatch" => out.note(&format!(
                "{} has changed: greenroom plugin reload takes it as it is now",
                plugin.name
            )),
            "modified" => out.note(&format!(
                "{} has changed: greenroom plugin grant {} agrees again",
                plugin.name, plugin.name
            )),
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
    toned("state", tone(&view.state), &state);
    let mut line = |name: &str, value: &str| toned(name, Tone::Plain, value);
    line("linked", if view.linked { "whatever lies there runs" } else { "" });
    line("format", &view.format);
    line("runs", view.resolved_entry.as_deref().unwrap_or_default());
    line("held", view.level.as_deref().unwrap_or_default());
    line("from", info.source.as_deref().unwrap_or(&view.dir));
    line("digest", short(&view.digest));
    let granted = match (&info.granted_at, &info.granted_by) {
        (Some(at), Some(by)) => format!("{at} by {by}"),
        _ => String::new(),
    };
    line("granted", &granted);
    let stats = &info.stats;
    line(
        "calls",
        &format!(
            "{} ({} errors, {} timeouts, {} drops)",
            stats.calls, stats.errors, stats.timeouts, stats.drops
        ),
    );
    line(
        "times",
        &match (stats.p50_ms, stats.p99_ms) {
            (Some(p50), Some(p99)) => {
                format!("half within {p50:.1} ms, nearly all within {p99:.1} ms")
            }
            _ => String::new(),
        },
    );
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
    let rows: Vec<Vec<Cell>> = hooks
        .iter()
        .map(|hook| {
            let failure = match hook.on_failure.as_str() {
                "pass" => Cell::toned(Tone::Warn, "pass"),
                other => Cell::from(other),
            };
            vec![
                Cell::from(hook.hook.as_str()),
                Cell::from(hook.class.as_str()),
                Cell::from(hook.stage.as_str()),
                Cell::from(hook.priority.to_string()),
                Cell::from(format!("{} ms", hook.deadline_ms)),
                failure,
            ]
        })
        .collect();
    out.table(&["HOOK", "CLASS", "STAGE", "PRIORITY", "DEADLINE", "ON FAILURE"], &rows, &["HOOK"])
}

pub fn capabilities(capabilities: &[CapabilityView], out: &Output) -> String {
    let rows: Vec<Vec<Cell>> = capabilities
        .iter()
        .map(|one| {
            let granted = match &one.granted {
                Some(granted) => Cell::toned(Tone::Good, granted.to_string()),
                None => Cell::toned(Tone::Dim, "no"),
            };
            let why = one.reason.as_deref().unwrap_or(&one.means);
            vec![
                Cell::from(one.name.as_str()),
                Cell::from(one.asked.to_string()),
                granted,
                Cell::from(one.level.as_str()),
                Cell::from(why),
            ]
        })
        .collect();
    out.table(&["CAPABILITY", "ASKS", "HAS", "LEVEL", "WHY"], &rows, &["ASKS", "HAS", "WHY"])
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
    let rows: Vec<Vec<Cell>> = order
        .order
        .iter()
        .enumerate()
        .map(|(at, entry)| {
            let asked = match entry.asked {
                true => Cell::toned(Tone::Good, "yes"),
                false => Cell::toned(Tone::Dim, "no"),
            };
            vec![
                Cell::from((at + 1).to_string()),
                Cell::from(entry.plugin.as_str()),
                Cell::from(entry.hook.stage.as_str()),
                Cell::from(entry.hook.priority.to_string()),
                Cell::from(format!("{} ms", entry.hook.deadline_ms)),
                Cell::from(entry.hook.on_failure.as_str()),
                asked,
                Cell::from(entry.why.as_str()),
            ]
        })
        .collect();
    let head = ["", "PLUGIN", "STAGE", "PRIO", "DEADLINE", "FAILS", "ASKED", "WHY"];
    out.table(&head, &rows, &["WHY", "PLUGIN"])
}

pub fn stats(stats: &PluginStatsResult, out: &Output) -> String {
    let ms = |time: Option<f64>| time.map(|ms| format!("{ms:.1} ms")).unwrap_or_default();
    let rows: Vec<Vec<Cell>> = stats
        .plugins
        .iter()
        .map(|(name, stats)| {
            vec![
                Cell::from(name.as_str()),
                Cell::from(stats.calls.to_string()),
                Cell::from(stats.errors.to_string()),
                Cell::from(stats.timeouts.to_string()),
                Cell::from(stats.drops.to_string()),
                Cell::from(stats.restarts.to_string()),
                Cell::from(ms(stats.p50_ms)),
                Cell::from(ms(stats.p99_ms)),
                Cell::from(stats.last_error.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    let head = ["NAME", "CALLS", "ERRORS", "LATE", "DROPS", "STARTS", "P50", "P99", "LAST ERROR"];
    out.table(&head, &rows, &["LAST ERROR", "NAME"])
}
