//! `greenroom read`: the screen, or output from a point on.

use std::time::Duration;

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::screen::{
    ScrollbackParams, SnapshotFormat, SnapshotParams, TranscriptFormat, TranscriptParams,
    TranscriptResult,
};
use serde_json::json;

use super::Context;
use crate::cli::{SessionArg, parse_time};
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::output::{millis, write};

/// Read a session's screen or its output
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom read s3\n  greenroom read s3 --since 0 --json\n  greenroom read s3 --transcript --max-bytes 4000\n  greenroom read s3 --ansi\n  greenroom read s3 --scrollback\n  greenroom read s3 --scrollback 200"
)]
pub struct ReadArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// The screen as it is now (the default)
    #[arg(long, conflicts_with = "transcript")]
    pub screen: bool,
    /// The output
    #[arg(long)]
    pub transcript: bool,
    /// Output from this sequence number on (alone: implies --transcript)
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
    /// With colours and other escape sequences
    #[arg(long, conflicts_with = "text")]
    pub ansi: bool,
    /// Plain text (the default)
    #[arg(long)]
    pub text: bool,
    /// At most this much of the output
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<u64>,
    /// For how long to wait for filters that are behind: 30s if left out
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    /// The last N lines above the screen, too; without N all that are kept
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "10000",
        value_parser = clap::value_parser!(u64).range(1..=10_000),
        conflicts_with_all = ["transcript", "since", "ansi", "max_bytes"]
    )]
    pub scrollback: Option<u64>,
}

pub async fn run(args: ReadArgs, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let transcript = args.transcript || (args.since.is_some() && !args.screen);
    if transcript {
        read_output(&args, &host, context).await
    } else {
        read_screen(&args, &host, context).await
    }
}

async fn read_screen(args: &ReadArgs, host: &HostClient, context: &Context) -> ExitResult {
    if args.max_bytes.is_some() {
        return Err(Failure::usage("--max-bytes goes with --transcript or --since"));
    }
    let session = &args.session.session;
    let format = if args.ansi { SnapshotFormat::Ansi } else { SnapshotFormat::Text };
    let params = SnapshotParams {
        since: args.since,
        timeout_ms: args.timeout.map(millis),
        scrollback: args.scrollback.map(|count| ScrollbackParams { from: 0, count }),
        ..SnapshotParams::new(session.as_str(), format)
    };
    let screen = host.call::<method::SessionSnapshot>(&params, &format!("read {session}")).await?;
    // A form stands in the member of its name.
    let text = json!(screen)[format.word()].as_str().unwrap_or_default().to_owned();
    withheld(context, screen.withheld.as_deref());
    let above = screen.scrollback.map(|above| above.lines);
    if !context.out.json {
        let above = above.unwrap_or_default().into_iter().map(|line| line + "\n");
        context.out.shown(&(above.collect::<String>() + &text))?;
        return Ok(0);
    }
    // The same members as for output, so that a reader needs one shape only.
    let mut value = json!({
        "text": text,
        "seq": screen.sequence,
        "next_seq": screen.sequence,
        "has_more": false,
        "dropped": 0,
        "behind": 0,
        "size": screen.size,
        "cursor": screen.cursor,
        "title": screen.title,
        "alternate_screen": screen.alternate_screen,
        "withheld": screen.withheld,
    });
    if let Some(above) = above {
        value["scrollback"] = json!(above);
    }
    context.out.json_line(&value)?;
    Ok(0)
}

/// Masks that are there only because something is wrong are not taken for what the program printed.
fn withheld(context: &Context, why: Option<&str>) {
    if let Some(why) = why {
        context
            .out
            .note(&format!("note: text is masked that would be shown if all were well: {why}"));
    }
}

async fn read_output(args: &ReadArgs, host: &HostClient, context: &Context) -> ExitResult {
    let session = &args.session.session;
    let params = TranscriptParams {
        session: session.clone(),
        since: args.since,
        max_bytes: args.max_bytes,
        format: if args.ansi { TranscriptFormat::Ansi } else { TranscriptFormat::Text },
        redact: true,
        redaction: None,
        timeout_ms: args.timeout.map(millis),
    };
    let output =
        host.call::<method::SessionTranscript>(&params, &format!("read {session}")).await?;
    withheld(context, output.withheld.as_deref());
    if context.out.json {
        context.out.json_line(&json!({
            "text": output.text,
            "seq": output.seq,
            "next_seq": output.next_seq,
            "has_more": output.has_more,
            "dropped": output.dropped,
            "behind": output.behind,
            "withheld": output.withheld,
        }))?;
        return complete(&output, session);
    }
    if output.dropped > 0 {
        context.out.note(&format!("note: {} bytes before this are no longer kept", output.dropped));
    }
    write(output.text.as_bytes())?;
    if output.has_more && output.behind == 0 {
        context.out.note(&format!("note: there is more; go on with --since {}", output.next_seq));
    }
    complete(&output, session)
}

/// Output that filters hold back must not look like no output: it is a failure.
fn complete(output: &TranscriptResult, session: &str) -> ExitResult {
    match output.behind {
        0 => Ok(0),
        behind => {
            let why = format!("filters have not answered yet for {behind} bytes of its output");
            Err(Failure::behind(format!("cannot read all of {session}: {why}"), behind)
                .hint(format!("go on with greenroom read {session} --since {}", output.next_seq)))
        }
    }
}
