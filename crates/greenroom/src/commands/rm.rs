//! `greenroom rm`: forgets sessions that have ended, with their recordings.

use greenroom_protocol::FaultKind;
use greenroom_protocol::api::session::{CloseParams, CloseResult};
use serde_json::json;

use super::{Context, several};
use crate::cli::RmArgs;
use crate::error::{Failure, Outcome};

pub async fn run(args: RmArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let by_name = !args.sessions.is_empty();
    let targets = match (by_name, args.ended) {
        (true, _) => several::named(args.sessions),
        (false, true) => several::chosen(&host, &["exited", "failed", "lost"], args.label).await?,
        (false, false) => several::chosen(&host, &[], args.label).await?,
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
        let closed: Result<CloseResult, Failure> =
            host.call("session.close", &params, &attempt).await;
        match closed {
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
