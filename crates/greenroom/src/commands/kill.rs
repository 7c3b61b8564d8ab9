//! `greenroom kill`: ends the programs of sessions and all they started, several at once.

use greenroom_protocol::api::session::{KillParams, KillResult, SignalName};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::several::{self, Target};
use super::{Context, left};
use crate::cli::KillArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

/// The host answers this many requests of one connection at once, with room to spare.
const AT_ONCE: usize = 64;

pub async fn run(args: KillArgs, context: &Context) -> Outcome {
    let signal = args.signal.map(|text| match text.parse() {
        Ok(number) => SignalName::Number(number),
        Err(_) => SignalName::Name(text),
    });
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let host = context.host().await?;
    let by_name = !args.sessions.is_empty();
    let targets = match by_name {
        true => several::named(args.sessions),
        false => {
            let mut all = several::chosen(&host, &[], args.label).await?;
            all.retain(|target| target.runs);
            all
        }
    };
    if targets.is_empty() {
        context.out.answer(&json!({ "killed": [] }), String::new)?;
        context.out.note("no such session runs; nothing was ended");
        return Ok(0);
    }
    let single = by_name && targets.len() == 1;
    let (mut killed, mut failures) = (Vec::new(), Vec::new());
    for some in targets.chunks(AT_ONCE) {
        for (target, ended) in all(&host, some, &signal, grace_ms).await {
            match ended {
                Ok(ended) => {
                    ended.left.iter().for_each(|line| context.out.note(line));
                    if !context.out.json {
                        context.out.line(&format!("{} {}", target.shown, ended.how))?;
                    }
                    killed.push(ended.value);
                }
                Err(failure) => failures.push(failure),
            }
        }
    }
    if context.out.json && !killed.is_empty() {
        match single {
            true => context.out.json_line(&killed[0])?,
            false => context.out.json_line(&json!({ "killed": killed }))?,
        }
    }
    several::outcome(killed.len(), failures, context)
}

struct Killed {
    how: String,
    left: Vec<String>,
    value: Value,
}

/// All of them at once; answered in their order.
async fn all(
    host: &Host,
    targets: &[Target],
    signal: &Option<SignalName>,
    grace_ms: Option<u64>,
) -> Vec<(Target, Result<Killed, Failure>)> {
    let mut ending = JoinSet::new();
    for (place, target) in targets.iter().cloned().enumerate() {
        let (host, signal) = (host.clone(), signal.clone());
        ending.spawn(async move {
            let ended = one(&host, &target, signal, grace_ms).await;
            (place, target, ended)
        });
    }
    let mut ended = Vec::new();
    while let Some(one) = ending.join_next().await {
        match one {
            Ok(one) => ended.push(one),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    ended.sort_by_key(|(place, ..)| *place);
    ended.into_iter().map(|(_, target, ended)| (target, ended)).collect()
}

async fn one(
    host: &Host,
    target: &Target,
    signal: Option<SignalName>,
    grace_ms: Option<u64>,
) -> Result<Killed, Failure> {
    let session = &target.session;
    let attempt = format!("end {session}");
    let params = KillParams { session: session.clone(), signal, grace_ms };
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
    let left = left::of(host, session).await;
    let mut value = json!({ "session": session, "killed": true, "exit": killed.exit });
    if !left.is_empty() {
        value["left"] = json!(left);
    }
    let ended = killed.processes_ended;
    if ended > 0 {
        value["processes_ended"] = json!(ended);
    }
    let how = match ended {
        0 => format!("ended: {how}"),
        1 => format!("had ended ({how}); 1 process it had left is ended now"),
        _ => format!("had ended ({how}); {ended} processes it had left are ended now"),
    };
    Ok(Killed { how, left, value })
}
