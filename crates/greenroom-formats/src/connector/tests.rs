//! Files as people write them, wrong and right.

use proptest::prelude::*;
use serde_json::{Value, json};

use greenroom_protocol::api::ask::{Asked, SessionAsk, Variables, WorktreeAsk};

use super::file::SessionSettings;
use super::plan::{closure, order};
use super::template::{Values, fill, is_slug, names, slugged};
use super::*;

fn read(value: &Value) -> Connector {
    let text = serde_json::to_string_pretty(value).unwrap();
    parse("f.json", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn planned(value: &Value) -> Plan {
    planned_only(value, &[]).unwrap()
}

fn planned_only(value: &Value, only: &[&str]) -> Result<Plan, PlanError> {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let params = PlanParams { run: "r7", scratchpad: "/pads/run-r7", only: &only };
    plan(&read(value), &params)
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    match parse("f.json", text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

#[track_caller]
fn refused_for(value: &Value, word: &str) {
    match parse("f.json", &value.to_string()) {
        Ok(_) => panic!("accepted: {value}"),
        Err(error) => assert!(error.to_string().contains(word), "{error}"),
    }
}

fn pipeline(phases: Value) -> Value {
    json!({ "models": { "m": { "command": ["agent"] } }, "pipeline": { "phases": phases } })
}

#[test]
fn mistakes_stand_where_they_are() {
    refused(
        "{\n  \"sesion\": {}\n}",
        "f.json:2:3: unknown key \"sesion\", did you mean \"session\"?",
    );
    refused(
        "{\"session\": {\"sandbx\": true,\n  \"timeout_ms\": \"1h\"}}",
        "f.json:1:14: unknown key \"sandbx\", did you mean \"sandbox\"?\n\
         f.json:2:17: \"timeout_ms\" must be a whole number, not a text",
    );
    refused("{\"pipeline\": {}}", "f.json:1:14: the key \"phases\" is missing");
    refused("{\"name\": \"x\",}", "f.json:1:14: trailing comma");
    refused("{\"ä\": 1}", "f.json:1:2: unknown key \"ä\"");
    refused("[]", "f.json:1:1: the file must be an object, not a list");
    refused("", "f.json:1:1: EOF while parsing a value");
    refused("{\"name\": \"a\", \"name\": \"b\"}", "f.json:1:15: the key \"name\" is given twice");
    refused(
        "{\"session\": {\"sandbox\": \"ful\"}}",
        "f.json:1:25: \"sandbox\" must be \"full\" or \"reduced\", not \"ful\", did you mean \"full\"?",
    );
    refused(
        "{\"session\": {\"sandbox\": 3}}",
        "f.json:1:25: \"sandbox\" must be true or false, \"full\" or \"reduced\" or an object, not this number",
    );
    refused(
        "{\"session\": {\"sandbox\": {\"allow_host\": []}}}",
        "f.json:1:26: unknown key \"allow_host\", did you mean \"allow_hosts\"?",
    );
    refused(
        "{\"type\": \"mesh\", \"agents\": []}",
        "f.json:1:10: files of type \"mesh\" are not supported: use \"meeting\", or a pipeline whose workers share a scratchpad",
    );
    refused(
        &format!("{}1{}", "[".repeat(40), "]".repeat(40)),
        "f.json:1:34: nested deeper than 32 levels",
    );
    refused(&" ".repeat(FILE_MAX + 1), "f.json:1:1: the file is larger than 1048576 bytes");
}

#[test]
fn parts_must_fit_together() {
    let phase = |more: Value| {
        let mut phase = json!({ "name": "a", "model": "m", "prompt": "x" });
        phase.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pipeline(json!([phase]))
    };
    refused_for(&phase(json!({"workers": 0})), "\"workers\" must be 1 to 64");
    refused_for(&phase(json!({"workers": 65})), "\"workers\" must be 1 to 64");
    refused_for(&phase(json!({"workers": "two"})), "\"workers\" must be a whole number or a list");
    refused_for(&phase(json!({"workers": []})), "\"workers\" must have 1 to 64 entries");
    refused_for(
        &phase(json!({"workers": [{"modle": "m"}]})),
        "unknown key \"modle\", did you mean \"model\"?",
    );
    refused_for(
        &phase(json!({"workers": [{"machine": "far"}]})),
        "other machines are not supported",
    );
    refused_for(&phase(json!({"retries": 11})), "must be 0 to 10");
    refused_for(&phase(json!({"retries": -1})), "\"retries\" must be");
    refused_for(&phase(json!({"on_failure": "skip"})), "did you mean \"skip_dependents\"?");
    refused_for(
        &phase(json!({"model": "cluade"})),
        "unknown model \"cluade\", did you mean \"claude\"?",
    );
    refused_for(&phase(json!({"needs": ["b"]})), "there is no phase \"b\"");
    refused_for(&phase(json!({"needs": ["a"]})), "needs itself");
    refused_for(&phase(json!({"until": "idle"})), "is not a condition");
    refused_for(&phase(json!({"until": {"type": "nope"}})), "unknown matcher type");
    refused_for(&phase(json!({"rounds": 2})), "is for a phase with");
    refused_for(&phase(json!({"session": {"worktree": "A b"}})), "cannot name a worktree");
    refused_for(
        &phase(json!({"session": {"worktree": "x-{wroker}"}})),
        "unknown template {wroker} in \"x-{wroker}\", did you mean \"worker\"?",
    );
    refused_for(&phase(json!({"session": {"worktree": "x-{scratchpad}"}})), "cannot hold a path");
    refused_for(
        &phase(json!({"session": {"worktree": "a", "resume": "b"}})),
        "different worktrees",
    );
    refused_for(
        &phase(json!({"session": {"env": {"A=B": "x"}}})),
        "cannot be the name of a variable",
    );
    refused_for(
        &phase(json!({"workers": 2, "session": {"worktree": "x"}})),
        "share the worktree \"x\": put {worker}",
    );
    refused_for(&phase(json!({"type": "dialogue"})), "at least two");
    refused_for(
        &phase(json!({"prompt": "to {scratchpad}", "scratchpad": false})),
        "the scratchpad is off",
    );
    refused_for(&json!({"pipeline": {"phases": [{"prompt": "x"}]}}), "no model to say it to");
    refused_for(&json!({"pipeline": {"phases": [{}]}, "prompt": "x"}), "belongs into a phase");
    refused_for(&json!({"pipeline": {"phases": []}}), "1 to 100 entries");
    refused_for(&pipeline(json!([{"name": "a"}, {"name": "a"}])), "two phases \"a\"");
    let circle = json!([{"name": "a", "needs": ["c"]}, {"name": "b", "needs": []}, {"name": "c", "needs": ["a"]}]);
    refused_for(&pipeline(circle), "need each other in a circle: a, c");
    let beside = json!([
        {"name": "a", "session": {"worktree": "x"}}, {"name": "b", "needs": [], "session": {"worktree": "x"}}]);
    refused_for(&pipeline(beside), "used by the phase \"a\" at the same time");
    let after = json!([{"name": "a", "session": {"worktree": "x"}}, {"name": "b", "session": {"worktree": "x"}}]);
    read(&pipeline(after));
    let many: Vec<Value> = (0..9).map(|_| json!({"workers": 64})).collect();
    refused_for(&pipeline(json!(many)), "576 workers in all");
}

#[test]
fn models_are_found_and_have_fallbacks() {
    let file = |models: Value| json!({ "models": models, "model": "a", "prompt": "hi" });
    let commands = |value: &Value| -> Vec<String> {
        let plan = planned(value);
        plan.phases[0].workers[0].candidates.iter().map(|one| one.command.join(" ")).collect()
    };
    assert_eq!(commands(&file(json!({"a": "opus"}))), ["claude --model opus -p"]);
    assert_eq!(commands(&file(json!({"a": "ollama/llama3"}))), ["ollama run llama3"]);
    assert_eq!(
        commands(&file(json!({"a": {"command": ["x", "{run}"], "fallback": ["b", "gemini"]},
            "b": {"adapter": "codex", "prompt_via": "stdin"}}))),
        ["x r7", "codex", "gemini -p"]
    );
    let usual = json!({"models": {"primary": "claude", "fallback": "codex"}, "prompt": "hi"});
    assert_eq!(commands(&usual), ["claude -p", "codex exec"]);
    let itself =
        json!({"models": {"claude": "claude"}, "prompt": "hi", "session": {"permission": "plan"}});
    assert_eq!(commands(&itself), ["claude -p --permission-mode plan"]);
    refused_for(&file(json!({"a": "b", "b": "a"})), "leads back to itself");
    refused_for(&file(json!({"a": {"command": ["x"], "fallback": "a"}})), "leads back to itself");
    refused_for(
        &file(json!({"a": {"command": ["x"], "fallback": "nobody"}})),
        "unknown model \"nobody\"",
    );
    refused_for(&file(json!({"a": {}})), "neither a command nor an adapter");
    refused_for(&file(json!({"a": {"command": []}})), "1 to 256 entries");
    refused_for(&file(json!({"a": {"command": [""]}})), "no name");
    refused_for(&file(json!({"a": {"adapter": "claud"}})), "did you mean \"claude\"?");
    refused_for(&json!({"prompt": "hi"}), "no model");
}

/// The JSON of the documents this format comes from.
#[test]
fn a_file_of_settings_alone_is_one_session() {
    let plan = planned(&json!({
        "session": {
            "worktree": "feat-x", "sandbox": true, "scratchpad": true,
            "env": { "API_KEY": "..." }, "timeout_ms": 3_600_000
        }
    }));
    let [phase] = plan.phases.as_slice() else { panic!("{plan:?}") };
    let [worker] = phase.workers.as_slice() else { panic!("{phase:?}") };
    assert!(worker.candidates.is_empty() && worker.prompt.is_none(), "its shell");
    let session = &worker.session;
    assert_eq!(session.ask.worktree.yes().unwrap().slug, "feat-x");
    assert!(session.ask.sandbox.yes().is_some());
    assert_eq!(session.ask.scratchpad.yes().unwrap().name, None, "the run's");
    assert_eq!(session.ask.timeout_ms, Some(3_600_000));
    assert_eq!(session.ask.env.0["API_KEY"], "...");
}

#[test]
fn a_pipeline_as_the_format_has_it() {
    let plan = planned(&json!({
        "connector": "2.0", "name": "review", "type": "pipeline",
        "session": { "worktree": "{phase}-{worker}", "env": {"A": "file", "B": "file"}, "timeout_ms": 5 },
        "models": { "primary": "claude", "fallback": "codex", "small": "haiku" },
        "tools": { "mcp": ["github"] },
        "pipeline": { "scratchpad": true, "phases": [
            { "name": "Read It", "model": "small", "prompt": "read, write to {scratchpad}/notes" },
            { "name": "work", "parallel": true, "workers": [
                { "prompt": "one {{worker}} {worker}", "session": {"env": {"B": "worker"}} },
                { "model": "codex", "prompt": "two {x}", "session": {"sandbox": "reduced"} } ],
              "session": { "env": {"B": "phase", "C": "{run}"}, "timeout_ms": 9 } },
            { "name": "judge", "type": "dialogue", "rounds": 2, "needs": ["Read It"], "prompt": "who is right?",
              "participants": [{"model": "claude", "role": "critic"}, {"model": "claude", "role": "critic"}] },
        ] }
    }));
    let names: Vec<&str> = plan.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["Read It", "work", "judge"]);
    let needs: Vec<&[usize]> = plan.phases.iter().map(|phase| phase.needs.as_slice()).collect();
    assert_eq!(needs, [&[][..], &[0], &[0]]);
    let worker = &plan.phases[0].workers[0];
    assert_eq!(worker.prompt.as_deref(), Some("read, write to /pads/run-r7/notes"));
    assert_eq!(worker.session.ask.worktree.yes().unwrap().slug, "read-it-1");
    assert_eq!(worker.session.name, "r7/read-it-1");
    assert_eq!(worker.session.ask.timeout_ms, Some(5));
    let [one, two] = plan.phases[1].workers.as_slice() else { panic!() };
    assert_eq!(one.prompt.as_deref(), Some("one {worker} 1"));
    assert_eq!(two.prompt.as_deref(), Some("two {x}"));
    assert_eq!(one.candidates.len(), 2, "primary and fallback");
    let env = |worker: &plan::PlannedWorker| worker.session.ask.env.0.clone();
    assert_eq!(json!(env(one)), json!({"A": "file", "B": "worker", "C": "r7"}));
    assert_eq!(json!(env(two)), json!({"A": "file", "B": "phase", "C": "r7"}));
    assert_eq!(one.session.ask.timeout_ms, Some(9));
    assert!(one.session.ask.sandbox.yes().is_none() && two.session.ask.sandbox.yes().is_some());
    let turns: Vec<&str> = plan.phases[2].workers.iter().map(|turn| turn.name.as_str()).collect();
    assert_eq!(turns, ["critic.1", "critic-2.1", "critic.2", "critic-2.2"]);
    let third = &plan.phases[2].workers[2].session;
    assert_eq!(third.ask.worktree.yes().unwrap().slug, "judge-critic", "the same in every round");
    assert_eq!(third.name, "r7/judge-critic.2");
    assert_eq!((plan.phases[1].at_once, plan.phases[2].at_once), (2, 1));
    assert_eq!(plan.notes.len(), 1);
}

#[test]
fn dialogues_and_meetings_may_be_the_whole_file() {
    let talk = |kind: &str| {
        json!({
        "type": kind, "task": "tea or coffee?", "rounds": 3,
        "participants": [{"id": "x", "model": "claude"}, {"id": "y", "model": "codex", "role": "a barista"}] })
    };
    for kind in ["dialogue", "meeting"] {
        let plan = planned(&talk(kind));
        assert_eq!(plan.phases[0].name, kind);
        assert_eq!(plan.phases[0].workers.len(), 6);
        assert_eq!(
            plan.phases[0].workers[1].turn.as_ref().unwrap().role.as_deref(),
            Some("a barista")
        );
    }
    refused_for(&json!({"type": "dialogue"}), "at least two");
    let mut both = talk("meeting");
    both["pipeline"] = json!({"phases": [{}]});
    refused_for(&both, "cannot have this type");
}

#[test]
fn some_phases_alone_keep_their_order() {
    let file = pipeline(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
    let plan = planned_only(&file, &["c", "a"]).unwrap();
    assert_eq!(plan.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(plan.phases[1].needs, [0], "c came after b, and b after a");
    let error = planned_only(&file, &["cc"]).unwrap_err().to_string();
    assert_eq!(error, "there is no phase \"cc\", did you mean \"c\"?");
}

#[test]
fn values_of_variables_are_hidden() {
    let file = json!({"session": {"env": {"KEY": "hunter2"}}});
    let plan = planned(&file);
    assert!(!format!("{plan:?} {:?}", read(&file)).contains("hunter2"));
    assert!(!plan.shown().to_string().contains("hunter2"));
    assert!(plan.shown().to_string().contains("KEY"));
    let again: Plan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(again, plan);
}

#[test]
fn the_schema_is_closed_and_whole() {
    let schema = schema();
    let text = schema.to_string();
    for reference in text.split("\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schema["$defs"].get(name).is_some(), "{name}");
    }
    assert_eq!(schema["additionalProperties"], false);
    for name in [
        "SessionSettings",
        "Phase",
        "Worker",
        "Model",
        "Pipeline",
        "Participant",
        "SandboxAsk",
        "WorktreeAsk",
        "ScratchpadAsk",
    ] {
        assert_eq!(schema["$defs"][name]["additionalProperties"], false, "{name}");
        for (key, property) in schema["$defs"][name]["properties"].as_object().unwrap() {
            assert!(property.get("description").is_some(), "{name}.{key} has no description");
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            Just("a".to_owned()),
            Just("m".to_owned()),
            Just("claude".to_owned()),
            Just("dialogue".to_owned()),
            Just("{worker}".to_owned()),
            Just("x-{run}".to_owned()),
            "\\PC{0,12}"
        ]
        .prop_map(Value::from),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "session",
            "models",
            "pipeline",
            "phases",
            "name",
            "model",
            "prompt",
            "workers",
            "parallel",
            "needs",
            "retries",
            "on_failure",
            "until",
            "type",
            "participants",
            "rounds",
            "role",
            "worktree",
            "sandbox",
            "scratchpad",
            "env",
            "timeout_ms",
            "command",
            "fallback",
            "tools",
            "mcp",
            "slug",
            "value",
        ])
        .prop_map(str::to_owned),
        "[a-z]{0,4}",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Files that are right more often than not.
fn likely_file() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]);
    let session = prop_oneof![
        Just(json!({})),
        Just(json!({"worktree": "{phase}-{worker}"})),
        Just(json!({"sandbox": true})),
        Just(json!({"worktree": true})),
        json_value(),
    ];
    let workers = prop_oneof![
        Just(json!(1)),
        Just(json!(3)),
        Just(json!([{"model": "claude"}])),
        json_value()
    ];
    let phase = (name, workers, session, prop::option::of(prop::collection::vec(
        prop::sample::select(vec!["a", "b", "c", "d"]), 0..3)))
        .prop_map(|(name, workers, session, needs)| {
            let mut phase = json!({"name": name, "workers": workers, "session": session, "model": "m", "prompt": "{worker}"});
            if let Some(needs) = needs {
                phase["needs"] = json!(needs);
            }
            phase
        });
    prop::collection::vec(phase, 1..4).prop_map(|phases| pipeline(json!(phases)))
}

fn try_all(text: &str) {
    if let Ok(file) = parse("f.json", text) {
        let params = PlanParams { run: "r1", scratchpad: "/s", only: &[] };
        let plan = plan(&file, &params).expect("what was checked can be planned");
        assert!(plan.workers() <= RUN_WORKERS_MAX);
        for (at, phase) in plan.phases.iter().enumerate() {
            assert!(phase.needs.iter().all(|need| *need < at));
            assert!(phase.at_once >= 1 && !phase.workers.is_empty());
            for worker in &phase.workers {
                assert!(worker.session.name.len() <= 61, "{}", worker.session.name);
                assert!(worker.session.ask.worktree.yes().is_none_or(|ask| is_slug(&ask.slug)));
            }
        }
        let _ = plan.shown();
    }
}

fn settings() -> impl Strategy<Value = SessionSettings> {
    let env = prop::collection::btree_map("[A-C]", "[a-z]{1,3}", 0..3).prop_map(Variables);
    (
        prop::option::of("[a-z]{1,3}"),
        prop::option::of(any::<bool>()),
        prop::option::of("[a-z]{1,3}"),
        prop::option::of(1u64..9),
        prop::option::of("[a-z]{1,3}"),
        env,
        prop::option::of("[a-z]{1,3}"),
    )
        .prop_map(|(slug, sandbox, permission, timeout_ms, cwd, env, resume)| {
            let ask = SessionAsk {
                worktree: slug.map(WorktreeAsk::of).into(),
                scratchpad: Asked::switch(sandbox),
                sandbox: Asked::switch(sandbox),
                timeout_ms,
                env,
                ..SessionAsk::default()
            };
            SessionSettings { ask, permission, cwd, resume }
        })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        try_all(&text);
        try_all(&format!("{{\"session\": {text}}}"));
    }

    #[test]
    fn no_json_makes_it_panic(value in json_value()) {
        try_all(&value.to_string());
        try_all(&serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn what_is_accepted_can_be_planned(value in likely_file(), cut in 0usize..2000) {
        let text = value.to_string();
        try_all(&text);
        try_all(&text[..text.floor_char_boundary(cut)]);
    }

    #[test]
    fn mistakes_stand_within_the_text(value in json_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        if let Err(error) = parse("f", &text) {
            for problem in error.problems {
                let line = text.lines().nth(problem.line - 1);
                prop_assert!(line.is_some_and(|line| problem.column <= line.chars().count() + 1), "{problem:?}");
            }
        }
    }

    #[test]
    fn merging_is_field_by_field(a in settings(), b in settings(), c in settings()) {
        let merged = a.with(&b);
        let (ours, under, over) = (&merged.ask, &a.ask, &b.ask);
        prop_assert_eq!(&ours.sandbox, if over.sandbox == Asked::Unsaid { &under.sandbox } else { &over.sandbox });
        prop_assert_eq!(ours.timeout_ms, over.timeout_ms.or(under.timeout_ms));
        for (name, value) in &ours.env.0 {
            prop_assert_eq!(Some(value), over.env.0.get(name).or(under.env.0.get(name)));
        }
        prop_assert!(under.env.0.keys().chain(over.env.0.keys()).all(|name| ours.env.0.contains_key(name)));
        prop_assert_eq!(&a.with(&SessionSettings::default()), &a);
        prop_assert_eq!(&SessionSettings::default().with(&a), &a);
        prop_assert_eq!(a.with(&b).with(&c), a.with(&b.with(&c)));
    }

    #[test]
    fn templates_fill_what_they_know_and_nothing_else(
        parts in prop::collection::vec(prop_oneof![
            Just("{worker}".to_owned()), Just("{run}".to_owned()), Just("{{phase}}".to_owned()), "[^{}]{0,5}"], 0..8)
    ) {
        let values = Values { worker: "W", phase: "P", run: "R", scratchpad: "S" };
        let expected: String = parts.iter().map(|part| match part.as_str() {
            "{worker}" => "W", "{run}" => "R", "{{phase}}" => "{phase}", other => other,
        }).collect();
        let text = parts.concat();
        prop_assert_eq!(fill(&text, &values), expected);
        prop_assert_eq!(names(&text, "worker"), parts.iter().any(|part| part == "{worker}"));
    }

    #[test]
    fn text_without_templates_stays(text in "\\PC{0,40}") {
        let values = Values { worker: "W", phase: "P", run: "R", scratchpad: "S" };
        if !template::NAMES.iter().any(|name| text.contains(name)) {
            prop_assert_eq!(fill(&text, &values), text);
        }
    }

    #[test]
    fn any_name_makes_a_slug(name in "\\PC{0,60}") {
        prop_assert!(is_slug(&slugged(&name)), "{}", slugged(&name));
    }

    #[test]
    fn an_order_respects_all_needs(needs in prop::collection::vec(prop::collection::vec(0usize..8, 0..4), 1..8)) {
        let count = needs.len();
        let needs: Vec<Vec<usize>> =
            needs.into_iter().map(|needs| needs.into_iter().filter(|need| *need < count).collect()).collect();
        let above = closure(&needs);
        match order(&needs) {
            Ok(order) => {
                prop_assert_eq!(order.len(), count);
                for (place, at) in order.iter().enumerate() {
                    prop_assert!(above[*at].iter().all(|need| order[..place].contains(need)));
                }
            }
            Err(_) => prop_assert!((0..count).any(|at| above[at].contains(&at)), "there is a circle"),
        }
    }
}
