//! `greenroom rm`: forgets sessions that have ended, with their recordings.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::session::CloseParams;
use serde_json::json;

use super::{Context, several};
use crate::cli::parse_pair;
use crate::commands::completions::ended_candidates;
use crate::error::ExitResult;

/// Remove ended sessions and their recordings
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom rm s3\n  greenroom rm s3 s4 build\n  greenroom rm --ended\n  greenroom rm --ended --label team=core\n\nEach is tried; the exit code is the worst of them."
)]
pub struct RmArgs {
    /// Ids, names or unambiguous prefixes
    #[arg(
        value_name = "SESSION",
        required_unless_present_any = ["ended", "all", "label"],
        add = ArgValueCandidates::new(ended_candidates)
    )]
    pub sessions: Vec<String>,
    /// All sessions that have ended
    #[arg(long, conflicts_with_all = ["sessions", "all"])]
    pub ended: bool,
    /// All sessions; one that runs is refused, and said so
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,
    /// All sessions with this label (repeatable: with all of them)
    #[arg(long, value_name = "K=V", value_parser = parse_pair, conflicts_with = "sessions")]
    pub label: Vec<(String, String)>,
}

pub async fn run(args: RmArgs, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let targets = if args.sessions.is_empty() {
        let states: &[&str] = if args.ended { &["exited", "failed", "lost"] } else { &[] };
        several::chosen(&host, states, args.label).await?
    } else {
        several::named(args.sessions)
    };
    if targets.is_empty() {
        context.out.answer(&json!({ "removed": [] }), String::new)?;
        context.out.note("there is no such session; nothing was removed");
        return Ok(0);
    }
    let (mut removed, mut failures) = (Vec::new(), Vec::new());
    for target in targets {
        let session = target.session;
        let params = CloseParams { session: session.clone(), if_ended: true };
        let attempt = format!("remove {session}");
        match host.call::<method::SessionClose>(&params, &attempt).await {
            Ok(_) => removed.push(session),
            Err(mut failure) => {
                if failure.is(FaultKind::Conflict) {
                    failure.hint = Some(format!("end it first with greenroom kill {session}"));
                }
                failures.push(failure);
            }
        }
    }
    if !removed.is_empty() {
        context.out.answer(&json!({ "removed": removed }), || removed.join("\n"))?;
    }
    several::outcome(removed.len(), failures, context)
}
