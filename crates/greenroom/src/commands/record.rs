//! `greenroom record`: a session's recording as a file.

use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use greenroom_protocol::api::session::{ExportFormat, ExportParams, ExportResult};
use greenroom_protocol::asciicast::{Event, Writer};
use serde_json::json;

use super::Context;
use crate::cli::RecordArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

/// One page waits no longer than this for filters. Two such waits without a byte mean that nothing will come.
const PAGE_PATIENCE: Duration = Duration::from_secs(15);

pub async fn run(args: RecordArgs, context: &Context) -> Outcome {
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
        let write = |piece: &str| context.out.bytes(piece.as_bytes());
        let written = export(&host, &session, format, args.timeout, write).await?;
        if written.behind > 0 && written.bytes > 0 {
            // What is out cannot be taken back: it says itself that it is not all.
            context.out.bytes(truncated(format, written.behind).as_bytes())?;
        }
        return finish(&written, &session, context);
    };
    let host = context.host().await?;
    let refuse = |error: io::Error| Failure::io(format!("cannot write {}", path.display()), &error);
    let mut file = Making::new(&path).map_err(refuse)?;
    let write = |piece: &str| file.write_all(piece.as_bytes()).map_err(refuse);
    let written = export(&host, &session, format, args.timeout, write).await?;
    finish(&written, &session, context)?;
    file.done().map_err(refuse)?;
    let value = json!({ "file": path, "bytes": written.bytes, "dropped": written.dropped });
    context.out.answer(&value, || path.display().to_string())?;
    Ok(0)
}

/// What came of an export.
pub struct Written {
    pub bytes: u64,
    pub dropped: u64,
    /// Output that is missing, because filters did not answer for it.
    pub behind: u64,
}

impl Written {
    /// All of it is there, or it is a failure.
    pub fn complete(self, session: &str) -> Result<Written, Failure> {
        match self.behind {
            0 => Ok(self),
            behind => {
                let why = format!("filters have not answered for {behind} bytes of its output");
                Err(Failure::behind(format!("cannot record all of {session}: {why}"), behind)
                    .hint("try again, or see how slow they are with greenroom plugin stats"))
            }
        }
    }
}

/// Asks for page after page and hands each piece on; waits for filters as long as they get on, or for `timeout`.
pub async fn export(
    host: &Host,
    session: &str,
    format: ExportFormat,
    timeout: Option<Duration>,
    mut piece: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Written, Failure> {
    let began = Instant::now();
    let mut params = ExportParams { session: session.to_owned(), format, ..Default::default() };
    let mut written = Written { bytes: 0, dropped: 0, behind: 0 };
    // A header without anything that follows it is held back: it would look like a recording of nothing.
    let mut held = String::new();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        params.timeout_ms = Some(millis(left.unwrap_or(PAGE_PATIENCE).min(PAGE_PATIENCE)));
        let page: ExportResult =
            host.call("session.export", &params, &format!("record {session}")).await?;
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

fn finish(written: &Written, session: &str, context: &Context) -> Outcome {
    if written.dropped > 0 {
        context.out.note(&format!(
            "note: {} bytes of output are no longer kept and missing from it",
            written.dropped
        ));
    }
    let Written { bytes, dropped, behind } = *written;
    Written { bytes, dropped, behind }.complete(session)?;
    Ok(0)
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

pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A file that gets its name when it is complete. What is no ordinary file, such as a pipe, is written as it is.
enum Making {
    Beside(tempfile::NamedTempFile, PathBuf),
    Itself(std::fs::File),
}

impl Making {
    fn new(path: &Path) -> io::Result<Making> {
        let path = match std::fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        if path.exists() && !path.is_file() {
            return Ok(Making::Itself(std::fs::File::create(path)?));
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let mut making = tempfile::Builder::new();
        making.prefix(".recording-").permissions(PermissionsExt::from_mode(0o666));
        let file = making.tempfile_in(dir.unwrap_or(Path::new(".")))?;
        Ok(Making::Beside(file, path))
    }

    fn done(self) -> io::Result<()> {
        match self {
            Making::Beside(file, path) => file.persist(path).map(drop).map_err(|error| error.error),
            Making::Itself(_) => Ok(()),
        }
    }
}

impl Write for Making {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Making::Beside(file, _) => file.write(bytes),
            Making::Itself(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Making::Beside(file, _) => file.flush(),
            Making::Itself(file) => file.flush(),
        }
    }
}
