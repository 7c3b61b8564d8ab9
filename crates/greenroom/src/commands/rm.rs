//! `greenroom rm`: forgets sessions that have ended, with their recordings.

use greenroom_protocol::FaultKind;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{CloseParams, CloseResult, ListParams, ListResult, Listed};
use serde_json::json;

use super::Context;
use crate::cli::RmArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

pub async fn run(args: RmArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let sessions = if args.ended { ended(&host).await? } else { args.sessions };
    let mut removed = Vec::new();
    for session in sessions {
        let params = CloseParams { session: session.clone(), if_ended: true };
        let attempt = format!("remove {session}");
        let closed: Result<CloseResult, Failure> =
            host.call("session.close", &params, &attempt).await;
        if let Err(mut failure) = closed {
            if failure.is(FaultKind::Conflict) {
                failure.hint = Some(format!("end it first with greenroom kill {session}"));
            }
            failure.data.insert("removed".to_owned(), json!(removed));
            return Err(failure);
        }
        removed.push(session);
    }
    context.out.answer(&json!({ "removed": removed }), || removed.join("\n"))?;
    Ok(0)
}

async fn ended(host: &Host) -> Result<Vec<String>, Failure> {
    let states = ["exited", "failed", "lost"].map(str::to_owned).to_vec();
    let params =
        ListParams { detail: false, state: Some(OneOrMany::Many(states)), ..ListParams::default() };
    let list: ListResult = host.call("session.list", &params, "list ended sessions").await?;
    Ok(list.sessions.iter().map(Listed::id).map(str::to_owned).collect())
}
