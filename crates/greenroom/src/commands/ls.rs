//! `greenroom ls`: the sessions, one line each.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{ListParams, Listed, SessionInfo, SessionState};

use super::Context;
use crate::cli::parse_pair;
use crate::error::ExitResult;
use crate::output::{Cell, Output, Tone, since, span};

/// List sessions
#[derive(Debug, Args)]
#[command(
    visible_alias = "list",
    after_help = "Examples:\n  greenroom ls\n  greenroom ls --json\n  greenroom ls --state running --label team=core"
)]
pub struct LsArgs {
    /// Only sessions in this state (repeatable)
    #[arg(long, value_name = "STATE", value_parser = ["starting", "running", "exited", "failed", "lost"])]
    pub state: Vec<String>,
    /// Only sessions with this label (repeatable)
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub label: Vec<(String, String)>,
}

pub async fn run(args: LsArgs, context: &Context) -> ExitResult {
    let params = ListParams {
        detail: true,
        state: (!args.state.is_empty()).then_some(OneOrMany::Many(args.state)),
        labels: args.label.into_iter().collect(),
    };
    let labels = params.labels.iter().map(|(name, value)| format!("--label {name}={value}"));
    let states = params.state.iter().flat_map(OneOrMany::as_slice);
    let states = states.map(|state| format!("--state {state}"));
    let filters: Vec<String> = labels.chain(states).collect();
    let list = context.call::<method::SessionList>(&params, "list sessions").await?;
    let none = if filters.is_empty() {
        "no sessions; start one with greenroom new".to_owned()
    } else {
        format!("no session fits {}; greenroom ls lists all", filters.join(" "))
    };
    let sessions = &list.sessions;
    context.out.list(&list, sessions, &none, || table(sessions, &context.out))
}

/// The list as people read it.
pub fn table(sessions: &[Listed], out: &Output) -> String {
    let rows = sessions.iter().filter_map(Listed::info).map(row);
    let head = ["ID", "NAME", "STATE", "AGE", "SIZE", "CWD", "COMMAND"];
    out.table(head, rows, &["NAME", "COMMAND", "CWD"])
}

fn row(info: &SessionInfo) -> [Cell; 7] {
    let place = match &info.branch {
        Some(branch) => format!("{} ({branch})", at_home(&info.cwd)),
        None => at_home(&info.cwd),
    };
    [
        info.id.as_str().into(),
        name(info),
        state(info),
        span(since(info.created_at)).into(),
        info.size.to_string().into(),
        Cell::path(place),
        info.command.join(" ").into(),
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
