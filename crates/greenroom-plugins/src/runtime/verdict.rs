//! What an answer says: one form for every runtime, a superset of datawatch's.
//!
//! In: the JSON object a program printed. Out: a [`Verdict`], or the failure that it is none. An
//! action nobody knows, and a field of the wrong type, are failures: a guard with a typo must not
//! pass everything. Deliberately absent: which actions a hook allows (`host`).

use greenroom_engine::egress::Edit;
use greenroom_plugin_api::words;
use serde_json::{Map, Value};

use super::CallFailure;

/// The longest reason or error that is passed on.
const MAX_REASON_CHARS: usize = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Pass,
    Mutate,
    Replace,
    Drop,
    Block,
    Ask,
    Defer,
    EndSession,
}

words! { Action {
    Pass "pass", Mutate "mutate", Replace "replace", Drop "drop", Block "block", Ask "ask",
    Defer "defer", EndSession "end_session",
} }

impl Action {
    /// `None` for a name nobody knows. The empty one is datawatch's pass.
    fn named(name: &str) -> Option<Action> {
        match name {
            "" | "allow" => Some(Action::Pass),
            "deny" => Some(Action::Block),
            word => Action::ALL.iter().copied().find(|action| action.word() == word),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub action: Action,
    pub fields: Map<String, Value>,
    pub line: Option<String>,
    /// What becomes of items of a batch, in the order they came; each names another item. Items
    /// without one pass.
    pub edits: Vec<(usize, Edit)>,
    /// Without control characters, and not long.
    pub reason: String,
}

impl Verdict {
    pub fn block(reason: &str) -> Verdict {
        let reason = shown(reason.trim());
        Verdict { action: Action::Block, reason, ..Verdict::default() }
    }

    pub fn read(answer: &Map<String, Value>) -> Result<Verdict, CallFailure> {
        if let Some(error) = text(answer, "error")?.filter(|error| !error.is_empty()) {
            return Err(CallFailure::Reported(shown(&error)));
        }
        if answer.get("ok") == Some(&Value::Bool(false)) {
            return Err(CallFailure::Reported("it said ok: false".to_owned()));
        }
        let named = text(answer, "action")?.unwrap_or_default();
        let action =
            Action::named(&named).ok_or_else(|| CallFailure::UnknownAction(shown(&named)))?;
        let fields = match answer.get("fields") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return Err(malformed("`fields` is not an object")),
        };
        let line = text(answer, "line")?;
        if action == Action::Replace && line.is_none() {
            return Err(malformed("`replace` needs a `line`"));
        }
        let reason = text(answer, "reason")?.map(|reason| shown(&reason)).unwrap_or_default();
        Ok(Verdict { action, fields, line, edits: edits(answer)?, reason })
    }
}

pub(crate) fn malformed(why: &str) -> CallFailure {
    CallFailure::Malformed { why: why.to_owned() }
}

fn text(answer: &Map<String, Value>, key: &'static str) -> Result<Option<String>, CallFailure> {
    match answer.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(malformed(&format!("`{key}` is not a string"))),
    }
}

/// `[[3, "text"], [9, null]]`.
fn edits(answer: &Map<String, Value>) -> Result<Vec<(usize, Edit)>, CallFailure> {
    let list = match answer.get("edits") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(malformed("`edits` is not a list")),
    };
    let mut seen = std::collections::HashSet::with_capacity(list.len());
    let edit = |pair: &Value| -> Option<(usize, Edit)> {
        let [item, text] = pair.as_array()?.as_slice() else { return None };
        let item = usize::try_from(item.as_u64()?).ok()?;
        let edit = match text {
            Value::Null => Edit::Drop,
            Value::String(text) => Edit::Replace(text.clone()),
            _ => return None,
        };
        seen.insert(item).then_some((item, edit))
    };
    let made: Option<Vec<(usize, Edit)>> = list.iter().map(edit).collect();
    made.ok_or_else(|| {
        malformed("`edits` must be pairs of an item and a string or null, each once")
    })
}

/// Safe to print: no control characters, not endless.
pub(crate) fn shown(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Verdict, CallFailure> {
        Verdict::read(value.as_object().expect("an object"))
    }

    #[test]
    fn known_forms_are_read() {
        assert_eq!(read(json!({})).unwrap().action, Action::Pass);
        assert_eq!(read(json!({"action": ""})).unwrap().action, Action::Pass);
        let replaced = read(json!({"action": "replace", "line": "x"})).unwrap();
        assert_eq!(replaced.line.as_deref(), Some("x"));
        let edited = read(json!({"edits": [[3, "x"], [9, null]]})).unwrap();
        assert_eq!(edited.edits, [(3, Edit::Replace("x".into())), (9, Edit::Drop)]);
        let blocked = read(json!({"action": "block", "reason": "no\u{1b}[31m"})).unwrap();
        assert_eq!(blocked.reason, "no [31m");
    }

    #[test]
    fn what_is_not_understood_is_a_failure() {
        let unknown = read(json!({"action": "redcat"}));
        assert_eq!(unknown, Err(CallFailure::UnknownAction("redcat".into())));
        for wrong in [
            json!({"action": 1}),
            json!({"action": "replace"}),
            json!({"line": 1}),
            json!({"fields": []}),
            json!({"edits": {}}),
            json!({"edits": [[1]]}),
            json!({"edits": [[1, 2]]}),
            json!({"edits": [[-1, "x"]]}),
            json!({"edits": [[1, "x"], [1, null]]}),
        ] {
            assert!(matches!(read(wrong.clone()), Err(CallFailure::Malformed { .. })), "{wrong}");
        }
        assert!(matches!(read(json!({"error": "bad"})), Err(CallFailure::Reported(_))));
        assert!(matches!(read(json!({"ok": false})), Err(CallFailure::Reported(_))));
    }

    proptest! {
        #[test]
        fn a_reason_never_carries_controls(text in ".*") {
            prop_assert!(!shown(&text).chars().any(char::is_control));
        }
    }
}
