//! `greenroom wait`: until something holds in a session, with an exit code per outcome.

use greenroom_client::ClientError;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher::{Found, Matcher, Outcome as Match, ScreenStable, Test};
use greenroom_protocol::api::screen::SnapshotFormat;
use greenroom_protocol::api::session::{
    ExitStatus, InfoParams, SnapshotChoice, WaitParams, WaitResult,
};

use super::Context;
use crate::cli::{Until, WaitArgs};
use crate::error::{Failure, Outcome};
use crate::host::{Host, called};
use crate::output::span;

pub async fn run(args: WaitArgs, context: &Context) -> Outcome {
    let session = &args.session.session;
    let host = context.host().await?;
    let found = first_of(&host, &args).await.map_err(|error| {
        let attempt = format!("wait for {session}");
        let failure = called(&attempt, error);
        let ended = failure.is(FaultKind::SessionClosed) && failure.data.contains_key("exit");
        if ended && args.until.contains(&Until::Success) {
            return unsuccessful(session, failure);
        }
        if !failure.is(FaultKind::Timeout) {
            return failure;
        }
        let within = span(millis(args.timeout));
        let late = match failure.data.get("behind").and_then(serde_json::Value::as_u64) {
            None | Some(0) => String::new(),
            Some(bytes) => {
                format!("; filters have not answered yet for {bytes} bytes of its output")
            }
        };
        let message = format!("cannot {attempt}: nothing matched within {within}{late}");
        Failure { message, ..failure }
            .hint(format!("see what it shows with greenroom read {session}"))
    })?;
    context.out.answer(&found, || found.outcome.as_ref().map(describe).unwrap_or_default())?;
    Ok(0)
}

/// A text counts when it is on the screen, or went by since now: a fast program may scroll it away
/// between two looks. Those are two waits, because each has a scope of its own.
async fn first_of(host: &Host, args: &WaitArgs) -> Result<WaitResult, ClientError> {
    let session = &args.session.session;
    let patterns: Vec<Matcher> = args.until.iter().filter_map(in_output).collect();
    let since = match args.since {
        Some(since) => Some(since),
        None if patterns.is_empty() => None,
        None => {
            let params = InfoParams::of(session);
            Some(host.client.session_info(&params).await?.seq)
        }
    };
    let wait = |tests: Vec<Matcher>, since: Option<u64>| WaitParams {
        timeout_ms: millis(args.timeout).min(WaitParams::MAX_TIMEOUT_MS),
        snapshot: Some(SnapshotChoice::Format(SnapshotFormat::Text)),
        since,
        ..WaitParams::new(session.clone(), one_of(tests))
    };
    let now = wait(args.until.iter().map(on_screen).collect(), args.since);
    if patterns.is_empty() {
        return host.client.session_wait(&now).await;
    }
    let passing = wait(patterns, since);
    let (now, passing) = (host.client.session_wait(&now), host.client.session_wait(&passing));
    tokio::pin!(now, passing);
    // Either may succeed after the other gave up; the first failure is the one to tell.
    tokio::select! {
        found = &mut now => match found {
            Ok(found) => Ok(found),
            Err(error) => passing.await.map_err(|_| error),
        },
        found = &mut passing => match found {
            Ok(found) => Ok(found),
            Err(error) => now.await.map_err(|_| error),
        },
    }
}

/// It ended, and not well: the command failed, rather than that there was nothing to wait for.
fn unsuccessful(session: &str, failure: Failure) -> Failure {
    let exit = failure.data.get("exit").cloned().unwrap_or_default();
    let status = serde_json::from_value::<ExitStatus>(exit).unwrap_or_default();
    let failed = Failure::failed(format!("{session} did not succeed: {status}"));
    Failure { data: failure.data, ..failed }
        .hint(format!("see what it shows with greenroom read {session}"))
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn one_of(mut tests: Vec<Matcher>) -> Matcher {
    match (tests.len(), tests.pop()) {
        (1, Some(only)) => only,
        (_, last) => Matcher::new(Test::Any(tests.into_iter().chain(last).collect())),
    }
}

fn on_screen(until: &Until) -> Matcher {
    Matcher::new(match until {
        Until::Exit => Test::ProcessExited,
        Until::Success => Test::Success,
        Until::Stable(min_ms) => Test::ScreenStable(ScreenStable { min_ms: *min_ms }),
        Until::State(state) => Test::State(OneOrMany::One(state.word().to_owned())),
        Until::Text(pattern) => Test::ScreenRegex(pattern.clone()),
    })
}

fn in_output(until: &Until) -> Option<Matcher> {
    match until {
        Until::Text(pattern) => Some(Matcher::new(Test::TranscriptRegex(pattern.clone()))),
        _ => None,
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
        Found::Success => "succeeded".to_owned(),
        Found::ScreenStable { min_ms } => format!("stable for {min_ms} ms"),
        Found::State { state } => state.clone(),
        _ => "matched".to_owned(),
    }
}
