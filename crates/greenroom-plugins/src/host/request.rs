//! The JSON a plugin is asked with: one form on every runtime.
//!
//! A native hook gets `v`, `hook`, `session_id`, `deadline_ms` and `payload`. A hook under
//! datawatch's name gets exactly datawatch's fields, both beside `hook` and in `payload`, because
//! its document and its code disagree on where they are. The runtime adds `id` where it needs one.

use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{Hook, HookName};
use serde_json::{Map, Value, json};

use super::shape::Shape;

/// The members of a request.
pub(super) type Fields = Map<String, Value>;

/// The version of the payloads. A change that is not an addition counts it up.
const VERSION: u32 = 1;

/// A request about one event.
pub(super) fn request(
    hook: HookName,
    session: Option<SessionId>,
    deadline: Duration,
    payload: &Fields,
    gap: u64,
) -> Fields {
    if hook.datawatch {
        return datawatch(hook, session, payload);
    }
    let mut request = head(hook, session, deadline);
    if gap > 0 {
        request.insert("gap".to_owned(), gap.into());
    }
    request.insert("payload".to_owned(), Value::Object(payload.clone()));
    request
}

/// A request about one line of output.
pub(super) fn line(
    hook: HookName,
    session: SessionId,
    deadline: Duration,
    text: &str,
    payload: &Fields,
) -> Fields {
    let text = ("line".to_owned(), Value::from(text));
    if hook.datawatch {
        return datawatch(hook, Some(session), &Map::from_iter([text]));
    }
    let mut request = request(hook, Some(session), deadline, payload, 0);
    request.extend([text]);
    request
}

/// What every native request begins with; to a batch the runtime adds the items.
pub(super) fn head(hook: HookName, session: Option<SessionId>, deadline: Duration) -> Fields {
    let mut head = Map::new();
    head.insert("v".to_owned(), VERSION.into());
    head.insert("hook".to_owned(), hook.name().into());
    if let Some(session) = session {
        head.insert("session_id".to_owned(), session.to_string().into());
    }
    head.insert("deadline_ms".to_owned(), millis(deadline).into());
    head
}

/// What `plugin test` asks with: the caller's fields as they are, wherever a plugin looks for them.
pub(super) fn by_hand(hook: HookName, deadline: Duration, payload: &Fields) -> Fields {
    let given = |name: &str| Some((name.to_owned(), payload.get(name)?.clone()));
    let mut request = if hook.datawatch { payload.clone() } else { head(hook, None, deadline) };
    request.insert("hook".to_owned(), hook.name().into());
    request.insert("payload".to_owned(), Value::Object(payload.clone()));
    request.extend(given("session_id"));
    request.extend(given("line").filter(|_| hook.hook == Hook::OutputFilter));
    request
}

fn datawatch(hook: HookName, session: Option<SessionId>, payload: &Fields) -> Fields {
    let fields: Fields = Shape::of(hook.hook)
        .datawatch
        .iter()
        .map(|name| {
            let value = match payload.get(*name) {
                // Its plugins know no null: a text that is not there is empty, a cost that is not
                // known is none.
                None | Some(Value::Null) if *name == "cost" => json!(0.0),
                None | Some(Value::Null) => json!(""),
                Some(value) => value.clone(),
            };
            ((*name).to_owned(), value)
        })
        .collect();
    let mut request = fields.clone();
    request.insert("hook".to_owned(), hook.name().into());
    if let Some(session) = session {
        request.insert("session_id".to_owned(), session.to_string().into());
    }
    request.insert("payload".to_owned(), Value::Object(fields));
    request
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_native_hook_has_its_fields_in_the_payload() {
        let hook = HookName { hook: Hook::InputSubmit, datawatch: false };
        let made = request(hook, Some(SessionId(3)), SECOND, &map(json!({ "text": "ls" })), 2);
        let expected = json!({
            "v": 1, "hook": "input.submit", "session_id": "s3", "deadline_ms": 1000, "gap": 2,
            "payload": { "text": "ls" },
        });
        assert_eq!(Value::Object(made), expected);
    }

    #[test]
    fn datawatch_gets_exactly_its_own_fields_twice() {
        let fields = json!({ "task": "t", "project_dir": "/p", "backend": null, "command": ["x"] });
        let hook = HookName { hook: Hook::SessionBefore, datawatch: true };
        let flat = json!({ "task": "t", "project_dir": "/p", "backend": "", "effort": "" });
        let mut expected = map(flat.clone());
        expected.insert("hook".to_owned(), "pre_session_start".into());
        expected.insert("session_id".to_owned(), "s1".into());
        expected.insert("payload".to_owned(), flat);
        let made = request(hook, Some(SessionId(1)), SECOND, &map(fields), 0);
        assert_eq!(made, expected);

        let hook = HookName { hook: Hook::SessionExited, datawatch: true };
        let made =
            request(hook, Some(SessionId(1)), SECOND, &map(json!({ "status": "complete" })), 0);
        assert_eq!(
            Value::Object(made),
            json!({
                "hook": "post_session_complete", "session_id": "s1", "status": "complete",
                "cost": 0.0, "payload": { "status": "complete", "cost": 0.0 },
            })
        );

        let hook = HookName { hook: Hook::OutputFilter, datawatch: true };
        let made = line(hook, SessionId(1), SECOND, "out", &map(json!({ "offset": 1 })));
        assert_eq!(
            Value::Object(made),
            json!({
                "hook": "post_session_output", "session_id": "s1", "line": "out",
                "payload": { "line": "out" },
            })
        );
    }

    #[test]
    fn by_hand_promotes_what_datawatch_promotes() {
        let hook = HookName { hook: Hook::OutputFilter, datawatch: true };
        let made = by_hand(hook, SECOND, &map(json!({ "line": "x", "status": "y" })));
        assert_eq!(
            Value::Object(made),
            json!({
                "hook": "post_session_output", "line": "x", "status": "y",
                "payload": { "line": "x", "status": "y" },
            })
        );
        let hook = HookName { hook: Hook::OutputFilter, datawatch: false };
        let made = by_hand(hook, SECOND, &map(json!({ "line": "x", "session_id": "s9" })));
        assert_eq!((&made["line"], &made["session_id"]), (&json!("x"), &json!("s9")));
    }
}
