//! `greenroom logs`: the daemon's log, for people or as it is.
//!
//! Reads the files themselves: a host that does not come up is when its log matters most.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::paths;
use crate::output::{Output, Tone};

/// Show the host's log
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom logs\n  greenroom logs -f\n  greenroom logs -n 200 --json"
)]
pub struct LogsArgs {
    /// Go on with what is written next
    #[arg(short, long)]
    pub follow: bool,
    /// How many lines from the end
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub lines: usize,
}

/// How often a followed log is looked at. Files of another process cannot wake us.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Longest line kept; the log's own limit is far below.
const LINE_MAX: u64 = 1024 * 1024;

pub async fn run(args: LogsArgs, context: &Context) -> ExitResult {
    let path = paths()?.daemon_log();
    let refuse =
        |error: std::io::Error| Failure::io(format!("cannot read {}", path.display()), &error);
    let hint = "no host has run here yet; start one with greenroom new";
    let mut tail = match Tail::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && args.follow => Tail::default(),
        opened => opened.map_err(|error| refuse(error).hint(hint))?,
    };
    let mut last = VecDeque::new();
    for line in tail.lines().map_err(refuse)? {
        if last.len() == args.lines {
            last.pop_front();
        }
        if args.lines > 0 {
            last.push_back(line);
        }
    }
    for line in last {
        show(&line, &context.out)?;
    }
    if !args.follow {
        return Ok(0);
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = tokio::signal::ctrl_c() => return Ok(0),
        }
        tail.follow(&path).map_err(refuse)?;
        for line in tail.lines().map_err(refuse)? {
            show(&line, &context.out)?;
        }
    }
}

/// A file that grows, and is set aside when it is large; or none yet.
#[derive(Default)]
struct Tail {
    reader: Option<BufReader<File>>,
    inode: u64,
}

impl Tail {
    fn open(path: &Path) -> std::io::Result<Tail> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(Tail { reader: Some(BufReader::new(file)), inode })
    }

    /// Whole lines that have come.
    fn lines(&mut self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let Some(reader) = &mut self.reader else { return Ok(lines) };
        loop {
            let mut line = Vec::new();
            let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(lines);
            }
            if line.last() != Some(&b'\n') && (read as u64) < LINE_MAX {
                // Half a line: come back for all of it.
                reader.seek(SeekFrom::Current(-(read as i64)))?;
                return Ok(lines);
            }
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }

    /// Goes over to the new file when the old one was set aside.
    fn follow(&mut self, path: &Path) -> std::io::Result<()> {
        match std::fs::metadata(path) {
            Ok(meta) if meta.ino() != self.inode => {
                *self = Tail::open(path)?;
                Ok(())
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn show(line: &str, out: &Output) -> Result<(), Failure> {
    let Ok(Value::Object(record)) = serde_json::from_str(line) else {
        // What is not JSON is still worth seeing.
        let value = serde_json::json!({ "text": line });
        return if out.json { out.json_line(&value) } else { out.line(line) };
    };
    if out.json {
        return out.line(line);
    }
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let level = text("level");
    let tone = match level.as_str() {
        "ERROR" => Tone::Bad,
        "WARN" => Tone::Warn,
        "DEBUG" | "TRACE" => Tone::Dim,
        _ => Tone::Plain,
    };
    let fields = record.get("fields").and_then(Value::as_object).unwrap_or(&record);
    let message = fields.get("message").and_then(Value::as_str).unwrap_or_default();
    let known = ["timestamp", "level", "target", "message", "fields", "span", "spans"];
    let rest: Vec<String> = fields
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()))
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        })
        .collect();
    let level = out.paint(tone, &format!("{level:5}"));
    out.line(format!("{} {level} {message} {}", text("timestamp"), rest.join(" ")).trim_end())
}
