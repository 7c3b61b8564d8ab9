//! `greenroom wait`: until something holds in a session, with an exit code per outcome.

use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher::{Found, Matcher, Outcome as Match, ScreenStable, Test};
use greenroom_protocol::api::screen::SnapshotFormat;
use greenroom_protocol::api::session::{
    InfoParams, SessionInfo, SnapshotChoice, WaitParams, WaitResult,
};

use super::Context;
use crate::cli::{Until, WaitArgs};
use crate::error::{Failure, Outcome};
use crate::host::{Host, called};

pub async fn run(args: WaitArgs, context: &Context) -> Outcome {
    let session = args.session.session.clone();
    let host = context.host().await?;
    let since = match args.since {
        Some(since) => since,
        None => position(&host, &session).await?,
    };
    let mut tests: Vec<Matcher> =
        args.until.iter().map(|until| matcher(until, args.since, since)).collect();
    let only = if tests.len() == 1 { tests.pop() } else { None };
    let whole = only.unwrap_or_else(|| Matcher::new(Test::Any(tests)));
    let timeout =
        u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX).min(WaitParams::MAX_TIMEOUT_MS);
    let params = WaitParams {
        timeout_ms: timeout,
        snapshot: Some(SnapshotChoice::Format(SnapshotFormat::Text)),
        ..WaitParams::new(session.clone(), whole)
    };
    let waited = host.client.session_wait(&params).await;
    let found: WaitResult =
        waited.map_err(|error| called(&format!("wait for {session}"), error))?;
    context.out.answer(&found, || found.outcome.as_ref().map(describe).unwrap_or_default())?;
    Ok(0)
}

async fn position(host: &Host, session: &str) -> Result<u64, Failure> {
    let params = InfoParams { session: session.to_owned(), explain: false };
    let info: SessionInfo =
        host.call("session.info", &params, &format!("wait for {session}")).await?;
    Ok(info.seq)
}

/// A text counts when it is on the screen, or went by since now: a fast program may scroll it away
/// between two looks.
fn matcher(until: &Until, asked: Option<u64>, now: u64) -> Matcher {
    match until {
        Until::Exit => Matcher::new(Test::ProcessExited),
        Until::Stable(min_ms) => Matcher::new(Test::ScreenStable(ScreenStable { min_ms: *min_ms })),
        Until::State(name) => Matcher::new(Test::State(OneOrMany::One(name.clone()))),
        Until::Text(pattern) => {
            let screen =
                Matcher { since: asked, ..Matcher::new(Test::ScreenRegex(pattern.clone())) };
            let output = Matcher {
                since: Some(now),
                ..Matcher::new(Test::TranscriptRegex(pattern.clone()))
            };
            Matcher::new(Test::Any(vec![screen, output]))
        }
    }
}

fn describe(found: &Match) -> String {
    match &found.found {
        Found::Any { matched, .. } => describe(matched),
        Found::ScreenRegex { capture, .. } | Found::TranscriptRegex { capture, .. } => {
            capture.clone()
        }
        Found::ProcessExited { exit: Some(exit) } => format!("exited: {exit}"),
        Found::ProcessExited { exit: None } => "exited".to_owned(),
        Found::ScreenStable { min_ms } => format!("stable for {min_ms} ms"),
        Found::State { state } => state.clone(),
        _ => "matched".to_owned(),
    }
}
