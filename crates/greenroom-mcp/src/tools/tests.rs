use std::collections::HashSet;
use std::sync::Mutex;

use super::*;
use crate::Answer;

/// Answers every method with what it was told to, and remembers what it was asked.
#[derive(Default)]
struct FakeHost {
    asked: Mutex<Vec<(&'static str, Value)>>,
    answers: Vec<(&'static str, Value)>,
}

impl Backend for FakeHost {
    fn call(&self, method: MethodId, params: Value) -> Answer {
        let method = method.row().name;
        self.asked.lock().unwrap().push((method, params));
        let found = self.answers.iter().find(|(name, _)| *name == method);
        let answer = found.map_or(json!({}), |(_, answer)| answer.clone());
        Box::pin(async move { Ok(answer) })
    }
}

async fn ask(
    host: FakeHost,
    tool: &str,
    arguments: Value,
) -> (Result<ToolAnswer, Fault>, Vec<(&'static str, Value)>) {
    let host = Arc::new(host);
    let backend: Arc<dyn Backend> = host.clone();
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let told = call(&backend, tool, arguments).await;
    let asked = std::mem::take(&mut *host.asked.lock().unwrap());
    (told, asked)
}

#[test]
fn every_name_of_the_table_is_a_tool_and_nothing_else_is() {
    let named: HashSet<&str> = METHODS.iter().filter_map(|row| row.surfaces.mcp).collect();
    let tools: HashSet<&str> = all().iter().map(|tool| &*tool.name).collect();
    assert_eq!(tools, named);
    assert_eq!(all().len(), named.len(), "each once");
    for shape in SHAPES {
        assert!(named.contains(shape.tool), "{} is in no row", shape.tool);
    }
    // Without a shape there must be one row to be the shape of.
    for name in named.iter().filter(|name| shape(name).is_none()) {
        assert_eq!(
            METHODS.iter().filter(|row| row.surfaces.mcp == Some(name)).count(),
            1,
            "{name}"
        );
    }
}

#[test]
fn the_contract_of_names() {
    let tools: HashSet<&str> = all().iter().map(|tool| &*tool.name).collect();
    for name in "sessions_list session_start session_send session_wait session_read session_kill events_read".split(' ') {
        assert!(tools.contains(name), "{name}");
    }
}

#[test]
fn the_page_tells_of_every_tool() {
    let page = include_str!("../../../../docs/mcp.md");
    for tool in all() {
        assert!(page.contains(&format!("`{}`", tool.name)), "{} is not in docs/mcp.md", tool.name);
    }
}

#[test]
fn whoever_shows_the_token_may_call_every_tool() {
    for row in METHODS.iter().filter(|row| row.surfaces.mcp.is_some()) {
        assert!(row.scope <= Scope::Control, "{} needs more", row.name);
    }
}

#[test]
fn schemas_are_objects_that_stand_alone() {
    for tool in all() {
        let schema = Value::Object((*tool.input_schema).clone());
        assert_eq!(schema["type"], "object", "{}", tool.name);
        let text = schema.to_string();
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{}: {name}", tool.name);
        }
        assert!(tool.description.as_ref().is_some_and(|about| about.len() > 10), "{}", tool.name);
        assert!(!text.contains("\"redact"), "{}: no tool answers raw output", tool.name);
        for shape in SHAPES.iter().filter(|shape| shape.tool == tool.name) {
            let row = METHODS.iter().find(|row| row.surfaces.mcp == Some(shape.tool)).unwrap();
            let params = schema::of_row(row);
            if let Work::Without(left_out, ..) = shape.work {
                for name in left_out.split_whitespace() {
                    assert!(schema::members(&params).contains(&name), "{}: {name}", tool.name);
                    assert!(schema["properties"].get(name).is_none(), "{}: {name}", tool.name);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_list_has_every_member_that_is_not_left_out() {
    let info = schema::of::<greenroom_protocol::api::session::SessionInfo>();
    let members = schema::members(&info);
    let session: Map<String, Value> =
        members.iter().map(|name| ((*name).to_owned(), json!("x"))).collect();
    let list = short_list(json!({ "sessions": [session] }));
    let listed = list["sessions"][0].as_object().unwrap();
    for name in NOT_LISTED.split(' ') {
        assert!(members.contains(&name), "{name} is no member any more");
    }
    assert_eq!(listed.len() + NOT_LISTED.split(' ').count(), members.len());
    assert!(listed.contains_key("labels") && listed.contains_key("exit"), "{listed:?}");
}

#[tokio::test]
async fn sending_is_text_then_keys_then_enter() {
    let host = FakeHost {
        answers: vec![("session.input", json!({ "sent": true, "sequence": 7 }))],
        ..FakeHost::default()
    };
    let arguments = json!({ "session": "s1", "text": "hi", "keys": ["tab", "up"], "enter": true });
    let (told, asked) = ask(host, "session_send", arguments).await;
    assert_eq!(told.unwrap().value, json!({ "sent": true, "sequence": 7 }));
    let actions: Vec<Value> =
        asked.into_iter().map(|(_, params)| params["action"].clone()).collect();
    assert_eq!(
        actions,
        [
            json!({ "type": "text", "value": "hi" }),
            json!({ "type": "keys", "value": ["tab", "up"] }),
            json!({ "type": "key", "value": "enter" }),
        ]
    );
    let (told, _) = ask(FakeHost::default(), "session_send", json!({ "session": "s1" })).await;
    assert!(told.is_err());
}

#[tokio::test]
async fn arguments_nobody_knows_are_told() {
    for (tool, arguments) in [
        ("session_start", json!({ "program": "sh" })),
        ("session_start", json!({ "raw_transcript_path": "/tmp/x" })),
        ("session_read", json!({ "session": "s1", "redact": false })),
        ("session_wait", json!({ "session": "s1", "exit": true, "redact": false })),
        ("session_send", json!({ "session": "s1", "text": "x", "colour": 1 })),
        ("session_wait", json!({ "session": "s1" })),
        ("session_read", json!({})),
        ("no_such_tool", json!({})),
    ] {
        let (told, asked) = ask(FakeHost::default(), tool, arguments.clone()).await;
        assert!(told.is_err(), "{tool} {arguments}");
        assert!(asked.is_empty(), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn pages_of_events_are_bounded() {
    let (_, asked) = ask(FakeHost::default(), "events_read", json!({ "limit": 1_000_000 })).await;
    let params = &asked[0].1;
    assert_eq!((&params["follow"], &params["since"]), (&json!(false), &json!(0)));
    assert_eq!(params["limit"], EVENTS_MAX);
    let (_, asked) = ask(FakeHost::default(), "events_read", json!({ "wait_ms": 900_000 })).await;
    assert_eq!(asked[0].1["wait_ms"], EVENTS_WAIT_MAX_MS);
    assert_eq!(asked[0].1.get("since"), None);
}

#[tokio::test]
async fn what_is_read_is_bounded() {
    let shot = json!({ "text": "ä".repeat(20_000), "sequence": 3 });
    let host =
        || FakeHost { answers: vec![("session.snapshot", shot.clone())], ..FakeHost::default() };
    let (told, _) = ask(host(), "session_read", json!({ "session": "s1" })).await;
    let told = told.unwrap();
    assert_eq!(told.text.unwrap().len(), TEXT_DEFAULT);
    assert_eq!(told.value["truncated"], true);
    let (told, _) = ask(host(), "session_read", json!({ "session": "s1", "max_bytes": 5 })).await;
    assert_eq!(told.unwrap().text.as_deref(), Some("ää"));
    let (_, asked) = ask(
        host(),
        "session_read",
        json!({ "session": "s1", "since": 9, "max_bytes": 99_999_999 }),
    )
    .await;
    assert_eq!(asked[0].0, "session.transcript");
    assert_eq!(asked[0].1["max_bytes"], TEXT_MAX);
}

#[tokio::test]
async fn a_wait_that_runs_out_is_an_answer() {
    struct Late;
    impl Backend for Late {
        fn call(&self, method: MethodId, _: Value) -> Answer {
            Box::pin(async move {
                if method == MethodId::SessionInfo {
                    return Ok(json!({ "seq": 4 }));
                }
                let evidence = greenroom_protocol::fault::Evidence {
                    last_text: "still here".into(),
                    sequence: 9,
                    ..Default::default()
                };
                Err(Fault::timeout("too late", &evidence))
            })
        }
    }
    let backend: Arc<dyn Backend> = Arc::new(Late);
    let Value::Object(arguments) = json!({ "session": "s1", "text": "x" }) else { unreachable!() };
    let told = call(&backend, "session_wait", arguments).await.unwrap();
    assert_eq!(told.value["matched"], false);
    assert_eq!(
        (&told.value["why"], &told.value["screen"]),
        (&json!("timeout"), &json!("still here"))
    );
}
