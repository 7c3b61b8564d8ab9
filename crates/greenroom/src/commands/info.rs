//! `greenroom info`: everything about one session.

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::session::{InfoParams, Recording, SessionInfo};

use super::ls::{at_home, state};
use super::{Context, left};
use crate::cli::InfoArgs;
use crate::error::Outcome;
use crate::output::{Cell, Output, bytes, span};

pub async fn run(args: InfoArgs, context: &Context) -> Outcome {
    let session = args.session.session;
    let attempt = format!("describe {session}");
    let params = InfoParams { explain: args.explain, ..InfoParams::of(&session) };
    let host = context.host().await?;
    let info: SessionInfo = host.call("session.info", &params, &attempt).await?;
    context.out.answer(&info, || describe(&info, &context.out))?;
    Ok(0)
}

fn describe(info: &SessionInfo, out: &Output) -> String {
    let now = Timestamp::from_system(std::time::SystemTime::now());
    let ago = |time: &Timestamp| {
        format!("{} ago ({time})", span(now.unix_ms().saturating_sub(time.unix_ms())))
    };
    let mut rows = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            rows.push(vec![Cell::from(name), Cell::whole(value)]);
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
    add("task", info.task.clone());
    add("backend", info.backend.clone());
    add("effort", info.effort.clone());
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
    add(
        "recording",
        match &info.recording {
            Recording::On => Some("on".to_owned()),
            Recording::Paused { why, since } => Some(format!("paused since {since}: {why}")),
        },
    );
    let labels: Vec<String> =
        info.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    add("labels", Some(labels.join(" ")));
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
    rows.insert(0, vec![Cell::from("state"), state(info)]);
    out.table(&[info.id.as_str(), ""], &rows, &[])
}
