//! `input.submit`: text that is handed to a program with Enter, through the API.
//!
//! In: what a caller types. Out: what is typed, or a refusal. Text without a line end is typed at
//! once and remembered; the Enter that follows is what is asked about, with all of it. A plugin may
//! change text that is not typed yet; of text that is, it may only keep the Enter away. A person at
//! an attached terminal is never asked about.

use std::collections::HashMap;
use std::sync::Mutex;

use greenroom_engine::{SessionHandle, SessionId};
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::Payload;
use greenroom_protocol::api::input::Action;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::Value;

use super::{Allowed, Hooks, ask_gate};
use crate::sync::lock;

/// Remembered of a line that is being typed; a longer one is told by its end.
const LINE_MAX: usize = 64 * 1024;

/// Lines that are being typed, by session.
#[derive(Default)]
pub(crate) struct Typed(Mutex<HashMap<SessionId, String>>);

impl Typed {
    fn add(&self, id: SessionId, text: &str) {
        let mut lines = lock(&self.0);
        let line = lines.entry(id).or_default();
        line.push_str(text);
        if line.len() > LINE_MAX {
            let cut = line.ceil_char_boundary(line.len() - LINE_MAX);
            line.drain(..cut);
        }
    }

    fn take(&self, id: SessionId) -> String {
        lock(&self.0).remove(&id).unwrap_or_default()
    }

    pub(crate) fn forget(&self, id: SessionId) {
        lock(&self.0).remove(&id);
    }
}

/// What an action does to the line.
#[derive(Debug, PartialEq)]
enum Does {
    Adds(String),
    /// Adds and ends it: text, and the line end as it was written, if it was not a key.
    Submits {
        text: String,
        end: Option<String>,
    },
    /// Throws it away.
    Clears,
    Nothing,
}

/// Asks about an action before it is carried out. Answers the action to carry out. With `submit`
/// Enter follows it, and it is asked about as a whole.
pub(crate) async fn checked(
    hooks: &Hooks,
    handle: &SessionHandle,
    action: Action,
    submit: bool,
    client: Option<String>,
) -> Result<Action, Fault> {
    if submit {
        let whole = match &action {
            Action::Text(text) | Action::Paste(text) | Action::BracketedPaste(text) => text.clone(),
            Action::StreamText(stream) => stream.text.clone(),
            _ => return Err(Fault::invalid_params("submit needs text")),
        };
        return Ok(with_text(action, text(hooks, handle, whole, client).await?));
    }
    if !hooks.plugins.listens(Hook::InputSubmit) {
        return Ok(action);
    }
    let id = handle.id();
    let typed = &hooks.typed;
    match does(&action) {
        Does::Nothing => Ok(action),
        Does::Adds(text) => {
            typed.add(id, &text);
            Ok(action)
        }
        Does::Clears => {
            typed.forget(id);
            Ok(action)
        }
        Does::Submits { text, end } => {
            let before = typed.take(id);
            let asked = ask(hooks, handle, format!("{before}{text}"), client).await;
            // A failure leaves in the terminal what was typed before.
            let changed = asked.inspect_err(|_| typed.add(id, &before))?;
            match (changed, end) {
                (None, _) => Ok(action),
                (Some(changed), Some(end)) if before.is_empty() => {
                    Ok(with_text(action, changed + &end))
                }
                (Some(_), _) => Err(too_late(id)),
            }
        }
    }
}

/// Asks about a whole text before it is typed and entered.
pub(crate) async fn text(
    hooks: &Hooks,
    handle: &SessionHandle,
    text: String,
    client: Option<String>,
) -> Result<String, Fault> {
    if !hooks.plugins.listens(Hook::InputSubmit) {
        return Ok(text);
    }
    Ok(ask(hooks, handle, text.clone(), client).await?.unwrap_or(text))
}

