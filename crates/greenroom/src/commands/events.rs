//! `greenroom events`: the event log as JSON lines, one event each.

use greenroom_client::EventFilter;

use super::Context;
use crate::cli::EventsArgs;
use crate::error::Outcome;
use crate::host::called;

pub async fn run(args: EventsArgs, context: &Context) -> Outcome {
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
