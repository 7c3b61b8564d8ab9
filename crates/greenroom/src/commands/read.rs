//! `greenroom read`: the screen, or output from a point on.

use greenroom_protocol::api::screen::{
    ScrollbackParams, Snapshot, SnapshotFormat, SnapshotParams, TranscriptFormat, TranscriptParams,
    TranscriptResult,
};
use serde_json::json;

use super::Context;
use super::record::millis;
use crate::cli::ReadArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

pub async fn run(args: ReadArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let transcript = args.transcript || (args.since.is_some() && !args.screen);
    if transcript {
        read_output(&args, &host, context).await
    } else {
        read_screen(&args, &host, context).await
    }
}

async fn read_screen(args: &ReadArgs, host: &Host, context: &Context) -> Outcome {
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
    let screen: Snapshot =
        host.call("session.snapshot", &params, &format!("read {session}")).await?;
    let text = screen.ansi.or(screen.text).unwrap_or_default();
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

async fn read_output(args: &ReadArgs, host: &Host, context: &Context) -> Outcome {
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
    let output: TranscriptResult =
        host.call("session.transcript", &params, &format!("read {session}")).await?;
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
    context.out.bytes(output.text.as_bytes())?;
    if output.has_more && output.behind == 0 {
        context.out.note(&format!("note: there is more; go on with --since {}", output.next_seq));
    }
    complete(&output, session)
}

/// What was printed and could not be shown in time must not look like nothing.
fn complete(output: &TranscriptResult, session: &str) -> Outcome {
    match output.behind {
        0 => Ok(0),
        behind => {
            let why = format!("filters have not answered yet for {behind} bytes of its output");
            Err(Failure::behind(format!("cannot read all of {session}: {why}"), behind)
                .hint(format!("go on with greenroom read {session} --since {}", output.next_seq)))
        }
    }
}
