//! The four forms' own examples, mistakes with their place and suggestion, and anything at all.

use std::time::Duration;

use greenroom_plugin_api::file::{HookEntry, Runtime, SinkName, Spawn};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const GUARD: &str = r#"
schema = 1
[plugin]
name = "guard"
version = "1.4.0"
description = "Redacts tokens, shows findings"

[[runtime]]
id = "main"
kind = "jsonl"
command = ["./guard.py"]
spawn = "lazy"
timeout_ms = 2000

[session]
runtime = "main"
edits = ["env", "argv_wrap", "writable_paths"]

[[hooks]]
hook = "output.filter"
runtime = "main"
stage = "redact"
priority = 100
when = { regex = "sk-|ghp_", sinks = ["stream", "*"], labels = { repo = "*" } }
timeout_ms = 250
on_failure = "mask"

[adapter]
runtime = "main"
programs = ["claude"]
hosts = ["api.anthropic.com:443"]

[capsule]
runtime = "main"
screens = [{ id = "guard", title = "Guard" }]
cli = ["guard"]
statusline = ["guard.count"]
publish = ["guard.findings"]
subscribe = [{ topic = "session.state", mode = "state" }]

[capabilities]
"screen.read" = true
"net.connect" = ["rules.example.com:443"]
[capabilities.reason]
"net.connect" = "downloads rule updates once a day"
"#;

const QUICKSTART: &str = "name: my-filter
description: Redact API keys from session output.
version: 0.1.0
entry: ./filter
hooks:
  - post_session_output
timeout_ms: 1500
";

