//! `greenroom kill`: ends a session's program and all it started.

use greenroom_protocol::api::session::{KillParams, KillResult, SignalName};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::json;

use super::{Context, left};
use crate::cli::KillArgs;
use crate::error::{Failure, Outcome};

pub async fn run(args: KillArgs, context: &Context) -> Outcome {
    let session = args.session.session;
    let attempt = format!("end {session}");
    let signal = args.signal.map(|text| match text.parse() {
        Ok(number) => SignalName::Number(number),
        Err(_) => SignalName::Name(text),
    });
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let params = KillParams { session: session.clone(), signal, grace_ms };
    let host = context.host().await?;
    let killed: KillResult = host.call("session.kill", &params, &attempt).await?;
    let how = killed
        .exit
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_else(|| "status unknown".to_owned());
    if killed.already_ended {
        let fault = Fault::new(FaultKind::SessionClosed, format!("it has ended already ({how})"));
        let hint = format!("forget it with greenroom rm {session}");
        return Err(Failure::refused(&attempt, fault).hint(hint));
    }
    let left = left::tell(&host, &session, context).await;
    let mut value = json!({ "session": session, "killed": true, "exit": killed.exit });
    if !left.is_empty() {
        value["left"] = json!(left);
    }
    let ended = killed.processes_ended;
    if ended > 0 {
        value["processes_ended"] = json!(ended);
    }
    context.out.answer(&value, || match ended {
        0 => format!("{session} ended: {how}"),
        1 => format!("{session} had ended ({how}); 1 process it had left is ended now"),
        _ => format!("{session} had ended ({how}); {ended} processes it had left are ended now"),
    })?;
    Ok(0)
}
