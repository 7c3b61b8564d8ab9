//! `greenroom kill`: ends the programs of sessions and all they started, several at once.

use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::api::session::{KillParams, SignalName};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::several::{self, Target};
use super::{Context, left};
use crate::cli::{parse_pair, parse_time};
use crate::commands::completions::live_candidates;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::output::millis;

/// End sessions: HUP, TERM, then KILL, to all they started
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom kill s3\n  greenroom kill api web s7\n  greenroom kill --all\n  greenroom kill --label team=core\n  greenroom kill s3 --signal INT --grace 10s\n\nSeveral are ended at once; each is tried, and the exit code is the worst of them."
)]
pub struct KillArgs {
    /// Ids, names or unambiguous prefixes
    #[arg(
        value_name = "SESSION",
        required_unless_present_any = ["all", "label"],
        add = ArgValueCandidates::new(live_candidates)
    )]
    pub sessions: Vec<String>,
    /// Every session that runs
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,
    /// Every running session with this label (repeatable: with all of them)
    #[arg(long, value_name = "K=V", value_parser = parse_pair, conflicts_with = "sessions")]
    pub label: Vec<(String, String)>,
    /// The first signal [default: HUP, then TERM]
    #[arg(long, value_name = "NAME")]
    pub signal: Option<String>,
    /// Time before KILL
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<Duration>,
}

/// The host answers this many requests of one connection at once, with room to spare.
const AT_ONCE: usize = 64;

pub async fn run(args: KillArgs, context: &Context) -> ExitResult {
    let signal = args.signal.map(|text| match text.parse() {
        Ok(number) => SignalName::Number(number),
        Err(_) => SignalName::Name(text),
    });
    let grace_ms = args.grace.map(millis);
    let host = context.host().await?;
    let by_name = !args.sessions.is_empty();
    let targets = if by_name {
        several::named(args.sessions)
    } else {
        let mut all = several::chosen(&host, &[], args.label).await?;
        all.retain(|target| target.runs);
        all
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
    match killed.as_slice() {
        _ if !context.out.json => {}
        [] => {}
        [only] if single => context.out.json_line(only)?,
        all => context.out.json_line(&json!({ "killed": all }))?,
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
    host: &HostClient,
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
    let mut ended = ending.join_all().await;
    ended.sort_by_key(|(place, ..)| *place);
    ended.into_iter().map(|(_, target, ended)| (target, ended)).collect()
}

async fn one(
    host: &HostClient,
    target: &Target,
    signal: Option<SignalName>,
    grace_ms: Option<u64>,
) -> Result<Killed, Failure> {
    let session = &target.session;
    let attempt = format!("end {session}");
    let params = KillParams { session: session.clone(), signal, grace_ms };
    let killed = host.call::<method::SessionKill>(&params, &attempt).await?;
    let how = killed.exit.clone().unwrap_or_default();
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
