//! What a new session gets besides its program: the environment below the caller's own variables,
//! and its shell.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use greenroom_engine::process::KEY_VARIABLE;
use greenroom_protocol::Fault;
use greenroom_protocol::api::session::CreateParams;

use super::Sessions;

/// Variables that describe another terminal than the one the session gets.
const OF_ANOTHER_TERMINAL: [&str; 16] = [
    "COLUMNS",
    "GREENROOM_SESSION",
    KEY_VARIABLE,
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
pub(crate) fn check(params: &CreateParams) -> Result<(), Fault> {
    let words = params.program.iter().chain(&params.args).chain(params.command.iter().flatten());
    for (what, mut texts) in [
        ("the command", Box::new(words) as Box<dyn Iterator<Item = &String>>),
        ("cwd", Box::new(params.cwd.iter())),
        ("raw_transcript_path", Box::new(params.raw_transcript_path.iter())),
    ] {
        if texts.any(|text| text.contains('\0')) {
            return Err(Fault::invalid_params(format!("{what} holds a NUL character")));
        }
    }
    if params.raw_transcript_path.as_deref() == Some("") {
        return Err(Fault::invalid_params("raw_transcript_path is empty"));
    }
    check_variables("env", &params.ask.env.0)?;
    params.inherit_env.iter().try_for_each(|env| check_variables("inherit_env", env))
}

/// The same of variables.
pub(crate) fn check_variables(what: &str, env: &BTreeMap<String, String>) -> Result<(), Fault> {
    for (name, value) in env {
        if name.is_empty() {
            return Err(Fault::invalid_params(format!("{what} has a variable without a name")));
        }
        if name.contains('\0') || value.contains('\0') {
            let name = name.escape_debug();
            return Err(Fault::invalid_params(format!("{what}: {name} holds a NUL character")));
        }
    }
    Ok(())
}

/// The environment a new session inherits. The caller's own variables and those of plugins come on
/// top.
pub(crate) fn of(sessions: &Sessions, params: &CreateParams) -> BTreeMap<OsString, OsString> {
    let pair = |(name, value): (&String, &String)| (name.into(), value.into());
    let mut env: BTreeMap<OsString, OsString> = match (&params.inherit_env, params.clear_env) {
        (_, true) => BTreeMap::new(),
        (Some(callers), false) => callers.iter().map(pair).collect(),
        (None, false) => std::env::vars_os().collect(),
    };
    for name in OF_ANOTHER_TERMINAL {
        env.remove(OsStr::new(name));
    }
    env.insert("TERM".into(), sessions.settings.now().sessions.term.clone().into());
    env.insert("COLORTERM".into(), "truecolor".into());
    env.insert("GREENROOM_SOCKET".into(), sessions.socket.clone().into());
    env
}

/// The program of a session that names none.
pub(crate) fn shell(
    sessions: &Sessions,
    params: &CreateParams,
    env: &BTreeMap<OsString, OsString>,
) -> OsString {
    let named = sessions.settings.now().sessions.shell.clone().map(OsString::from);
    let callers = params.ask.env.0.get("SHELL").map(OsString::from);
    let inherited = || env.get(OsStr::new("SHELL")).cloned();
    let usual = || callers.or_else(inherited).filter(|shell| !shell.is_empty());
    named.or_else(usual).unwrap_or_else(|| "/bin/sh".into())
}