fn good(file: &str, text: &str) -> Loaded {
    parse(file, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn codes(loaded: &Loaded) -> Vec<&str> {
    loaded.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

/// The first problem as it is told.
fn bad(file: &str, text: &str) -> String {
    let error = parse(file, text.as_bytes()).expect_err(text);
    error.to_string().lines().next().unwrap().to_owned()
}

#[test]
fn sinks_have_one_spelling_and_the_other_is_understood() {
    for (spelled, named) in [
        ("attach.local", SinkName::AttachLocal),
        ("attach_local", SinkName::AttachLocal),
        ("attach.remote", SinkName::AttachRemote),
        ("attach_remote", SinkName::AttachRemote),
    ] {
        let text = GUARD.replace("[\"stream\", \"*\"]", &format!("[\"{spelled}\"]"));
        let loaded = good("plugin.toml", &text);
        assert_eq!(loaded.manifest.hooks[0].when.sinks, [named], "{spelled}");
        let printed = serde_json::to_value(named).unwrap();
        assert_eq!(printed, spelled.replace('_', "."));
    }
}

#[test]
fn the_native_example_says_what_it_says() {
    let loaded = good("plugin.toml", GUARD);
    let manifest = &loaded.manifest;
    assert_eq!(loaded.warnings, []);
    assert_eq!(manifest.format, Format::Native);
    let [entry] = manifest.hooks.as_slice() else { panic!() };
    assert_eq!(
        (entry.policy(), entry.stage, entry.priority),
        (OnFailure::Mask, Stage::Redact, 100)
    );
    assert_eq!(entry.when.sinks, [SinkName::Stream, SinkName::All]);
    let runtime = manifest.runtime_of(entry).unwrap();
    assert_eq!(entry.deadline(runtime, Duration::from_secs(9)), Duration::from_millis(250));
    assert_eq!(manifest.capsule.as_ref().unwrap().screens[0].title, "Guard");
    assert!(manifest.capabilities.get("screen.read").is_some());
    assert!(manifest.capabilities.get("input.write").is_none());
}

#[test]
fn all_three_syntaxes_are_one_schema() {
    let toml = good("plugin.toml", GUARD).manifest;
    let json = serde_json::to_string_pretty(&toml).unwrap();
    assert_eq!(good("plugin.json", &json).manifest, toml);
    // JSON is YAML.
    assert_eq!(good("plugin.yaml", &json).manifest, toml);
    assert_eq!(good("again.toml", &to_toml(&toml).unwrap()).manifest, toml);
}

#[test]
fn the_quickstart_of_datawatch_loads_as_it_is() {
    let loaded = good("manifest.yaml", QUICKSTART);
    let manifest = &loaded.manifest;
    assert_eq!(manifest.format, Format::Datawatch);
    assert_eq!(
        (manifest.plugin.name.as_str(), manifest.plugin.version.as_str()),
        ("my-filter", "0.1.0")
    );
    let [entry] = manifest.hooks.as_slice() else { panic!() };
    assert_eq!(entry.hook, HookName { hook: Hook::OutputFilter, datawatch: true });
    assert_eq!((entry.hook.name(), entry.policy()), ("post_session_output", OnFailure::Pass));
    let runtime = manifest.runtime_of(entry).unwrap();
    assert_eq!((runtime.kind, runtime.hello), (RuntimeKind::Oneshot, false));
    assert_eq!(runtime.command, ["./filter"]);
    assert_eq!(entry.deadline(runtime, Duration::from_secs(2)), Duration::from_millis(1500));
    assert_eq!(codes(&loaded), ["W-FAILOPEN", "W-SLOW"]);
}

#[test]
fn the_python_example_of_datawatch_loads_as_it_is() {
    let text = "name: py-redact\nentry: ./redact.py\nhooks: [post_session_output]\n";
    let manifest = good("manifest.yaml", text).manifest;
    let entry = &manifest.hooks[0];
    let deadline = entry.deadline(manifest.runtime_of(entry).unwrap(), Duration::from_secs(2));
    assert_eq!(deadline, Duration::from_secs(2));
    assert_eq!(manifest.plugin.version, "0");
}

#[test]
fn the_rest_of_datawatch_is_kept_and_told() {
    let text = "name: 00-all\nentry: /usr/bin/true\nversion: 1.10\nmode: long-lived\ntimeout_ms: 0\n\
                hooks: [pre_session_start, post_session_complete, on_alert, on_guardrail, on_alert]\n\
                env: {TOKEN: \"${secret:t}\", N: 3}\ndocs: {files: [README.md]}\nmobile: {endpoints: []}\nwhat: 1\n";
    let loaded = good("manifest.yaml", text);
    let runtime = &loaded.manifest.runtime[0];
    assert_eq!(loaded.manifest.plugin.version, "1.10");
    assert_eq!((runtime.kind, runtime.timeout_ms), (RuntimeKind::Jsonl, None));
    assert_eq!(runtime.env["N"], "3");
    let hooks: Vec<_> = loaded.manifest.hooks.iter().map(|entry| entry.hook.hook).collect();
    assert_eq!(hooks, [Hook::SessionBefore, Hook::SessionExited, Hook::AlertEmit]);
    assert_eq!(loaded.manifest.hooks[0].policy(), OnFailure::Pass);
    assert_eq!(loaded.manifest.docs.files, ["README.md"]);
    assert_eq!(loaded.manifest.x, Some(json!({"datawatch": {"mobile": {"endpoints": []}}})));
    assert_eq!(codes(&loaded), ["W-OUTSIDE", "W-IGNORED", "W-TWICE", "W-IGNORED", "W-UNKNOWN"]);
}

#[test]
fn the_echo_adapter_of_ptywright_loads_as_it_is() {
    let toml = include_str!("fixtures/echo.toml");
    let manifest = good("manifest.toml", toml).manifest;
    assert_eq!(manifest.format, Format::Ptywright);
    assert_eq!(
        (manifest.runtime[0].kind, manifest.runtime[0].entry.as_deref()),
        (RuntimeKind::Lua, Some("main.lua"))
    );
    let adapter = manifest.adapter.as_ref().unwrap();
    assert_eq!(adapter.programs, ["sh"]);
    assert_eq!(adapter.target.as_ref().unwrap().args, ["-lc", "cat"]);
    assert_eq!(manifest.capabilities.asked.len(), 6);
    let asked = from_value(&json!({
        "name": "demo", "kind": "adapter", "version": "0.1.0", "runtime": "lua", "entrypoint": "main.lua",
        "permissions": ["session.spawn", "screen.read"],
    }));
    assert_eq!(asked.unwrap().manifest.capabilities.asked.len(), 2);
}

#[test]
fn mistakes_in_ptywrights_form() {
    let with = |more: &str| format!("name = \"demo\"\nkind = \"adapter\"\nversion = \"1\"\n{more}");
    for (more, expected) in [
        (
            "runtime = \"lua\"",
            "manifest.toml:4:11: the key \"entrypoint\" is missing: the Lua file",
        ),
        ("entrypoint = \"a.lua\"", "manifest.toml:4:14: an \"entrypoint\" needs runtime = \"lua\""),
        (
            "runtime = \"lua\"\nentrypoint = \"../a.lua\"",
            "manifest.toml:5:14: \"entrypoint\" must stay inside the plugin: \"..\" leads out of it",
        ),
        (
            "permissions = [\"screen.read\", \"screen.read\"]",
            "manifest.toml:4:31: \"screen.read\" is given twice",
        ),
        (
            "permissions = [\"screen.raed\"]",
            "manifest.toml:4:16: \"permissions\" must be \"session.spawn\", \"session.kill\", \"session.resize\", \"screen.read\", \"transcript.read\", \"input.write\" or \"matcher.wait\", not \"screen.raed\", did you mean \"screen.read\"?",
        ),
    ] {
        assert_eq!(bad("manifest.toml", &with(more)), expected);
    }
}

#[test]
fn a_capsule_of_agents_in_a_box_loads_as_it_is() {
    let loaded = good("manifest.toml", include_str!("fixtures/burndown.toml"));
    let manifest = &loaded.manifest;
    assert_eq!((manifest.format, loaded.warnings.len()), (Format::Ainb2, 0));
    let runtime = &manifest.runtime[0];
    assert_eq!(
        (runtime.kind, runtime.abi, runtime.spawn),
        (RuntimeKind::Framed, Some(2), Spawn::Eager)
    );
    assert_eq!(runtime.command, ["./burndown"]);
    let allowed = |name: &str| manifest.capabilities.get(name).cloned();
    assert_eq!(
        allowed("fs.read"),
        Some(Allow::List(vec!["~/.agents-in-a-box/sessions".into(), "~/notes".into()]))
    );
    assert_eq!(allowed("net.connect"), None);
    assert_eq!(allowed("secrets.read"), Some(Allow::List(vec!["api".into()])));
    assert_eq!(manifest.capsule.as_ref().unwrap().cli, ["usage"]);
    let typo = include_str!("fixtures/burndown.toml").replace("read_sessions", "read_session");
    assert!(bad("manifest.toml", &typo).contains("did you mean \"read_sessions\"?"));
}

#[test]
fn converted_forms_say_the_same() {
    for (file, text) in [
        ("manifest.yaml", QUICKSTART),
        ("manifest.toml", include_str!("fixtures/echo.toml")),
        ("manifest.toml", include_str!("fixtures/burndown.toml")),
    ] {
        let foreign = good(file, text).manifest;
        let mut native = good("plugin.toml", &to_toml(&foreign).unwrap()).manifest;
        native.format = foreign.format;
        assert_eq!(native, foreign);
    }
}

#[test]
fn mistakes_are_told_with_place_expectation_and_suggestion() {
    for (from, to, expected) in [
        (
            "on_failure = \"mask\"",
            "on_failre = \"mask\"",
            "plugin.toml:26:1: unknown key \"on_failre\", did you mean \"on_failure\"?",
        ),
        (
            "on_failure = \"mask\"",
            "on_failure = \"maks\"",
            "plugin.toml:26:14: \"on_failure\" must be \"pass\", \"block\", \"ask\", \"mask\", \"hold\", \"drop\" or \"seal\", not \"maks\", did you mean \"mask\"?",
        ),
        (
            "on_failure = \"mask\"",
            "on_failure = \"block\"",
            "plugin.toml:26:14: \"on_failure\" of output.filter must be \"pass\" or \"mask\" or \"hold\" or \"drop\" or \"seal\", not \"block\"",
        ),
        ("output.filter", "output.filtr", "plugin.toml:20:8: \"hook\" must be"),
        (
            "[[hooks]]",
            "[[hook]]",
            "plugin.toml:19:3: unknown key \"hook\", did you mean \"hooks\"?",
        ),
        ("\"jsonl\"", "\"json\"", "plugin.toml:10:8: \"kind\" must be"),
        (
            "name = \"guard\"",
            "name = \"Guard!\"",
            "plugin.toml:4:8: a plugin's name has at most 64 lower-case letters, digits, \".\", \"_\" and \"-\", and begins with a letter or digit, such as \"guard-\"",
        ),
        ("version = \"1.4.0\"\n", "", "plugin.toml:3:1: the key \"version\" is missing"),
        (
            "version = \"1.4.0\"",
            "version = 1.4",
            "plugin.toml:5:11: \"version\" must be a text, not this number",
        ),
        (
            "[\"./guard.py\"]",
            "[\"/usr/bin/python3\"]",
            "plugin.toml:11:11: \"/usr/bin/python3\" must be a path inside the plugin: a program elsewhere is started by a script with a #! line",
        ),
        (
            "hook = \"output.filter\"\nruntime = \"main\"",
            "hook = \"output.filter\"\nruntime = \"mian\"",
            "plugin.toml:21:11: there is no runtime \"mian\", did you mean \"main\"?",
        ),
        (
            "sk-|ghp_",
            "sk-(|ghp_",
            "plugin.toml:24:18: this regular expression is wrong: unclosed group",
        ),
        (
            "\"screen.read\" = true",
            "\"screen.raed\" = true",
            "plugin.toml:42:1: unknown key \"screen.raed\", did you mean \"screen.read\"?",
        ),
        (
            "\"screen.read\" = true",
            "screen.read = true",
            "plugin.toml:42:1: the name of a capability stands in quotes: \"screen.read\"",
        ),
        (
            "\"screen.read\" = true",
            "\"screen.read\" = [\"x\"]",
            "plugin.toml:42:17: \"screen.read\" must be true or false, not a list",
        ),
        (
            "timeout_ms = 250",
            "timeout_ms = 0",
            "plugin.toml:25:14: \"timeout_ms\" must be 1 to 600000",
        ),
        ("schema = 1", "schema = 2", "plugin.toml:2:10: \"schema\" must be 1 to 1"),
        (
            "schema = 1\n",
            "",
            "plugin.toml:2:2: the key \"schema\" is missing: begin the file with schema = 1",
        ),
        (
            "spawn = \"lazy\"",
            "spawn = \"lazy\"\nspawn = \"lazy\"",
            "plugin.toml:13:1: duplicate key",
        ),
    ] {
        assert!(GUARD.contains(from), "{from}");
        let told = bad("plugin.toml", &GUARD.replacen(from, to, 1));
        assert!(told.starts_with(expected), "\n   told {told}\nexpected {expected}");
    }
}

#[test]
fn mistakes_in_datawatchs_form() {
    for (from, to, expected) in [
        (
            "post_session_output",
            "post_session_ouput",
            "manifest.yaml:6:5: there is no hook \"post_session_ouput\", did you mean \"post_session_output\"?",
        ),
        ("entry: ./filter\n", "", "manifest.yaml:1:1: the key \"entry\" is missing"),
        (
            "entry: ./filter",
            "enrty: ./filter",
            "manifest.yaml:4:1: the key \"entry\" is missing: unknown key \"enrty\", did you mean \"entry\"?",
        ),
        (
            "./filter",
            "../filter",
            "manifest.yaml:4:8: \"entry\" must stay inside the plugin: \"..\" leads out of it",
        ),
        (
            "timeout_ms: 1500",
            "timeout_ms: soon",
            "manifest.yaml:7:13: \"timeout_ms\" must be a whole number, not a text",
        ),
        ("name: my-filter", "name: ../../x", "manifest.yaml:1:7: a plugin's name has"),
        ("  - post_session_output", "  - &a post_session_output", "manifest.yaml:6:"),
        ("version: 0.1.0", "version: !!str 1", "manifest.yaml:3:"),
        (
            "timeout_ms: 1500",
            "entry: ./other",
            "manifest.yaml:7:1: the key \"entry\" is given twice",
        ),
    ] {
        let told = bad("manifest.yaml", &QUICKSTART.replacen(from, to, 1));
        assert!(told.starts_with(expected), "\n   told {told}\nexpected {expected}");
    }
}

#[test]
fn what_is_no_manifest_is_told_what_each_form_needs() {
    assert!(bad("manifest.yaml", "a: 1\n").contains("\"entry\" and \"hooks\""));
    assert!(bad("manifest.yaml", "- a\n").contains("a table of keys"));
    assert!(bad("plugin.toml", "shema = 1\n").contains("did you mean \"schema\"?"));
    assert!(bad("manifest.toml", "[plugin]\nabi_version = 3\n").contains("must be 2"));
    assert!(bad("plugin.txt", "").contains("must end in"));
    assert_eq!(parse("plugin.toml", b"a = 1\n\xff").unwrap_err().problems[0].line, 2);
}

#[test]
fn keys_elsewhere_are_warnings_and_x_is_free() {
    let text = GUARD.replace("[plugin]\n", "[plugin]\nauhtor = \"me\"\nx-mine = 1\n");
    let loaded = good("plugin.toml", &text);
    let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
    assert_eq!((warning.code.as_str(), warning.line), ("W-UNKNOWN", 4));
    assert!(warning.text.contains("did you mean \"author\"?"), "{}", warning.text);
}

#[test]
fn keys_of_another_class_are_refused() {
    let with = |hook: &str, more: &str| {
        format!(
            "schema = 1\n[plugin]\nname = \"p\"\nversion = \"1\"\n[[runtime]]\nid = \"m\"\nkind = \"oneshot\"\n\
             command = [\"./run\"]\n[[hooks]]\nhook = \"{hook}\"\n{more}\n"
        )
    };
    for (hook, more, word) in [
        ("session.before", "when = { regex = \"x\" }", "are for filters"),
        ("session.exited", "batch = {}", "is for filter hooks"),
        ("output.filter", "queue = {}", "is for observe hooks"),
        ("output.filter", "hold = {}", "goes with on_failure"),
        ("session.exited", "on_failure = \"block\"", "must be \"drop\""),
        ("session.before", "before = [\"p\"]", "before or after itself"),
    ] {
        let told = bad("plugin.toml", &with(hook, more));
        assert!(told.contains(word), "{told}");
    }
    let gate = good("plugin.toml", &with("session.before", "on_failure = \"pass\""));
    assert_eq!(codes(&gate), ["W-FAILOPEN"]);
    let slow = good("plugin.toml", &with("output.filter", "timeout_ms = 5000"));
    assert_eq!(codes(&slow), ["W-SLOW", "W-BUDGET"]);
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let large = format!("{GUARD}\n#{}", "x".repeat(FILE_MAX));
    assert!(bad("plugin.toml", &large).contains("256 KiB"));
    let many = format!(
        "{GUARD}{}",
        "\n[[hooks]]\nhook = \"session.exited\"\nruntime = \"main\"".repeat(HOOKS_MAX)
    );
    assert!(bad("plugin.toml", &many).contains("must have at most 64 entries"));
}

#[test]
fn a_hook_unsaid_fails_closed_where_it_guards() {
    let policy = |name: &str, stage| {
        let mut entry = HookEntry::new(HookName::parse(name).unwrap());
        entry.stage = stage;
        entry.policy()
    };
    assert_eq!(policy("output.filter", Stage::Redact), OnFailure::Mask);
    assert_eq!(policy("output.filter", Stage::Transform), OnFailure::Pass);
    assert_eq!(policy("session.before", Stage::Transform), OnFailure::Block);
    assert_eq!(policy("approval.request", Stage::Transform), OnFailure::Ask);
    assert_eq!(policy("pre_session_start", Stage::Transform), OnFailure::Pass);
    let entry = HookEntry::new(Hook::InputSubmit.into());
    assert_eq!(entry.deadline(&Runtime::default(), Duration::from_secs(9)), Duration::from_secs(2));
}

#[test]
fn the_schema_resolves_its_references() {
    let schema = schema();
    let definitions = schema["$defs"].as_object().unwrap();
    for reference in schema.to_string().split("\"#/$defs/").skip(1) {
        assert!(definitions.contains_key(reference.split('"').next().unwrap()));
    }
    assert_eq!(definitions["HookEntry"]["additionalProperties"], json!(false));
    assert_eq!(schema["required"], json!(["schema", "plugin"]));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for file in FILE_NAMES {
            let _ = parse(file, &bytes);
        }
    }

    #[test]
    fn no_slip_makes_it_panic(at in 0..GUARD.len(), len in 0..12_usize, put in "[\\PC\n]{0,8}", datawatch in any::<bool>()) {
        let (file, text) = if datawatch { ("manifest.yaml", QUICKSTART) } else { ("plugin.toml", GUARD) };
        let at = text.floor_char_boundary(at.min(text.len()));
        let end = text.floor_char_boundary((at + len).min(text.len()));
        let slipped = format!("{}{put}{}", &text[..at], &text[end..]);
        match parse(file, slipped.as_bytes()) {
            Ok(loaded) => {
                // What is accepted can be written down and read again.
                let toml = to_toml(&loaded.manifest).unwrap();
                prop_assert!(parse("plugin.toml", toml.as_bytes()).is_ok() || datawatch, "{}", toml);
                prop_assert!(check_name(&loaded.manifest.plugin.name).is_ok());
            }
            Err(error) => {
                let lines = slipped.lines().count() + 1;
                prop_assert!(!error.problems.is_empty());
                prop_assert!(error.problems.iter().all(|problem| problem.line <= lines));
            }
        }
    }

    #[test]
    fn names_that_pass_are_safe_as_paths(name in "\\PC{0,70}") {
        if check_name(&name).is_ok() {
            prop_assert!(!name.contains(['/', '\\', ' ']) && !name.starts_with('.') && name.len() <= 64);
        }
    }

    #[test]
    fn paths_that_pass_stay_inside(path in "[./a~\u{0}]{0,12}") {
        if check_inside(&path).is_ok() {
            prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
        }
    }
}
