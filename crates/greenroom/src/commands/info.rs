//! `greenroom info`: everything about one session.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::session::{InfoParams, Recording, SessionInfo};
use serde_json::{Value, json};

use super::ls::{at_home, state};
use super::{Context, left};
use crate::cli::SessionArg;
use crate::error::ExitResult;
use crate::output::{Cell, Output, bytes, since, span};

/// Describe one session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom info s3\n  greenroom info build --json\n  greenroom info s3 --explain"
)]
pub struct InfoArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Say how each setting came about
    #[arg(long)]
    pub explain: bool,
}

pub async fn run(args: InfoArgs, context: &Context) -> ExitResult {
    let session = args.session.session;
    let attempt = format!("describe {session}");
    let params = InfoParams { explain: args.explain, ..InfoParams::of(&session) };
    let describe = |info: &SessionInfo| describe(info, &context.out);
    context.show::<method::SessionInfo>(&params, &attempt, describe).await
}

fn describe(info: &SessionInfo, out: &Output) -> String {
    let ago = |time: &Timestamp| format!("{} ago ({time})", span(since(*time)));
    let mut rows = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            rows.push([Cell::from(name), Cell::whole(value)]);
        }
    };
    add("name", info.name.clone());
    let later = |name: &String| format!("{name} (a later session has that name now)");
    add("was called", info.former_name.as_ref().map(later));
    add("command", Some(info.command.join(" ")));
    add("cwd", Some(at_home(&info.cwd)));
    add("branch", info.branch.clone());
    let plugins: Vec<&str> = info.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    add("plugins", Some(plugins.join(", ")));
    add("sandbox", info.sandbox.clone());
    add("ends by", info.deadline_at.as_ref().map(ToString::to_string));
    add("pid", info.pid.map(|pid| pid.to_string()));
    add("size", Some(info.size.to_string()));
    add("title", info.title.clone());
    for (name, said) in json!(info.about).as_object().into_iter().flatten() {
        add(name, Some(words(said)));
    }
    add("created", Some(ago(&info.created_at)));
    add("ended", info.ended_at.as_ref().map(ago));
    add("exit", info.exit.as_ref().map(ToString::to_string));
    add("last output", info.last_output_at.as_ref().map(ago));
    let dropped = if info.first_seq > 0 {
        format!(", the first {} are gone", bytes(info.first_seq))
    } else {
        String::new()
    };
    add("output", Some(format!("{}{dropped}", bytes(info.seq))));
    let recording = match &info.recording {
        Recording::On => "on".to_owned(),
        Recording::Paused { why, since } => format!("paused since {since}: {why}"),
    };
    add("recording", Some(recording));
    let clients: Vec<String> = info
        .clients
        .iter()
        .map(|client| {
            let size = client.size.map(|size| format!(" {size}")).unwrap_or_default();
            let owner =
                if info.size_owner.as_ref() == Some(&client.id) { " owns the size" } else { "" };
            let read_only = if client.read_only { " read-only" } else { "" };
            format!("{}{size}{read_only}{owner}", client.id)
        })
        .collect();
    add("attached", Some(clients.join(", ")));
    add("masked", info.withheld.clone());
    for note in &info.notes {
        add("note", Some(note.clone()));
    }
    for line in left::lines(info) {
        add("left", Some(line));
    }
    add("explain", info.explain.as_ref().map(ToString::to_string));
    rows.insert(0, [Cell::from("state"), state(info)]);
    out.table([info.id.as_str(), ""], rows, &[])
}

/// A member of what is said of a session, in words.
fn words(said: &Value) -> String {
    match said {
        Value::String(text) => text.clone(),
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", words(value)));
            pairs.collect::<Vec<String>>().join(" ")
        }
        other => other.to_string(),
    }
}
