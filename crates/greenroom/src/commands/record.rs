//! `greenroom record`: a session's recording as a file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;

use greenroom_protocol::api::session::{ExportFormat, ExportParams, ExportResult};
use serde_json::json;

use super::Context;
use crate::cli::RecordArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

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
        let written =
            export(&host, &session, format, |piece| context.out.bytes(piece.as_bytes())).await?;
        return finish(&written, context);
    };
    let host = context.host().await?;
    let mut file = create(&path)?;
    let refuse = |error: io::Error| Failure::io(format!("cannot write {}", path.display()), &error);
    let written =
        export(&host, &session, format, |piece| file.write_all(piece.as_bytes()).map_err(refuse))
            .await?;
    finish(&written, context)?;
    let value = json!({ "file": path, "bytes": written.bytes, "dropped": written.dropped });
    context.out.answer(&value, || path.display().to_string())?;
    Ok(0)
}

/// What came of an export.
pub struct Written {
    pub bytes: u64,
    pub dropped: u64,
}

/// Asks for page after page and hands each piece on.
pub async fn export(
    host: &Host,
    session: &str,
    format: ExportFormat,
    mut piece: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<Written, Failure> {
    let mut params =
        ExportParams { session: session.to_owned(), format, cursor: None, max_bytes: None };
    let mut written = Written { bytes: 0, dropped: 0 };
    loop {
        let page: ExportResult =
            host.call("session.export", &params, &format!("record {session}")).await?;
        written.bytes += page.data.len() as u64;
        written.dropped = written.dropped.max(page.dropped);
        piece(&page.data)?;
        match page.cursor {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(written),
        }
    }
}

fn finish(written: &Written, context: &Context) -> Outcome {
    if written.dropped > 0 {
        context.out.note(&format!(
            "note: the first {} bytes of output are no longer kept",
            written.dropped
        ));
    }
    Ok(0)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path)
        .map_err(|error| Failure::io(format!("cannot write {}", path.display()), &error))
}
