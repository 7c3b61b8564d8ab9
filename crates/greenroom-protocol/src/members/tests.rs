use serde_json::json;

use super::*;

fn fails(method: &str, params: Value) -> Fault {
    let fault = check(method, &params.to_string()).expect_err(&format!("{method} {params}"));
    assert_eq!(fault.kind(), FaultKind::InvalidParams);
    fault
}

fn passes(method: &str, params: Value) {
    check(method, &params.to_string())
        .unwrap_or_else(|fault| panic!("{method} {params}: {fault:?}"));
}

/// Every object that the params of a row may hold, with the way to it.
fn objects(
    shape: &Shape,
    place: usize,
    around: &dyn Fn(Value) -> Value,
    seen: &mut HashSet<usize>,
    found: &mut Vec<(Value, String)>,
) {
    let node = &shape.nodes[place];
    if node.free || !seen.insert(place) {
        return;
    }
    for form in &node.forms {
        let mut bare = Map::new();
        for (name, text) in &form.tags {
            bare.insert(name.clone(), json!(text));
        }
        if form.rest.is_none() {
            let first = form
                .members
                .keys()
                .find(|name| name.len() > 3 && !form.tags.iter().any(|(tag, _)| tag == *name));
            let first = first.or(form.members.keys().next()).cloned().unwrap_or_default();
            let mut wrong = bare.clone();
            wrong.insert(format!("{first}q"), json!(1));
            found.push((around(Value::Object(wrong)), first));
        }
        let any = "any".to_owned();
        let rest = form.rest.iter().map(|rest| (&any, rest));
        for (name, inner) in form.members.iter().chain(rest) {
            let within = |value: Value| {
                let mut object = bare.clone();
                object.insert(name.clone(), value);
                around(Value::Object(object))
            };
            objects(shape, *inner, &within, seen, found);
        }
    }
    if let Some(items) = node.items {
        objects(shape, items, &|value| around(json!([value])), seen, found);
    }
    seen.remove(&place);
}

#[test]
fn a_misspelt_member_of_every_object_of_every_row_is_refused() {
    let mut nested = 0;
    for row in METHODS.iter().filter(|row| row.id != OPEN) {
        let mut generator = SchemaGenerator::default();
        let schema = (row.params)(&mut generator).to_value();
        let shape = Shape::new(&schema, &generator.take_definitions(true));
        let mut found = Vec::new();
        objects(&shape, 0, &|value| value, &mut HashSet::new(), &mut found);
        assert!(!found.is_empty(), "{} has no object", row.name);
        nested += found.len() - 1;
        for (params, meant) in found {
            let fault = fails(row.name, params.clone());
            assert!(fault.message.starts_with("unknown parameter "), "{}", fault.message);
            if !meant.is_empty() {
                let ending = format!("; did you mean {meant}?");
                assert!(
                    fault.message.ends_with(&ending),
                    "{} {params}: {}",
                    row.name,
                    fault.message
                );
            }
        }
        passes(row.name, serde_json::from_str(row.example).unwrap());
    }
    // Sizes, regions, asks, actions, matchers in matchers: if they are not seen, this test sees
    // nothing.
    assert!(nested > 40, "{nested}");
}

#[test]
fn newer_clients_may_say_hello() {
    passes("server.hello", json!({"protocol": [1, 2], "client": "x", "colour": "green"}));
}

#[test]
fn what_was_meant_is_said() {
    let says = |method: &str, params: Value| fails(method, params).message;
    assert_eq!(
        says("session.create", json!({"command": ["sleep", "60"], "sandbx": true})),
        "unknown parameter sandbx; did you mean sandbox?"
    );
    assert_eq!(
        says("session.create", json!({"comand": ["x"]})),
        "unknown parameter comand; did you mean command?"
    );
    for wrong in ["Sandbox", "SANDBOX", "sand_box"] {
        let message = says("session.create", json!({ wrong: true }));
        assert!(message.ends_with("did you mean sandbox?"), "{message}");
    }
    assert_eq!(
        says("session.create", json!({"sandbox": {"allow_host": ["a"]}})),
        "unknown parameter sandbox.allow_host; did you mean allow_hosts?"
    );
    assert_eq!(
        says("session.create", json!({"size": {"rows": 2, "colums": 3}})),
        "unknown parameter size.colums; did you mean cols?"
    );
    let matcher = json!({"type": "any", "value": [{"type": "screen_stable", "value": {"min": 3}}]});
    assert_eq!(
        says("session.wait", json!({"session": "s1", "matcher": matcher})),
        "unknown parameter matcher.value.value.min; did you mean min_ms?"
    );
    let fault = fails("session.info", json!({"session": "s1", "zzzz": 1}));
    assert_eq!(fault.message, "unknown parameter zzzz");
    assert!(fault.data.hint.unwrap().contains("explain"));
    let fault = fails("server.stats", json!({"zzzz": 1}));
    assert_eq!(fault.data.hint.as_deref(), Some("server.stats takes none"));
}

