//! `greenroom wait`: until something holds in a session, with an exit code per outcome.

use std::time::Duration;

use clap::Args;
use greenroom_client::{ClientError, method};
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher::{Found, Matcher, Outcome, ScreenStable, Test};
use greenroom_protocol::api::screen::SnapshotFormat;
use greenroom_protocol::api::session::SessionState;
use greenroom_protocol::api::session::{
    ExitStatus, InfoParams, SnapshotChoice, WaitParams, WaitResult,
};
use greenroom_protocol::{Fault, FaultKind};

use super::Context;
use crate::cli::{SessionArg, parse_time, parse_until};
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, called};
use crate::output::{millis, span};

/// Wait until something holds in a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom wait s3 --until exit\n  greenroom wait s3 --until stable=500 --timeout 2m\n  greenroom wait s3 --until 'text=tests? passed' --until exit\n  greenroom wait s3 --until state=exited\n\nSeveral conditions: the first that holds. Exit codes: 0 matched, 3 timeout,\n  4 the session needs input, 6 the session ended first."
)]
pub struct WaitArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// exit, success (exit with status 0, else 1), stable[=MS], text=REGEX or state=NAME
    /// (repeatable: the first that holds)
    #[arg(long, value_name = "COND", required = true, value_parser = parse_until)]
    pub until: Vec<Until>,
    /// For how long: 500ms, 30s, 2m, 1h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub timeout: Duration,
    /// Text must come from output after this sequence number
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
}

/// A condition of `wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    Exit,
    Success,
    Stable(u64),
    Text(String),
    State(SessionState),
}

pub async fn run(args: WaitArgs, context: &Context) -> ExitResult {
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
    context.out.answer(&found, || found.outcome.as_ref().map(describe).unwrap_or_default())
}

/// A text counts when it is on the screen, or went by since now: a fast program may scroll it away
/// between two looks. Those are two waits, because each has a scope of its own.
async fn first_of(host: &HostClient, args: &WaitArgs) -> Result<WaitResult, ClientError> {
    let session = &args.session.session;
    let patterns: Vec<Matcher> = args.until.iter().filter_map(in_output).collect();
    let since = match args.since {
        Some(since) => Some(since),
        None if patterns.is_empty() => None,
        None => {
            let params = InfoParams::of(session);
            Some(host.client.call::<method::SessionInfo>(&params).await?.seq)
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
        return host.client.wait(&now).await;
    }
    let passing = wait(patterns, since);
    let (now, passing) = (host.client.wait(&now), host.client.wait(&passing));
    tokio::pin!(now, passing);
    // Either may succeed after the other gave up.
    let (first, second) = tokio::select! {
        first = &mut now => (first, passing.as_mut()),
        first = &mut passing => (first, now.as_mut()),
    };
    match first {
        Ok(found) => Ok(found),
        Err(first) => {
            second.await.map_err(|second| if is_behind(&second) { second } else { first })
        }
    }
}

/// Filters have not answered for all of it: nobody can say that it ended without what was waited
/// for. Any other failure counts as it came.
fn is_behind(error: &ClientError) -> bool {
    error.fault().is_some_and(Fault::is_behind)
}

/// It ended, and not well: the command failed, rather than that there was nothing to wait for.
fn unsuccessful(session: &str, failure: Failure) -> Failure {
    let exit = failure.data.get("exit").cloned().unwrap_or_default();
    let status = serde_json::from_value::<ExitStatus>(exit).unwrap_or_default();
    let failed = Failure::failed(format!("{session} did not succeed: {status}"));
    Failure { data: failure.data, ..failed }
        .hint(format!("see what it shows with greenroom read {session}"))
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

fn describe(found: &Outcome) -> String {
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
