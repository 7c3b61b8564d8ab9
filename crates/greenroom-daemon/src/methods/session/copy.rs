//! A copy of a session's output in a file, if the caller asked for one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use greenroom_engine::SessionHandle;
use greenroom_protocol::api::session::CreateParams;
use greenroom_protocol::{Fault, FaultKind};

use crate::follow::Follow;

/// A file that gets a copy of the output.
pub(crate) struct Copy {
    file: File,
}

/// Opens the file before the session starts, so that a bad path starts nothing.
pub(crate) fn of_output(params: &CreateParams) -> Result<Option<Copy>, Fault> {
    let Some(path) = &params.raw_transcript_path else {
        if params.raw_transcript_append {
            return Err(Fault::invalid_params("raw_transcript_append needs raw_transcript_path"));
        }
        return Ok(None);
    };
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    if params.raw_transcript_append {
        options.create(true)
    } else {
        options.create_new(true)
    };
    match options.open(path) {
        Ok(file) => Ok(Some(Copy { file })),
        Err(error) => {
            let message = format!("cannot copy the output to {path}: {error}");
            Err(Fault::new(unopened(error.kind()), message))
        }
    }
}

/// Whose fault it is that a file cannot be opened.
fn unopened(error: io::ErrorKind) -> FaultKind {
    use io::ErrorKind as Kind;
    match error {
        Kind::AlreadyExists => FaultKind::Conflict,
        Kind::NotFound
        | Kind::NotADirectory
        | Kind::IsADirectory
        | Kind::PermissionDenied
        | Kind::InvalidFilename
        | Kind::InvalidInput => FaultKind::InvalidParams,
        _ => FaultKind::Disk,
    }
}

impl Copy {
    pub(crate) fn follow(self, handle: SessionHandle) {
        let Copy { mut file } = self;
        tokio::spawn(async move {
            let Ok(mut follow) = Follow::from(&handle, Some(0)).await else { return };
            while let Some(piece) = follow.next().await {
                let bytes = piece.bytes.clone();
                let written = tokio::task::spawn_blocking(move || {
                    let result = file.write_all(&bytes);
                    (file, result)
                });
                match written.await {
                    Ok((again, Ok(()))) => file = again,
                    Ok((_, Err(error))) => {
                        tracing::warn!(session = %handle.id(), %error, "copying output to a file");
                        return;
                    }
                    Err(_) => return,
                }
            }
        });
    }
}