#[test]
fn a_form_has_its_own_members_only() {
    let wait = |matcher: Value| json!({"session": "s1", "matcher": matcher});
    fails(
        "session.wait",
        wait(json!({"type": "cursor_at", "value": {"row": 1, "col": 2, "min_ms": 3}})),
    );
    fails("session.wait", wait(json!({"type": "process_exited", "value": "x"})));
    passes("session.wait", wait(json!({"type": "process_exited", "value": null})));
    passes(
        "session.wait",
        wait(json!({"type": "title", "value": {"regex": "x"}, "case_insensitive": true})),
    );
    // The reader complains of a kind that nobody knows.
    passes("session.wait", wait(json!({"type": "frob", "valeu": 1})));
    passes("session.input", json!({"session": "s", "action": {"type": "interrupt"}}));
    fails(
        "session.input",
        json!({"session": "s", "action": {"type": "mouse", "value": {"row": 1, "col": 1, "text": "x"}}}),
    );
}

#[test]
fn second_names_pass_and_the_callers_own_names_too() {
    passes("plugin.get", json!({"plugin": "x"}));
    passes("plugin.unload", json!({"name": "x"}));
    passes(
        "session.snapshot",
        json!({"session": "s", "region": {"top": 1, "left": 1, "width": 2, "height": 3}}),
    );
    passes("session.create", json!({"env": {"ANY_NAME": "x"}, "labels": {"a": "b"}}));
    passes("hook.emit", json!({"session": "s", "data": {"whatever": {"is": ["in", {"it": 1}]}}}));
    passes("plugin.test", json!({"name": "x", "hook": "y", "payload": {"any": {"thing": 1}}}));
    passes("run.start", json!({"connector": {"models": {}, "any": 1}}));
    passes(
        "session.wait",
        json!({"session": "s", "matcher": {"type": "lua", "value": {"plugin": "p", "predicate": "f", "params": {"a": 1}}}}),
    );
}

#[test]
fn what_is_given_twice_is_refused_where_it_is_read() {
    let twice = |method: &str, text: &str| check(method, text).unwrap_err().message;
    assert_eq!(
        twice("session.create", r#"{"name": "a", "name": "b"}"#),
        "parameter name is given twice"
    );
    assert_eq!(
        twice("session.create", r#"{"sandbox": {"level": "full", "level": "reduced"}}"#),
        "parameter sandbox.level is given twice"
    );
    assert!(twice("session.create", r#"{"env": {"A": "1", "A": "2"}}"#).contains("env.A"));
    assert!(check("hook.emit", r#"{"session": "s", "data": {"a": 1, "a": 2}}"#).is_ok());
}

#[test]
fn lists_by_position_and_what_is_no_object_pass_on() {
    passes("session.info", json!(["s1"]));
    fails("session.attach", json!(["s1", false, {"rows": 1, "colls": 2}]));
    passes("server.stats", json!([]));
    assert!(check("session.info", "nonsense").is_ok(), "its reader says so");
    assert!(check("no.such", r#"{"a": 1}"#).is_ok(), "the router says so");
}

#[test]
fn hostile_names_are_cut_and_escaped() {
    let name = format!("\u{1b}[2J{}", "x".repeat(5000));
    let fault = fails("session.info", json!({ name: 1 }));
    assert!(fault.message.len() < 400 && !fault.message.contains('\u{1b}'), "{}", fault.message);
}

#[test]
fn what_existing_clients_send_is_known() {
    for (method, params) in [
        (
            "session.create",
            json!({"program": "sh", "args": [], "cwd": "/", "env": {}, "rows": 24, "cols": 80, "pixel_width": 0, "pixel_height": 0, "transcript_max_chars": 131072, "raw_transcript_path": "/x", "raw_transcript_append": false}),
        ),
        (
            "session.snapshot",
            json!({"session": "s1", "redact": true, "redaction": {"enabled": true, "replacement": "[REDACTED]", "extra_literals": [], "extra_regexes": []}}),
        ),
        (
            "session.transcript",
            json!({"session": "s1", "redact": true, "redaction": {"enabled": true, "replacement": "*", "extra_literals": [], "extra_regexes": []}}),
        ),
        (
            "session.resize",
            json!({"session": "s1", "rows": 1, "cols": 1, "pixel_width": 0, "pixel_height": 0}),
        ),
        (
            "session.input",
            json!({"session": "s1", "action": {"type": "resize", "value": {"rows": 1, "cols": 1, "pixel_width": 0, "pixel_height": 0}}}),
        ),
        (
            "session.input",
            json!({"session": "s1", "action": {"type": "mark_transcript", "value": {"label": "x"}}}),
        ),
        (
            "session.input",
            json!({"session": "s1", "action": {"type": "stream_text", "value": {"text": "x", "chunk_chars": 1, "delay_ms": 1}}}),
        ),
        (
            "session.wait",
            json!({"session": "s1", "matcher": {"type": "any", "value": [{"type": "process_exited"}]}, "timeout_ms": 1}),
        ),
        (
            "server.set_notifications",
            json!({"enabled": true, "adapters": ["e1"], "sessions": ["s1"]}),
        ),
        ("plugin.load", json!({"manifest_path": "x"})),
        ("plugin.describe", json!({"plugin": "x"})),
        ("plugin.validate_manifest", json!({"manifest": {"name": "x"}})),
    ] {
        passes(method, params);
    }
}
