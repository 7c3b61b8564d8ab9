//! `greenroom events`: the event log as JSON lines, one event each.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::EventFilter;

use super::Context;
use crate::commands::completions::session_candidates;
use crate::error::ExitResult;
use crate::host::called;

/// Read the event log as JSON lines
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom events\n  greenroom events --follow\n  greenroom events --since 120 --session s3\n  greenroom events --follow --kind 'session.*'"
)]
pub struct EventsArgs {
    /// Go on with what happens next
    #[arg(short, long)]
    pub follow: bool,
    /// Events after this id [default: all that are kept; with --follow only new ones]
    #[arg(long, value_name = "N")]
    pub since: Option<u64>,
    /// Only about this session (repeatable)
    #[arg(long, value_name = "SESSION", add = ArgValueCandidates::new(session_candidates))]
    pub session: Vec<String>,
    /// Only of this kind, such as session.exited or session.* (repeatable)
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
}

pub async fn run(args: EventsArgs, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let filter = EventFilter { sessions: args.session, kinds: args.kind };
    let mut events = host.client.events(args.since, filter, args.follow);
    loop {
        let next = tokio::select! {
            event = events.next() => event,
            // Ctrl-C is how following ends; it is no failure.
            _ = tokio::signal::ctrl_c(), if args.follow => Ok(None),
        };
        match next.map_err(|error| called("read events", error))? {
            Some(event) => context.out.json_line(&event)?,
            None => return Ok(0),
        }
    }
}
