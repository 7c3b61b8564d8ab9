//! `greenroom ls`: the sessions, one line each.

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{ListParams, ListResult, Listed, SessionInfo, SessionState};

use super::Context;
use crate::cli::LsArgs;
use crate::error::Outcome;
use crate::output::{Cell, Output, Tone, span};

pub async fn run(args: LsArgs, context: &Context) -> Outcome {
    let params = ListParams {
        detail: true,
        state: (!args.state.is_empty()).then_some(OneOrMany::Many(args.state)),
        labels: args.label.into_iter().collect(),
    };
    let filters: Vec<String> =
        params
            .labels
            .iter()
            .map(|(name, value)| format!("--label {name}={value}"))
            .chain(params.state.iter().flat_map(|states| {
                states.as_slice().iter().map(|state| format!("--state {state}"))
            }))
            .collect();
    let host = context.host().await?;
    let list: ListResult = host.call("session.list", &params, "list sessions").await?;
    if !context.out.json && list.sessions.is_empty() {
        match filters.is_empty() {
            true => context.out.note("no sessions; start one with greenroom new"),
            false => {
                let filters = filters.join(" ");
                context.out.note(&format!("no session fits {filters}; greenroom ls lists all"));
            }
        }
        return Ok(0);
    }
    context.out.answer(&list, || table(&list.sessions, &context.out))?;
    Ok(0)
}

/// The list as people read it.
pub fn table(sessions: &[Listed], out: &Output) -> String {
    let now = Timestamp::from_system(std::time::SystemTime::now());
    let infos = sessions.iter().filter_map(|listed| match listed {
        Listed::Info(info) => Some(info),
        Listed::Id(_) => None,
    });
    let rows: Vec<Vec<Cell>> = infos.map(|info| row(info, now)).collect();
    let head = ["ID", "NAME", "STATE", "AGE", "SIZE", "CWD", "COMMAND"];
    out.table(&head, &rows, &["NAME", "COMMAND", "CWD"])
}

fn row(info: &SessionInfo, now: Timestamp) -> Vec<Cell> {
    let place = match &info.branch {
        Some(branch) => format!("{} ({branch})", at_home(&info.cwd)),
        None => at_home(&info.cwd),
    };
    vec![
        Cell::from(info.id.as_str()),
        name(info),
        state(info),
        Cell::from(span(now.unix_ms().saturating_sub(info.created_at.unix_ms()))),
        Cell::from(info.size.to_string()),
        Cell::path(place),
        Cell::from(info.command.join(" ")),
    ]
}

/// A name that a later session took is in brackets: it leads there, not here.
fn name(info: &SessionInfo) -> Cell {
    match (&info.name, &info.former_name) {
        (Some(name), _) => Cell::from(name.as_str()),
        (None, Some(former)) => Cell::toned(Tone::Dim, format!("({former})")),
        (None, None) => Cell::from("-"),
    }
}

/// Glyph, word and colour: none of them alone.
pub fn state(info: &SessionInfo) -> Cell {
    let (tone, text) = own_state(info);
    match info.processes_left {
        0 => Cell::toned(tone, text),
        1 => Cell::toned(Tone::Warn, format!("{text}, 1 process left")),
        left => Cell::toned(Tone::Warn, format!("{text}, {left} processes left")),
    }
}

fn own_state(info: &SessionInfo) -> (Tone, String) {
    let (tone, text) = match (&info.state, &info.exit) {
        (SessionState::Starting, _) => (Tone::Busy, "◌ starting"),
        (SessionState::Running, _) => (Tone::Good, "▶ running"),
        (SessionState::Exited, Some(exit)) if exit.success => (Tone::Dim, "○ exited 0"),
        (SessionState::Exited, Some(exit)) => {
            let how = match (exit.code, &exit.signal) {
                (Some(code), _) => format!("exited {code}"),
                (None, Some(signal)) => signal.clone(),
                (None, None) => "exited ?".to_owned(),
            };
            return (Tone::Bad, format!("✗ {how}"));
        }
        (SessionState::Exited, None) => (Tone::Dim, "○ exited ?"),
        (SessionState::Failed, _) => (Tone::Bad, "✗ failed"),
        (SessionState::Lost, _) => (Tone::Warn, "· lost"),
    };
    (tone, text.to_owned())
}

/// `~` for the home directory.
pub fn at_home(path: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if !home.is_empty() => match path.strip_prefix(home.trim_end_matches('/')) {
            Some("") => "~".to_owned(),
            Some(rest) if rest.starts_with('/') => format!("~{rest}"),
            _ => path.to_owned(),
        },
        _ => path.to_owned(),
    }
}
