//! What an agent says of itself: `agent.event`, for observers and the log.
//!
//! In: what `greenroom hook` passes on, from whoever is in the session. Out: an event, filtered and
//! then cut to a size for a log.

use greenroom_engine::SessionHandle;
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::Payload;
use greenroom_protocol::Fault;
use greenroom_protocol::api::notice::EmitParams;
use greenroom_protocol::events::AgentEvent;
use greenroom_protocol::hook_pipe::MESSAGE_BYTES;
use serde_json::{Map, Value};

use super::Hooks;
use crate::convert::short;
use crate::events::about;

/// An agent, an event: a word.
const WORD_BYTES: usize = 128;
/// One event of an agent in the log, and one text, list and depth in it. A tool's input may hold a
/// whole file.
const LOGGED_BYTES: usize = 16 * 1024;
const TEXT_BYTES: usize = 4 * 1024;
const PARTS_MAX: usize = 64;
const DEPTH_MAX: usize = 8;

/// Where agents put the name of their event.
const EVENT_NAMES: [&str; 3] = ["hook_event_name", "event", "type"];

/// An agent in this session said something; which session `params` name does not count.
pub(crate) fn tell(hooks: &Hooks, handle: &SessionHandle, params: EmitParams) -> Result<(), Fault> {
    let agent = params.agent.unwrap_or_else(|| "unknown".to_owned());
    let named = || {
        let name = EVENT_NAMES.iter().find_map(|name| params.data.get(*name)?.as_str());
        name.unwrap_or("unknown").to_owned()
    };
    let event = params.event.clone().unwrap_or_else(named);
    short("agent", &agent, WORD_BYTES)?;
    short("event", &event, WORD_BYTES)?;
    let data = Value::Object(params.data);
    if data.to_string().len() > MESSAGE_BYTES {
        return Err(Fault::invalid_params(format!("data larger than {MESSAGE_BYTES} bytes")));
    }
    let clean = |text: String| hooks.clean(Some(handle), text);
    let payload = Payload::new()
        .text("agent", clean(agent))
        .text("event", clean(event))
        .json("data", data, &clean);
    // Shortened only after it was filtered: half of a secret is not recognised.
    hooks.storage.log(about(handle.id(), shortened(payload.fields())));
    hooks.plugins.observe(Hook::AgentEvent, Some(handle.id()), payload);
    Ok(())
}

/// What was said, at a size for a log.
fn shortened(fields: &Map<String, Value>) -> AgentEvent {
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let whole = AgentEvent { agent: word("agent"), event: word("event"), data: None, cut: false };
    for texts in [TEXT_BYTES, TEXT_BYTES / 16, TEXT_BYTES / 128] {
        let mut cut = false;
        let data = fields.get("data").cloned().map(|mut data| {
            shorten(&mut data, texts, DEPTH_MAX, &mut cut);
            data
        });
        let event = AgentEvent { data, cut, ..whole.clone() };
        if serde_json::to_string(&event).is_ok_and(|text| text.len() <= LOGGED_BYTES) {
            return event;
        }
    }
    // Thousands of small parts: the log says that the agent spoke, and not what it said.
    AgentEvent { cut: true, ..whole }
}

fn shorten(value: &mut Value, texts: usize, depth: usize, cut: &mut bool) {
    match value {
        Value::String(text) if text.len() > texts => {
            text.truncate(text.floor_char_boundary(texts));
            text.push('…');
            *cut = true;
        }
        Value::Array(_) | Value::Object(_) if depth == 0 => {
            *value = Value::Null;
            *cut = true;
        }
        Value::Array(items) => {
            *cut |= items.len() > PARTS_MAX;
            items.truncate(PARTS_MAX);
            items.iter_mut().for_each(|item| shorten(item, texts, depth - 1, cut));
        }
        Value::Object(members) => {
            let mut kept = 0;
            members.retain(|name, _| {
                kept += 1;
                kept <= PARTS_MAX && name.len() <= WORD_BYTES || {
                    *cut = true;
                    false
                }
            });
            members.values_mut().for_each(|value| shorten(value, texts, depth - 1, cut));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn logged(data: Value) -> Value {
        let fields = json!({ "agent": "claude", "event": "Stop", "data": data });
        crate::events::about_any(None, shortened(fields.as_object().unwrap())).data
    }

    #[test]
    fn what_is_short_is_logged_as_it_is() {
        let data = json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "n": [1, 2] });
        assert_eq!(
            logged(data.clone()),
            json!({ "agent": "claude", "event": "Stop", "data": data })
        );
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let file = "ä".repeat(300_000);
        let said = logged(json!({ "tool_name": "Write", "tool_input": { "content": file } }));
        assert_eq!((&said["data"]["tool_name"], &said["cut"]), (&json!("Write"), &json!(true)));
        let content = said["data"]["tool_input"]["content"].as_str().unwrap();
        assert!(content.ends_with('…') && content.len() <= TEXT_BYTES + 4);
        let deep = (0..200).fold(json!(1), |inner, _| json!({ "a": inner }));
        let many: Map<String, Value> =
            (0..5000).map(|number| (format!("k{number}"), json!("v".repeat(3000)))).collect();
        for data in [deep, Value::Object(many), json!({ "x": vec!["y".repeat(9000); 5000] })] {
            let said = logged(data);
            assert!(said.to_string().len() <= LOGGED_BYTES && said["cut"] == true, "{said}");
        }
    }
}
