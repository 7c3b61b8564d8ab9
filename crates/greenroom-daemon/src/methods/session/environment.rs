//! What a new session gets besides its program: the environment below the caller's own variables, its shell, and a
//! copy of the output in a file if the caller asked for one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use greenroom_engine::SessionHandle;
use greenroom_protocol::api::session::CreateParams;
use greenroom_protocol::{Fault, FaultKind};

use crate::follow::Follow;
use crate::host::Host;
use crate::rpc::fault;

/// Variables that describe another terminal than the one the session gets.
const OF_ANOTHER_TERMINAL: [&str; 16] = [
    "COLUMNS",
    "GREENROOM_SESSION",
    "GREENROOM_SESSION_KEY",
    "GREENROOM_SOCKET",
    "KITTY_PID",
    "KITTY_WINDOW_ID",
    "LINES",
    "STY",
    "TERMCAP",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "VTE_VERSION",
    "WINDOWID",
];

/// Refuses what no program can be given: a NUL in a text, a variable without a name.
pub fn check(params: &CreateParams) -> Result<(), Fault> {
    let words = params.program.iter().chain(&params.args).chain(params.command.iter().flatten());
    for (what, mut texts) in [
        ("the command", Box::new(words) as Box<dyn Iterator<Item = &String>>),
        ("cwd", Box::new(params.cwd.iter())),
        ("raw_transcript_path", Box::new(params.raw_transcript_path.iter())),
    ] {
        if texts.any(|text| text.contains('\0')) {
            return Err(fault::invalid(format!("{what} holds a NUL character")));
        }
    }
    if params.raw_transcript_path.as_deref() == Some("") {
        return Err(fault::invalid("raw_transcript_path is empty"));
    }
    check_variables("env", &params.env)?;
    params.inherit_env.iter().try_for_each(|env| check_variables("inherit_env", env))
}

/// The same of variables.
pub fn check_variables(what: &str, env: &BTreeMap<String, String>) -> Result<(), Fault> {
    for (name, value) in env {
        if name.is_empty() {
            return Err(fault::invalid(format!("{what} has a variable without a name")));
        }
        if name.contains('\0') || value.contains('\0') {
            let name = name.escape_debug();
            return Err(fault::invalid(format!("{what}: {name} holds a NUL character")));
        }
    }
    Ok(())
}

/// The environment a new session inherits. The caller's own variables and those of plugins come on top.
pub fn of(host: &Host, params: &CreateParams) -> BTreeMap<OsString, OsString> {
    let pair = |(name, value): (&String, &String)| (name.into(), value.into());
    let mut env: BTreeMap<OsString, OsString> = match (&params.inherit_env, params.clear_env) {
        (_, true) => BTreeMap::new(),
        (Some(callers), false) => callers.iter().map(pair).collect(),
        (None, false) => std::env::vars_os().collect(),
    };
    for name in OF_ANOTHER_TERMINAL {
        env.remove(OsStr::new(name));
    }
    env.insert("TERM".into(), host.settings.now().sessions.term.clone().into());
    env.insert("COLORTERM".into(), "truecolor".into());
    env.insert("GREENROOM_SOCKET".into(), host.socket.clone().into());
    env
}

/// The program of a session that names none.
pub fn shell(host: &Host, params: &CreateParams, env: &BTreeMap<OsString, OsString>) -> OsString {
    let named = host.settings.now().sessions.shell.clone().map(OsString::from);
    let callers = params.env.get("SHELL").map(OsString::from);
    let inherited = || env.get(OsStr::new("SHELL")).cloned();
    let usual = || callers.or_else(inherited).filter(|shell| !shell.is_empty());
    named.or_else(usual).unwrap_or_else(|| "/bin/sh".into())
}

/// A file that gets a copy of the output.
pub struct Copy {
    file: File,
}

/// Opens the file before the session starts, so that a bad path starts nothing.
pub fn copy_of_output(params: &CreateParams) -> Result<Option<Copy>, Fault> {
    let Some(path) = &params.raw_transcript_path else {
        if params.raw_transcript_append {
            return Err(fault::invalid("raw_transcript_append needs raw_transcript_path"));
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
    pub fn follow(self, handle: SessionHandle) {
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
