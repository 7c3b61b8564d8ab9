//! `greenroom replay`: plays a session's recording, or an asciicast file.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueHint};
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::api::screen::SnapshotFormat;
use greenroom_protocol::api::session::{ExportFormat, ReplayParams};
use serde_json::json;

use super::Context;
use super::record::export;
use crate::attach::terminal;
use crate::cli::{parse_speed, parse_time};
use crate::commands::completions::session_candidates;
use crate::error::{ExitResult, Failure};
use crate::input;
use crate::output::millis;
use crate::player::{Player, Timeline};

/// Play a recording: a session's own, or an asciicast file
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom replay s3\n  greenroom replay s3.cast --speed 2 --idle-limit 1s\n  greenroom replay s3 --at 90s\n\nKeys on a terminal: space pauses, left and right seek 5 s, up and down change\n  the speed, q quits."
)]
pub struct ReplayArgs {
    /// A session, an asciicast file (v2 or v3), or - for stdin
    #[arg(value_name = "SESSION|FILE", value_hint = ValueHint::FilePath, add = ArgValueCandidates::new(session_candidates))]
    pub source: String,
    /// Play this much faster; 0 = at once
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_speed)]
    pub speed: f64,
    /// Start here: 90s, 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<Duration>,
    /// Cut pauses down to this
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub idle_limit: Option<Duration>,
    /// For how long to wait for filters that are behind; without it as long as they get on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

/// A recording is held in memory while it plays; the host keeps far less of one session.
const FILE_MAX: u64 = 1024 * 1024 * 1024;

pub async fn run(args: ReplayArgs, context: &Context) -> ExitResult {
    let source = &args.source;
    let text = match Source::of(source) {
        Source::Stdin | Source::File => read(source)?,
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

fn read(source: &str) -> Result<String, Failure> {
    let bytes = input::read(source.as_ref(), FILE_MAX)
        .map_err(|error| Failure::io(format!("cannot replay {source}"), &error))?;
    if bytes.len() as u64 > FILE_MAX {
        let why = format!("larger than {FILE_MAX} bytes");
        return Err(Failure::failed(format!("cannot replay {source}: {why}")));
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

async fn describe(args: &ReplayArgs, timeline: &Timeline, context: &Context) -> ExitResult {
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
        let attempt = format!("replay {}", args.source);
        let then = context.call::<method::SessionReplay>(&params, &attempt).await?;
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
