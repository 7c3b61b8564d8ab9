//! The one table from tool to method.
//!
//! Every row of the method table with an MCP name is a tool. Those below have a shape of their own,
//! made for a model: few arguments, caps in bytes, keys by name. A row that is not below is a tool
//! whose arguments are the method's params.

mod wait;

use std::sync::{Arc, LazyLock};

use greenroom_protocol::Fault;
use greenroom_protocol::members;
use greenroom_protocol::methods::{METHODS, MethodId, MethodRow, Repeat, Scope};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{Backend, schema};

/// Text of one answer when nobody says how much.
const TEXT_DEFAULT: usize = 16 * 1024;
/// Most text of one answer.
const TEXT_MAX: usize = 256 * 1024;
/// Events of one answer when nobody says how many.
const EVENTS_DEFAULT: u64 = 100;
/// Most events of one answer.
const EVENTS_MAX: u64 = 1000;
/// Longest wait for an event: clients of MCP give up on a call after about a minute.
const EVENTS_WAIT_MAX_MS: u64 = 50_000;

/// What a tool answers.
pub(crate) struct ToolAnswer {
    /// For reading, where the JSON itself is not what to read.
    pub text: Option<String>,
    pub value: Value,
}

struct Shape {
    tool: &'static str,
    about: &'static str,
    work: Work,
}

enum Work {
    /// The params of the one row without these, after a word of ours, with the answer made shorter.
    /// A param that is new is offered unless it is left out here.
    Without(&'static str, fn(&mut Map<String, Value>), fn(Value) -> Value),
    Send,
    Wait,
    Read,
}

const SHAPES: &[Shape] = &[
    Shape {
        tool: "sessions_list",
        about: "Lists sessions: id, name, state, program, directory, how each ended.",
        work: Work::Without("detail", detailed, short_list),
    },
    Shape {
        tool: "session_start",
        about: "Starts a program on a terminal of its own and answers the session's id. It runs on when this conversation ends. \
                Without a command it is the user's shell.",
        work: Work::Without(
            "program args clear_env inherit_env rows cols pixel_width pixel_height backend effort \
             transcript_max_chars raw_transcript_path raw_transcript_append run dry_run",
            as_it_is,
            std::convert::identity,
        ),
    },
    Shape {
        tool: "session_send",
        about: "Types text into a session, presses keys, or both: first the text, then the keys, then enter. Answers the sequence \
                number to wait `since`.",
        work: Work::Send,
    },
    Shape {
        tool: "session_wait",
        about: "Waits until one of the conditions holds and answers the screen. When the time runs out, or the program ends first, \
                `matched` is false and `why` says which; that is no error.",
        work: Work::Wait,
    },
    Shape {
        tool: "session_read",
        about: "Answers a session's screen as text, or its output from a sequence number on.",
        work: Work::Read,
    },
    Shape {
        tool: "session_kill",
        about: "Ends a session's program and all it started. What it printed stays readable.",
        work: Work::Without("", as_it_is, std::convert::identity),
    },
    Shape {
        tool: "events_read",
        about: "Reads the event log: sessions started and ended, alerts, what plugins did. Pass `next_since` as `since` for what follows; \
                `wait_ms` waits for a first event.",
        work: Work::Without("follow", one_page, std::convert::identity),
    },
];

/// Every tool, in the order of the method table.
pub(crate) fn all() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let mut tools: Vec<Tool> = Vec::new();
        for row in METHODS {
            let Some(name) = row.surfaces.mcp else { continue };
            if tools.iter().all(|tool| tool.name != name) {
                tools.push(describe(name, row));
            }
        }
        tools
    });
    &ALL
}

fn shape(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.tool == name)
}

