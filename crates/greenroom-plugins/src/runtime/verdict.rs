//! What an answer says: one form for every runtime, a superset of datawatch's.
//!
//! In: the JSON object a program printed. Out: a [`Verdict`], or the failure that it is none. An action nobody knows, and a
//! field of the wrong type, are failures: a guard with a typo must not pass everything. Deliberately absent: which actions a
//! hook allows (`host`).

use serde_json::{Map, Value};

use super::CallFailure;

/// The longest reason or error that is passed on.
const MAX_REASON_CHARS: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Pass,
    Mutate,
    Replace,
    Drop,
    Block,
    Ask,
    Defer,
    EndSession,
}

impl Action {
    /// `None` for a name nobody knows. The empty one is datawatch's pass.
    pub fn named(name: &str) -> Option<Action> {
        Some(match name {
            "" | "pass" | "allow" => Action::Pass,
            "mutate" => Action::Mutate,
            "replace" => Action::Replace,
            "drop" => Action::Drop,
            "block" | "deny" => Action::Block,
            "ask" => Action::Ask,
            "defer" => Action::Defer,
            "end_session" => Action::EndSession,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Action::Pass => "pass",
            Action::Mutate => "mutate",
            Action::Replace => "replace",
            Action::Drop => "drop",
            Action::Block => "block",
            Action::Ask => "ask",
            Action::Defer => "defer",
            Action::EndSession => "end_session",
        }
    }
}

/// What becomes of one item of a batch; items without one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub item: usize,
    /// `None`: dropped.
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub action: Action,
    pub fields: Map<String, Value>,
    pub line: Option<String>,
    /// In the order they came; each names another item.
    pub edits: Vec<Edit>,
    /// Without control characters, and not long.
    pub reason: String,
}

impl Verdict {
    pub fn block(reason: &str) -> Verdict {
        Verdict {
            action: Action::Block,
            fields: Map::new(),
            line: None,
            edits: Vec::new(),
            reason: shown(reason.trim()),
        }
    }

    pub fn read(answer: &Map<String, Value>) -> Result<Verdict, CallFailure> {
        let error = text(answer, "error")?.filter(|error| !error.is_empty());
        if let Some(error) = error {
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

fn malformed(why: &str) -> CallFailure {
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
fn edits(answer: &Map<String, Value>) -> Result<Vec<Edit>, CallFailure> {
    let list = match answer.get("edits") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(malformed("`edits` is not a list")),
    };
    let mut seen = std::collections::HashSet::with_capacity(list.len());
    let edit = |pair: &Value| -> Option<Edit> {
        let [item, text] = pair.as_array()?.as_slice() else { return None };
        let item = usize::try_from(item.as_u64()?).ok()?;
        let text = match text {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            _ => return None,
        };
        seen.insert(item).then_some(Edit { item, text })
    };
    let made: Option<Vec<Edit>> = list.iter().map(edit).collect();
    made.ok_or_else(|| {
        malformed("`edits` must be pairs of an item and a string or null, each once")
    })
}

/// Safe to print: no control characters, not endless.
pub fn shown(text: &str) -> String {
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
        assert_eq!(edited.edits[0], Edit { item: 3, text: Some("x".into()) });
        assert_eq!(edited.edits[1], Edit { item: 9, text: None });
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
