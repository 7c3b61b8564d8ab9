//! `greenroom record`: a session's recording as a file.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use greenroom_client::method;
use greenroom_formats::asciicast::{Event, Writer};
use greenroom_protocol::api::session::{ExportFormat, ExportParams};
use serde_json::json;

use super::Context;
use crate::cli::{SessionArg, parse_time};
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::output::{millis, write};

/// Write a session's recording as asciicast v3
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom record s3 > s3.cast\n  greenroom record s3 --output s3.cast\n  greenroom record s3 --text > s3.txt"
)]
pub struct RecordArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Write it to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Plain text instead of asciicast
    #[arg(long)]
    pub text: bool,
    /// For how long to wait for filters that are behind; without it as long as they get on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

/// One page waits no longer than this for filters. Two such waits without a byte mean that nothing
/// will come.
const PAGE_PATIENCE: Duration = Duration::from_secs(15);

pub async fn run(args: RecordArgs, context: &Context) -> ExitResult {
    let session = args.session.session;
    let format = if args.text { ExportFormat::Text } else { ExportFormat::AsciicastV3 };
    let Some(path) = args.output else {
        if io::stdout().is_terminal() && !args.text {
            let message =
                format!("cannot record {session} onto a terminal: the recording is a file");
            return Err(Failure::usage(message)
                .hint(format!("greenroom record {session} > {session}.cast")));
        }
        let host = context.host().await?;
        let piece = |piece: &str| write(piece.as_bytes());
        let written = export(&host, &session, format, args.timeout, piece).await?;
        if written.behind > 0 && written.bytes > 0 {
            // Bytes on stdout cannot be taken back: the recording itself says that it is cut.
            write(truncated(format, written.behind).as_bytes())?;
        }
        return finish(&written, &session, context);
    };
    let host = context.host().await?;
    let refuse = |error: io::Error| Failure::io(format!("cannot write {}", path.display()), &error);
    let mut file = OutputFile::new(&path).map_err(refuse)?;
    let piece = |piece: &str| file.write(piece).map_err(refuse);
    let written = export(&host, &session, format, args.timeout, piece).await?;
    finish(&written, &session, context)?;
    file.done().map_err(refuse)?;
    let value = json!({ "file": path, "bytes": written.bytes, "dropped": written.dropped });
    context.out.answer(&value, || path.display().to_string())
}

/// How much of a recording an export wrote.
pub struct Written {
    pub bytes: u64,
    pub dropped: u64,
    /// Output that is missing, because filters did not answer for it.
    pub behind: u64,
}

impl Written {
    /// All of it is there, or it is a failure.
    pub fn complete(&self, session: &str) -> ExitResult {
        match self.behind {
            0 => Ok(0),
            behind => {
                let why = format!("filters have not answered for {behind} bytes of its output");
                Err(Failure::behind(format!("cannot record all of {session}: {why}"), behind)
                    .hint("try again, or see how slow they are with greenroom plugin stats"))
            }
        }
    }
}

/// Asks for page after page and hands each piece on; waits for filters as long as they get on, or
/// for `timeout`.
pub async fn export(
    host: &HostClient,
    session: &str,
    format: ExportFormat,
    timeout: Option<Duration>,
    mut piece: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Written, Failure> {
    let began = Instant::now();
    let mut params = ExportParams { session: session.to_owned(), format, ..Default::default() };
    let mut written = Written { bytes: 0, dropped: 0, behind: 0 };
    // A header without anything that follows it is held back: it would look like a recording of
    // nothing.
    let mut held = String::new();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        params.timeout_ms = Some(millis(left.unwrap_or(PAGE_PATIENCE).min(PAGE_PATIENCE)));
        let page =
            host.call::<method::SessionExport>(&params, &format!("record {session}")).await?;
        written.dropped += page.dropped;
        held.push_str(&page.data);
        if page.behind == 0 || held.lines().nth(1).is_some() {
            written.bytes += held.len() as u64;
            piece(&held)?;
            held.clear();
        }
        let Some(cursor) = page.cursor else {
            written.behind = 0;
            return Ok(written);
        };
        let stuck = page.behind > 0 && page.behind == written.behind;
        let over = timeout.is_some_and(|timeout| began.elapsed() >= timeout);
        written.behind = page.behind;
        if page.behind > 0 && (stuck || over) {
            return Ok(written);
        }
        params.cursor = Some(cursor);
    }
}

fn finish(written: &Written, session: &str, context: &Context) -> ExitResult {
    if written.dropped > 0 {
        context.out.note(&format!(
            "note: {} bytes of output are no longer kept and missing from it",
            written.dropped
        ));
    }
    written.complete(session)
}

/// The last words of a recording that is not complete.
fn truncated(format: ExportFormat, behind: u64) -> String {
    let text = format!("truncated: {behind} bytes of output are missing from here on");
    match format {
        ExportFormat::Text => format!("[{text}]\n"),
        ExportFormat::AsciicastV3 => {
            let mut line = String::new();
            Writer::new().event(Duration::ZERO, &Event::Marker(text), &mut line);
            line
        }
    }
}

/// A file that gets its name when it is complete. What is no ordinary file, such as a pipe, is
/// written as it is.
enum OutputFile {
    Beside(tempfile::NamedTempFile, PathBuf),
    Itself(std::fs::File),
}

impl OutputFile {
    fn new(path: &Path) -> io::Result<OutputFile> {
        let path = match std::fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        if path.exists() && !path.is_file() {
            return Ok(OutputFile::Itself(std::fs::File::create(path)?));
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut making = tempfile::Builder::new();
        making.prefix(".recording-").permissions(PermissionsExt::from_mode(0o666));
        let file = making.tempfile_in(dir.unwrap_or(Path::new(".")))?;
        Ok(OutputFile::Beside(file, path))
    }

    fn write(&mut self, piece: &str) -> io::Result<()> {
        match self {
            OutputFile::Beside(file, _) => file.write_all(piece.as_bytes()),
            OutputFile::Itself(file) => file.write_all(piece.as_bytes()),
        }
    }

    fn done(self) -> io::Result<()> {
        match self {
            OutputFile::Beside(file, path) => {
                file.persist(path).map(drop).map_err(|error| error.error)
            }
            OutputFile::Itself(_) => Ok(()),
        }
    }
}