fn describe(name: &'static str, row: &'static MethodRow) -> Tool {
    let (about, input) = match shape(name) {
        Some(shape) => (shape.about, input(&shape.work, row)),
        None => (row.summary, schema::of_row(row)),
    };
    let hints = ToolAnnotations::new()
        .read_only(row.scope == Scope::Read)
        .destructive(row.id == MethodId::SessionKill)
        .idempotent(row.repeat == Repeat::Safe);
    Tool::new(name, about, input).with_annotations(hints)
}

fn input(work: &Work, row: &'static MethodRow) -> JsonObject {
    match work {
        Work::Without(members, _, _) => schema::without(schema::of_row(row), members),
        Work::Send => schema::of::<Send>(),
        Work::Wait => schema::of::<wait::Wait>(),
        Work::Read => schema::of::<Read>(),
    }
}

/// Does what a tool is asked for.
pub(crate) async fn call(
    backend: &Arc<dyn Backend>,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<ToolAnswer, Fault> {
    let row = METHODS.iter().find(|row| row.surfaces.mcp == Some(name));
    let row = row.ok_or_else(|| Fault::invalid_params(format!("there is no tool {name}")))?;
    let value = match shape(name).map(|shape| &shape.work) {
        None => backend.call(row.id, Value::Object(arguments)).await?,
        Some(Work::Without(_, prepare, shorten)) => {
            let mut params = arguments;
            let tool = all().iter().find(|tool| tool.name == name);
            let known: Vec<&str> =
                tool.map(|tool| schema::members(&tool.input_schema)).unwrap_or_default();
            if let Some(unknown) = params.keys().find(|key| !known.contains(&key.as_str())) {
                return Err(members::unknown(name, unknown, known));
            }
            prepare(&mut params);
            shorten(backend.call(row.id, Value::Object(params)).await?)
        }
        Some(Work::Send) => send(backend, read_arguments(name, arguments)?).await?,
        Some(Work::Wait) => return wait::until(backend, read_arguments(name, arguments)?).await,
        Some(Work::Read) => return read(backend, read_arguments(name, arguments)?).await,
    };
    Ok(ToolAnswer { text: None, value })
}

fn read_arguments<T: DeserializeOwned + JsonSchema>(
    name: &str,
    arguments: Map<String, Value>,
) -> Result<T, Fault> {
    let shape = members::Shape::new(&Value::Object(schema::of::<T>()), &Map::new());
    let arguments = Value::Object(arguments);
    shape.check(name, &arguments.to_string())?;
    serde_json::from_value(arguments).map_err(Fault::invalid_params)
}

fn as_it_is(_: &mut Map<String, Value>) {}

fn detailed(params: &mut Map<String, Value>) {
    params.insert("detail".to_owned(), json!(true));
}

/// What does not tell sessions apart; `session_read` and the command line know it.
const NOT_LISTED: &str = "former_name pid size started_at processes_left backend effort first_seq last_output_at \
    recording clients size_owner plugins sandbox deadline_at notes denied withheld explain";

fn short_list(mut list: Value) -> Value {
    for session in list["sessions"].as_array_mut().into_iter().flatten() {
        if let Value::Object(members) = session {
            members.retain(|name, _| !NOT_LISTED.split(' ').any(|left_out| left_out == name));
        }
    }
    list
}

fn one_page(params: &mut Map<String, Value>) {
    params.insert("follow".to_owned(), json!(false));
    if !params.contains_key("wait_ms") {
        params.entry("since").or_insert(json!(0));
    }
    for (name, default, most) in
        [("limit", EVENTS_DEFAULT, EVENTS_MAX), ("wait_ms", 0, EVENTS_WAIT_MAX_MS)]
    {
        let given = params.get(name).map_or(Some(default), Value::as_u64);
        // Something else than a number is the method's to refuse.
        if let Some(given) = given {
            params.insert(name.to_owned(), json!(given.min(most)));
        }
    }
}

/// Arguments of `session_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Send {
    /// Id or name of the session.
    session: String,
    /// Typed as it is; `\n` does not press enter in every program, `enter` does.
    #[serde(default)]
    text: Option<String>,
    /// Paste the text instead of typing it: for several lines, in programs that know pasting.
    #[serde(default)]
    paste: bool,
    /// Keys pressed after the text, by name: `enter`, `tab`, `escape`, `ctrl-c`, `up`, `shift-tab`,
    /// `f5`, `page_down`.
    #[serde(default)]
    keys: Vec<String>,
    /// Press enter at the end.
    #[serde(default)]
    enter: bool,
}

