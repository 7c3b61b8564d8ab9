//! `greenroom replay`: plays a session's recording, or an asciicast file.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use greenroom_protocol::api::screen::SnapshotFormat;
use greenroom_protocol::api::session::{ExportFormat, ReplayParams, ReplayResult};
use serde_json::json;

use super::Context;
use super::record::{export, millis};
use crate::attach::terminal;
use crate::cli::ReplayArgs;
use crate::error::{Failure, Outcome};
use crate::player::{Player, Timeline};

/// A recording is held in memory while it plays; the host keeps far less of one session.
const FILE_MAX: u64 = 1024 * 1024 * 1024;

pub async fn run(args: ReplayArgs, context: &Context) -> Outcome {
    let source = &args.source;
    let text = match Source::of(source) {
        Source::Stdin => read(io::stdin().lock(), source)?,
        Source::File => {
            let file = std::fs::File::open(source);
            read(
                file.map_err(|error| Failure::io(format!("cannot replay {source}"), &error))?,
                source,
            )?
        }
        Source::Session => {
            let host = context.host().await?;
            let mut text = String::new();
            let keep = |piece: &str| {
                text.push_str(piece);
                Ok(())
            };
            export(&host, source, ExportFormat::AsciicastV3, args.timeout, keep)
                .await
                .and_then(|written| written.complete(source))
                .map_err(|failure| no_such(failure, source))?;
            text
        }
    };
    let timeline = Timeline::read(text.lines(), args.idle_limit)
        .map_err(|error| Failure::failed(format!("cannot replay {source}: {error}")))?;
    if context.out.json {
        return describe(&args, &timeline, context).await;
    }
    if let Some(window) = terminal::window() {
        let size = timeline.header.size;
        if size.cols > window.cols || size.rows > window.rows {
            context.out.note(&format!("note: recorded at {size}, this window is {window}"));
        }
    }
    let player = Player::new(&timeline, args.speed, args.at.unwrap_or_default());
    if io::stdin().is_terminal()
        && io::stdout().is_terminal()
        && Source::of(source) != Source::Stdin
    {
        player.play_on_terminal().await?;
    } else {
        player.play().await?;
    }
    Ok(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Stdin,
    File,
    Session,
}

impl Source {
    /// A file is named by its ending or a slash, or is simply there.
    fn of(text: &str) -> Source {
        if text == "-" {
            Source::Stdin
        } else if text.contains('/') || text.ends_with(".cast") || Path::new(text).is_file() {
            Source::File
        } else {
            Source::Session
        }
    }
}

fn read(from: impl io::Read, source: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let count = from.take(FILE_MAX + 1).read_to_end(&mut bytes);
    let count = count.map_err(|error| Failure::io(format!("cannot replay {source}"), &error))?;
    if count as u64 > FILE_MAX {
        return Err(Failure::failed(format!(
            "cannot replay {source}: larger than {FILE_MAX} bytes"
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::failed(format!("cannot replay {source}: not an asciicast file")))
}

fn no_such(failure: Failure, source: &str) -> Failure {
    if failure.is(greenroom_protocol::FaultKind::UnknownSession) {
        let message = format!("cannot replay {source}: neither a session nor a file");
        return Failure { message, ..failure };
    }
    failure
}

async fn describe(args: &ReplayArgs, timeline: &Timeline, context: &Context) -> Outcome {
    let mut value = json!({
        "source": args.source,
        "size": timeline.header.size,
        "command": timeline.header.command,
        "title": timeline.header.title,
        "duration_ms": millis(timeline.duration()),
        "events": timeline.len(),
        "output_bytes": timeline.output().len(),
        "exit": timeline.exit(),
    });
    // Only the host can say what the screen looked like then.
    if let (Some(at), Source::Session) = (args.at, Source::of(&args.source)) {
        let params = ReplayParams {
            session: args.source.clone(),
            at_ms: Some(millis(at)),
            at_seq: None,
            format: SnapshotFormat::Text,
            timeout_ms: args.timeout.map(millis),
        };
        let host = context.host().await?;
        let then: ReplayResult =
            host.call("session.replay", &params, &format!("replay {}", args.source)).await?;
        value["at"] = json!({ "at_ms": then.at_ms, "text": then.snapshot.text });
    }
    context.out.json_line(&value)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_sessions() {
        assert_eq!(Source::of("-"), Source::Stdin);
        assert_eq!(Source::of("x.cast"), Source::File);
        assert_eq!(Source::of("./s3"), Source::File);
        assert_eq!(Source::of("s3"), Source::Session);
    }
}