/// The changed text, if a plugin changed it.
async fn ask(
    hooks: &Hooks,
    handle: &SessionHandle,
    text: String,
    client: Option<String>,
) -> Result<Option<String>, Fault> {
    let id = handle.id();
    let clean = |text: String| hooks.clean(Some(handle), text);
    let payload = Payload::new().text("text", clean(text)).maybe("client", client.map(clean));
    let shown = payload.fields().get("text").cloned();
    let attempt = format!("cannot submit to {id}");
    let Allowed { fields, .. } = ask_gate(hooks, Hook::InputSubmit, id, &attempt, payload).await?;
    let now = fields.get("text").filter(|now| Some(*now) != shown.as_ref());
    Ok(now.and_then(Value::as_str).map(str::to_owned))
}

fn too_late(id: SessionId) -> Fault {
    let message =
        format!("cannot submit to {id}: a plugin wants to change text that is typed already");
    Fault::new(FaultKind::PermissionDenied, message).hint("send text and line end in one call")
}

fn does(action: &Action) -> Does {
    match action {
        Action::Text(text) | Action::Paste(text) => line(text),
        Action::StreamText(text) => line(&text.text),
        // Line ends inside brackets are text to the program.
        Action::BracketedPaste(text) => Does::Adds(text.clone()),
        Action::Raw(bytes) => line(&String::from_utf8_lossy(&bytes.0)),
        Action::Key(key) => keys(std::slice::from_ref(key)),
        Action::Keys(all) => keys(all),
        Action::Interrupt | Action::Eof => Does::Clears,
        Action::Mouse(_)
        | Action::Focus(_)
        | Action::Resize(_)
        | Action::Signal(_)
        | Action::Kill
        | Action::MarkTranscript(_) => Does::Nothing,
    }
}

fn line(text: &str) -> Does {
    let body = text.trim_end_matches(['\r', '\n']);
    if body.len() < text.len() {
        let end = Some(text[body.len()..].to_owned());
        return Does::Submits { text: body.to_owned(), end };
    }
    // A line end inside submits what is before it; the whole is asked about at once.
    if text.contains(['\r', '\n']) {
        return Does::Submits { text: text.to_owned(), end: Some(String::new()) };
    }
    Does::Adds(text.to_owned())
}

fn keys(keys: &[String]) -> Does {
    let is = |names: &[&str]| keys.iter().any(|key| names.contains(&&*key.to_lowercase()));
    if is(&["enter", "return", "ctrl-m", "ctrl-j", "kp_enter"]) {
        return Does::Submits { text: String::new(), end: None };
    }
    if is(&["ctrl-c", "ctrl-d", "ctrl-u", "escape", "esc"]) { Does::Clears } else { Does::Nothing }
}

/// The same act with another text.
fn with_text(action: Action, text: String) -> Action {
    match action {
        Action::BracketedPaste(_) => Action::BracketedPaste(text),
        Action::Paste(_) => Action::Paste(text),
        Action::StreamText(stream) => {
            Action::StreamText(greenroom_protocol::api::input::StreamText { text, ..stream })
        }
        _ => Action::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_line() {
        let submits =
            |text: &str, end: &str| Does::Submits { text: text.into(), end: Some(end.into()) };
        let text = |text: &str| does(&Action::Text(text.to_owned()));
        assert_eq!(text("ls\r"), submits("ls", "\r"));
        assert_eq!(text("ls\n\n"), submits("ls", "\n\n"));
        assert_eq!(text("a\nb"), submits("a\nb", ""));
        assert_eq!(text("ls"), Does::Adds("ls".into()));
        let key = |key: &str| does(&Action::Key(key.to_owned()));
        assert_eq!(key("Enter"), Does::Submits { text: String::new(), end: None });
        assert_eq!(key("ctrl-c"), Does::Clears);
        assert_eq!(key("x"), Does::Nothing);
        let paste = Action::BracketedPaste("a\nb\n".to_owned());
        assert_eq!(does(&paste), Does::Adds("a\nb\n".into()));
    }

    #[test]
    fn a_line_is_remembered_up_to_a_limit() {
        let typed = Typed::default();
        let id = SessionId(1);
        typed.add(id, &"é".repeat(LINE_MAX));
        typed.add(id, "end");
        let line = typed.take(id);
        assert!(line.len() <= LINE_MAX && line.ends_with("end"));
        assert_eq!(typed.take(id), "");
    }
}