async fn send(backend: &Arc<dyn Backend>, send: Send) -> Result<Value, Fault> {
    let mut actions = Vec::new();
    if let Some(text) = send.text.filter(|text| !text.is_empty()) {
        let kind = if send.paste { "paste" } else { "text" };
        actions.push(json!({ "type": kind, "value": text }));
    }
    if !send.keys.is_empty() {
        actions.push(json!({ "type": "keys", "value": send.keys }));
    }
    if send.enter {
        actions.push(json!({ "type": "key", "value": "enter" }));
    }
    if actions.is_empty() {
        return Err(Fault::invalid_params("nothing to send: give text, keys or enter"));
    }
    // Where the screen stood before the first of them is where to wait from.
    let mut first = None;
    for action in actions {
        let params = json!({ "session": send.session, "action": action });
        let sent = backend.call(MethodId::SessionInput, params).await?;
        first.get_or_insert(sent["sequence"].clone());
    }
    Ok(json!({ "sent": true, "sequence": first }))
}

/// Arguments of `session_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Read {
    /// Id or name of the session.
    session: String,
    /// `screen` (what a person would see now) or `output` (everything printed). Without it
    /// `screen`, or `output` with `since`.
    #[serde(default)]
    what: Option<What>,
    /// Output from this sequence number on; without it the newest.
    #[serde(default)]
    since: Option<u64>,
    /// At most this much text: 16384 if left out, 262144 at most.
    #[serde(default)]
    max_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum What {
    Screen,
    Output,
}

async fn read(backend: &Arc<dyn Backend>, read: Read) -> Result<ToolAnswer, Fault> {
    let max = text_max(read.max_bytes);
    let what = read.what.unwrap_or(if read.since.is_some() { What::Output } else { What::Screen });
    if what == What::Output {
        let mut params = json!({ "session": read.session, "format": "text", "max_bytes": max });
        if let Some(since) = read.since {
            params["since"] = json!(since);
        }
        let mut value = backend.call(MethodId::SessionTranscript, params).await?;
        let mut text = cut(value["text"].as_str().unwrap_or_default(), TEXT_MAX).to_owned();
        value["text"] = json!(text);
        if let Some(behind) = value["behind"].as_u64().filter(|behind| *behind > 0) {
            // An agent that reads only the text must not take it for all there is.
            let next = &value["next_seq"];
            text.push_str(&format!(
                "\n[{behind} more bytes are not filtered yet; read again since {next}]"
            ));
        }
        return Ok(ToolAnswer { text: Some(text), value });
    }
    let params = json!({ "session": read.session, "format": "text" });
    let shot = backend.call(MethodId::SessionSnapshot, params).await?;
    let whole = shot["text"].as_str().unwrap_or_default();
    let text = cut(whole, max).to_owned();
    let mut value = json!({
        "text": text, "sequence": shot["sequence"], "size": shot["size"], "cursor": shot["cursor"],
    });
    if text.len() < whole.len() {
        value["truncated"] = json!(true);
    }
    Ok(ToolAnswer { text: Some(text), value })
}

/// How much text a tool answers that was asked for so much.
pub(crate) fn text_max(asked: Option<u64>) -> usize {
    let asked = asked.map_or(TEXT_DEFAULT, |asked| usize::try_from(asked).unwrap_or(TEXT_MAX));
    asked.clamp(1, TEXT_MAX)
}

/// The beginning of a text, whole characters only.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests;
