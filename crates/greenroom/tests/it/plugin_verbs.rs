//! `greenroom plugin` with the real binary: the page for newcomers, datawatch's own lines, the
//! examples, consent, mistakes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use greenroom_formats::manifest::{HOOKS, Manifest, parse, to_toml};
use serde_json::{Value, json};

use crate::support::Home;

const QUICKSTART: &str = "name: my-filter\ndescription: Redact API keys from session output.\nversion: 0.1.0\n\
                          entry: ./filter\nhooks:\n  - post_session_output\ntimeout_ms: 1500\n";
const FILTER: &str = "#!/bin/sh\nread line\necho \"$line\" | grep -qE 'sk-[a-zA-Z0-9]{20,}' \\\n  \
                      && echo '{\"action\":\"replace\",\"line\":\"[redacted]\"}' \\\n  || echo '{\"action\":\"pass\"}'\n";
const PYTHON: &str = "#!/usr/bin/env python3\nimport json, sys\nreq = json.loads(sys.stdin.readline())\n\
                      if req.get(\"hook\") == \"post_session_output\":\n    line = req.get(\"line\", \"\")\n    \
                      if \"PASSWORD\" in line:\n        print(json.dumps({\"action\": \"replace\", \"line\": \"[redacted]\"}))\n        \
                      sys.exit(0)\nprint(json.dumps({\"action\": \"pass\"}))\n";
const PY_MANIFEST: &str = "name: py-redact\nentry: ./redact.py\nhooks: [post_session_output]\n";

fn write(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A home with plugins switched on.
fn enabled() -> Home {
    let home = Home::new();
    fs::write(home.path().join("config.toml"), "[plugins]\nenabled = true\n").unwrap();
    home
}

fn quickstart(home: &Home) -> PathBuf {
    let dir = home.path().join("plugins/my-filter");
    write(&dir.join("manifest.yaml"), QUICKSTART, 0o644);
    write(&dir.join("filter"), FILTER, 0o755);
    dir
}

fn example(name: &str) -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(name))
        .unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[track_caller]
fn test(home: &Home, plugin: &str, hook: &str, payload: &Value) -> Value {
    home.json(&["plugin", "test", plugin, hook, &payload.to_string(), "--json"])
}

fn state(home: &Home, plugin: &str) -> String {
    home.json(&["plugin", "info", plugin, "--json"])["state"].as_str().unwrap().to_owned()
}

#[test]
fn the_quickstart_of_the_seed_runs_unmodified() {
    let home = enabled();
    quickstart(&home);
    let reloaded = home.json(&["plugins", "reload", "--json"]);
    assert_eq!(reloaded["count"], 1, "{reloaded}");
    let listed = home.run(&["plugins", "list"]);
    assert!(
        listed.out.contains("my-filter") && listed.out.contains("post_session_output"),
        "{listed:?}"
    );
    let payload = r#"{"line":"sk-abcd1234567890abcdef"}"#;
    let tested = home.ok(&["plugins", "test", "my-filter", "post_session_output", payload]);
    assert_eq!(tested, r#"{"action":"replace","line":"[redacted]"}"#);
    let passed =
        home.ok(&["plugins", "test", "my-filter", "post_session_output", r#"{"line":"hello"}"#]);
    assert_eq!(passed, r#"{"action":"pass"}"#);
    let got = home.json(&["plugins", "get", "my-filter", "--json"]);
    assert_eq!(
        (&got["invoke_count"], &got["error_count"], &got["enabled"]),
        (&json!(2), &json!(0), &json!(true))
    );
}

#[test]
fn the_python_example_of_the_seed_runs_unmodified_in_a_live_session() {
    let home = enabled();
    let dir = home.path().join("plugins/py-redact");
    write(&dir.join("manifest.yaml"), PY_MANIFEST, 0o644);
    write(&dir.join("redact.py"), PYTHON, 0o755);
    home.ok(&["plugins", "reload"]);
    let tested =
        test(&home, "py-redact", "post_session_output", &json!({"line": "the PASSWORD is x"}));
    assert_eq!((&tested["action"], &tested["line"]), (&json!("replace"), &json!("[redacted]")));
    let session = home.shell("echo before; echo my PASSWORD here; echo after");
    home.run(&["wait", &session, "--until", "exit"]);
    let read = shown(&home, &session, "after");
    assert!(
        read.contains("before") && !read.contains("PASSWORD") && read.contains("after"),
        "{read}"
    );
    assert!(read.contains("[redacted]"), "{read}");
}

/// The transcript, once the filters have answered for its last line.
fn shown(home: &Home, session: &str, last: &str) -> String {
    let until = format!("text={last}");
    let said = home.run(&["wait", session, "--until", &until, "--timeout", "20s"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let read = home.ok(&["read", session, "--transcript"]);
        if read.contains(last) || std::time::Instant::now() > deadline {
            return format!("{read}\n{}", said.err);
        }
    }
}

/// One request to the host's HTTP; answers status and body.
fn http(home: &Home, verb: &str, path: &str, body: &str) -> (u16, Value) {
    use std::io::{Read as _, Write as _};
    let web = home.json(&["web", "--json"]);
    let address =
        web["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let token = web["token"].as_str().unwrap();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
    let start = answer.find('{').unwrap_or(answer.len());
    let end = answer.rfind('}').map_or(start, |end| end + 1);
    (status, serde_json::from_str(&answer[start..end]).unwrap_or(Value::Null))
}

#[test]
fn the_paths_of_the_seed_answer() {
    let home = enabled();
    quickstart(&home);
    let (status, reloaded) = http(&home, "POST", "/api/plugins/reload", "");
    assert_eq!((status, &reloaded["count"]), (200, &json!(1)), "{reloaded}");
    let (status, listed) = http(&home, "GET", "/api/plugins", "");
    assert_eq!((status, &listed["plugins"][0]["name"]), (200, &json!("my-filter")), "{listed}");
    let (status, got) = http(&home, "GET", "/api/plugins/my-filter", "");
    assert_eq!(
        (status, &got["hooks"], &got["timeout_ms"]),
        (200, &json!(["post_session_output"]), &json!(1500)),
        "{got}"
    );
    let body = r#"{"hook":"post_session_output","payload":{"line":"sk-abcd1234567890abcdef"}}"#;
    let (status, tested) = http(&home, "POST", "/api/plugins/my-filter/test", body);
    assert_eq!(
        (status, &tested["action"], &tested["line"]),
        (200, &json!("replace"), &json!("[redacted]")),
        "{tested}"
    );
    for action in ["disable", "enable"] {
        let (status, done) = http(&home, "POST", &format!("/api/plugins/my-filter/{action}"), "");
        assert_eq!((status, &done["action"]), (200, &json!(action)), "{done}");
    }
    assert_eq!(http(&home, "GET", "/api/plugins/nobody", "").0, 404);
}

#[test]
fn the_paths_of_the_seed_say_503_while_plugins_are_off() {
    let home = Home::new();
    quickstart(&home);
    home.ok(&["ls"]);
    for (verb, path) in [
        ("GET", "/api/plugins"),
        ("POST", "/api/plugins/reload"),
        ("GET", "/api/plugins/my-filter"),
        ("POST", "/api/plugins/my-filter/enable"),
        ("POST", "/api/plugins/my-filter/disable"),
        ("POST", "/api/plugins/my-filter/test"),
    ] {
        let (status, said) = http(&home, verb, path, r#"{"hook":"on_alert"}"#);
        assert_eq!(status, 503, "{path}: {said}");
        assert!(said.to_string().contains("plugins disabled"), "{said}");
    }
}

#[test]
fn changed_bytes_do_not_run() {
    let home = enabled();
    let dir = quickstart(&home);
    home.ok(&["plugins", "reload"]);
    assert_eq!(
        test(&home, "my-filter", "post_session_output", &json!({"line": "x"}))["action"],
        "pass"
    );
    write(&dir.join("filter"), "#!/bin/sh\necho '{\"action\":\"drop\"}'\n", 0o755);
    let tested = home.run(&[
        "plugins",
        "test",
        "my-filter",
        "post_session_output",
        "{\"line\":\"x\"}",
        "--json",
    ]);
    assert!(!tested.out.contains("\"drop\""), "{tested:?}");
    assert!(format!("{}{}", tested.out, tested.err).contains("changed"), "{tested:?}");
    let reloaded = home.json(&["plugins", "reload", "--json"]);
    assert_eq!(reloaded["changed"], json!(["my-filter"]));
    assert_eq!(
        test(&home, "my-filter", "post_session_output", &json!({"line": "x"}))["action"],
        "drop"
    );
}

#[test]
fn a_typo_breaks_only_itself_and_is_told_with_its_place() {
    let home = enabled();
    quickstart(&home);
    let bad = home.path().join("plugins/bad/manifest.yaml");
    write(&bad, "name: bad\nentry: ./x\nhooks: [post_session_ouput]\n", 0o644);
    let reloaded = home.run(&["plugins", "reload", "--json"]);
    assert!(reloaded.out.contains("\"count\":2"), "{reloaded:?}");
    let listed = home.json(&["plugins", "list", "--json"]);
    let plugin = |name: &str| {
        listed["plugins"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap().clone()
    };
    assert_eq!(plugin("bad")["state"], "invalid");
    let problem = plugin("bad")["problems"][0].as_str().unwrap().to_owned();
    let expected = format!(
        "{}:3:9: there is no hook \"post_session_ouput\", did you mean \"post_session_output\"?",
        bad.display()
    );
    assert_eq!(problem, expected);
    assert!(["idle", "running"].contains(&plugin("my-filter")["state"].as_str().unwrap()));
    test(&home, "my-filter", "post_session_output", &json!({"line": "x"}));
}

#[test]
fn nothing_is_found_where_a_session_or_a_caller_is() {
    let home = enabled();
    let elsewhere = home.path().join("repo");
    for place in ["plugins", ".greenroom/plugins", "dist/plugins"] {
        let dir = elsewhere.join(place).join("my-filter");
        write(&dir.join("manifest.yaml"), QUICKSTART, 0o644);
        write(&dir.join("filter"), FILTER, 0o755);
    }
    for verb in [&["plugins", "reload", "--json"][..], &["plugins", "list", "--json"]] {
        let output = home.command(verb).current_dir(&elsewhere).output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(said["count"] == 0 || said["plugins"] == json!([]), "{said}");
    }
}

#[test]
fn plugins_are_off_until_somebody_says_so() {
    let home = Home::new();
    quickstart(&home);
    for verb in [
        &["plugins", "list"][..],
        &["plugins", "reload"],
        &["plugins", "test", "my-filter", "on_alert"],
    ] {
        let said = home.run(verb);
        assert_eq!(said.code, 7, "{said:?}");
        assert!(
            said.err.contains("plugins disabled") && said.err.contains("plugins.enabled"),
            "{said:?}"
        );
    }
}

#[test]
fn a_native_plugin_waits_for_consent_and_says_what_for() {
    let home = enabled();
    let added = home.run(&["plugin", "add", text(&example("notify"))]);
    assert_eq!(added.code, 4, "{added:?}");
    for word in
        ["notify", "session.exited", "proc.exec", "runs notify-send", "sha256:", "./notify.py"]
    {
        assert!(added.out.contains(word), "{word}: {}", added.out);
    }
    assert!(added.err.contains("greenroom plugin grant notify"), "{added:?}");
    assert_eq!(state(&home, "notify"), "needs_consent");
    let refused = home.run(&["plugin", "test", "notify", "alert.emit", "{}"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    let pending = home.json(&["plugin", "pending", "--json"]);
    assert_eq!(pending["pending"][0]["name"], "notify");
    let digest = pending["pending"][0]["digest"].as_str().unwrap().to_owned();
    let wrong = home.run(&["plugin", "grant", "notify", "--digest", "sha256:0"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    let too_much = home.run(&["plugin", "grant", "notify", "--only", "input.write"]);
    assert_eq!(too_much.code, 2, "{too_much:?}");
    home.ok(&["plugin", "grant", "notify", "--digest", &digest]);
    assert_ne!(state(&home, "notify"), "needs_consent");
    home.ok(&["plugin", "revoke", "notify"]);
    assert_eq!(state(&home, "notify"), "needs_consent");
    home.ok(&["plugin", "remove", "notify"]);
    assert_eq!(home.run(&["plugin", "info", "notify"]).code, 6);
}

#[test]
fn on_a_terminal_the_question_is_asked() {
    let home = enabled();
    for (answer, code, after) in [("n", 5, "needs_consent"), ("yes", 0, "idle")] {
        let source = example("redact-py");
        let session = home.ok(&[
            "new",
            "--size",
            "100x60",
            "--",
            "greenroom",
            "plugin",
            "add",
            text(&source),
        ]);
        home.wait_text(&session, "Let redact-py run\\? \\[y/N\\]");
        let screen = home.screen(&session);
        assert!(
            screen.contains("output.filter")
                && screen.contains("mask")
                && screen.contains("./redact.py"),
            "{screen}"
        );
        home.ok(&["send", &session, answer, "--enter"]);
        home.run(&["wait", &session, "--until", "exit"]);
        let info = home.json(&["info", &session, "--json"]);
        assert_eq!(info["exit"]["code"], code, "{info}");
        assert_eq!(state(&home, "redact-py"), after);
    }
}

#[test]
fn the_example_in_python_redacts() {
    let home = enabled();
    home.ok(&["plugin", "link", text(&example("redact-py"))]);
    let listed = home.run(&["plugin", "list"]);
    assert!(listed.out.contains("LINKED"), "{listed:?}");
    let tested =
        test(&home, "redact-py", "output.filter", &json!({"line": "pay ACCT-12345678 now"}));
    assert_eq!(
        (&tested["action"], &tested["line"]),
        (&json!("replace"), &json!("pay ACCT-******** now"))
    );
    assert_eq!(test(&home, "redact-py", "output.filter", &json!({"line": "no"}))["action"], "pass");
    let session = home.shell("echo pay ACCT-12345678 now; echo done");
    home.run(&["wait", &session, "--until", "exit"]);
    let read = shown(&home, &session, "done");
    assert!(read.contains("ACCT-********") && !read.contains("12345678"), "{read}");
    let order = home.json(&["plugin", "order", "output.filter", "--json"]);
    assert_eq!(order["order"][0]["plugin"], "redact-py");
    assert!(
        home.json(&["plugin", "stats", "redact-py", "--json"])["plugins"]["redact-py"]["calls"]
            .as_u64()
            .unwrap()
            >= 2
    );
}

#[test]
fn the_example_in_shell_redacts() {
    let home = enabled();
    let dir = home.path().join("plugins/redact-sh");
    write(
        &dir.join("manifest.yaml"),
        &fs::read_to_string(example("redact-sh/manifest.yaml")).unwrap(),
        0o644,
    );
    write(&dir.join("filter"), &fs::read_to_string(example("redact-sh/filter")).unwrap(), 0o755);
    home.ok(&["plugins", "reload"]);
    let line = json!({"line": "key-abcdefghij0123456789"});
    assert_eq!(test(&home, "redact-sh", "post_session_output", &line)["line"], "[redacted]");
    home.ok(&["plugin", "disable", "redact-sh"]);
    assert_eq!(state(&home, "redact-sh"), "disabled");
    home.ok(&["plugin", "enable", "redact-sh"]);
    assert_ne!(state(&home, "redact-sh"), "disabled");
}

#[test]
fn the_example_of_a_policy_keeps_sessions_out() {
    let home = enabled();
    home.run(&["plugin", "add", text(&example("start-policy"))]);
    home.ok(&["plugin", "grant", "start-policy"]);
    let refused = home.run(&["new", "--cwd", "/etc", "--", "true"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(
        refused.err.contains("start-policy") && refused.err.contains("do not start there"),
        "{refused:?}"
    );
    let session = home.ok(&["new", "--", "true"]);
    let info = home.json(&["info", &session, "--json"]);
    assert_eq!(info["labels"]["policy"], "start-policy", "{info}");
}

#[test]
fn the_example_that_notifies_tells() {
    let home = enabled();
    home.ok(&["plugin", "link", text(&example("notify"))]);
    let tested = test(&home, "notify", "alert.emit", &json!({"severity": "warn", "text": "look"}));
    assert!(["shown", "written"].contains(&tested["how"].as_str().unwrap_or_default()), "{tested}");
}

#[test]
fn the_example_in_rust_audits_a_real_session() {
    let home = enabled();
    let dir = home.path().join("audit");
    fs::create_dir(&dir).unwrap();
    for file in ["plugin.toml", "main.rs", "build.sh"] {
        fs::copy(example("audit").join(file), dir.join(file)).unwrap();
    }
    let built = Command::new("sh").arg(dir.join("build.sh")).status().unwrap();
    assert!(built.success());
    home.ok(&["plugin", "link", text(&dir)]);
    assert_eq!(test(&home, "audit", "session.exited", &json!({"status": "done"}))["ok"], true);
    let session = home.shell("true");
    home.run(&["wait", &session, "--until", "exit"]);
    let log = home.path().join("state/plugin-data/data/audit/audit.jsonl");
    let written = || fs::read_to_string(&log).unwrap_or_default();
    let wanted = |text: &str| {
        text.contains("\"session.exited\"") && text.contains(&format!("\"{session}\""))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !wanted(&written()) && std::time::Instant::now() < deadline {
        // Each call is a round trip: nothing spins.
        home.run(&["plugin", "stats", "audit"]);
    }
    let text = written();
    assert!(wanted(&text), "{text}");
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn the_table_on_the_page_is_the_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plugins/hooks.md");
    let page = fs::read_to_string(page).unwrap();
    let table =
        page.split("<!-- hooks -->\n").nth(1).unwrap().split("<!-- /hooks -->").next().unwrap();
    let rows: Vec<String> = HOOKS
        .iter()
        .map(|row| {
            let datawatch = row
                .datawatch
                .map(|datawatch| format!(" `{}` ({})", datawatch.name, datawatch.on_failure))
                .unwrap_or_default();
            format!(
                "| `{}` | {} | {} ms | {} |{datawatch} |\n",
                row.name,
                row.class,
                row.deadline.as_millis(),
                row.on_failure
            )
        })
        .collect();
    assert_eq!(table, rows.concat());
}

#[test]
fn lint_tells_mistakes_and_doubts() {
    let home = Home::new();
    for name in ["redact-sh", "redact-py", "start-policy", "notify"] {
        let linted = home.json(&["plugin", "lint", text(&example(name)), "--json"]);
        assert_eq!(linted["valid"], true, "{name}: {linted}");
        if name != "redact-sh" {
            assert_eq!(linted["warnings"], json!([]), "{name}");
        }
    }
    let dir = home.path().join("p");
    write(
        &dir.join("plugin.toml"),
        "schema = 1\n[plugin]\nname = \"p\"\nversion = \"1\"\n[[runtime]]\nid = \"m\"\nkind = \"oneshot\"\ncommand = [\"./run\"]\n[[hooks]]\nhook = \"output.filter\"\non_failre = \"mask\"\n",
        0o644,
    );
    let said = home.run(&["plugin", "lint", text(&dir)]);
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains(
            "plugin.toml:11:1: error: unknown key \"on_failre\", did you mean \"on_failure\"?"
        ),
        "{said:?}"
    );
    let strict = home.run(&["plugin", "lint", text(&example("redact-sh")), "--strict"]);
    assert_eq!(strict.code, 1);
    assert!(strict.out.contains("W-FAILOPEN"), "{strict:?}");
    let none = home.run(&["plugin", "lint", text(home.path())]);
    assert!(none.err.contains("there is no manifest") && none.err.contains("hint"), "{none:?}");
}

#[test]
fn convert_writes_what_says_the_same() {
    let home = Home::new();
    let dir = home.path().join("my-filter");
    write(&dir.join("manifest.yaml"), QUICKSTART, 0o644);
    write(&dir.join("filter"), FILTER, 0o755);
    let shown = home.ok(&["plugin", "convert", text(&dir)]);
    home.ok(&["plugin", "convert", text(&dir), "--write"]);
    assert_eq!(fs::read_to_string(dir.join("plugin.toml")).unwrap().trim_end(), shown.trim_end());
    let native: Manifest = parse("plugin.toml", shown.as_bytes()).unwrap().manifest;
    assert_eq!(to_toml(&native).unwrap().trim_end(), shown.trim_end());
    assert_eq!(native.hooks[0].hook.name(), "post_session_output");
    assert_ne!(
        home.run(&["plugin", "convert", text(&dir), "--write"]).code,
        0,
        "it is native already"
    );
    let ran = home.json(&[
        "plugin",
        "run",
        text(&dir),
        "post_session_output",
        r#"{"line":"sk-abcd1234567890abcdef"}"#,
        "--json",
    ]);
    assert!(ran["answer"].as_str().unwrap().contains("[redacted]"), "{ran}");
}

#[test]
fn new_writes_plugins_that_lint_and_answer() {
    let home = Home::new();
    for lang in ["sh", "python", "rust"] {
        for (hook, payload, word) in [
            ("output.filter", r#"{"line":"a SECRET"}"#, "redacted"),
            ("session.before", r#"{"task":"FORBIDDEN"}"#, "block"),
            ("session.exited", "{}", "ok"),
        ] {
            let name = format!("{lang}-{}", hook.replace('.', "-"));
            home.ok(&["plugin", "new", &name, "--lang", lang, "--hook", hook]);
            let dir = home.path().join(&name);
            if lang == "rust" {
                let built = Command::new("sh").arg(dir.join("build.sh")).status().unwrap();
                assert!(built.success());
            }
            let linted = home.json(&["plugin", "lint", text(&dir), "--json", "--strict"]);
            assert_eq!(linted["warnings"], json!([]), "{name}");
            let ran = home.json(&["plugin", "run", text(&dir), hook, payload, "--json"]);
            assert!(ran["answer"].as_str().unwrap().contains(word), "{name}: {ran}");
        }
    }
    assert_eq!(home.run(&["plugin", "new", "Bad Name"]).code, 2);
    let hint = home.run(&["plugin", "new", "x", "--hook", "output.filtr"]);
    assert!(hint.err.contains("did you mean output.filter?"), "{hint:?}");
}

#[test]
fn the_schema_of_manifests_is_printed() {
    let home = Home::new();
    let schema = home.json(&["schema", "manifest", "--json"]);
    assert_eq!(schema["title"], "plugin.toml");
}

#[test]
fn ptywrights_questions_are_answered() {
    let home = enabled();
    home.ok(&["plugin", "list"]);
    let valid = home.call("plugin.validate_manifest", json!({"manifest": {
        "name": "demo", "kind": "adapter", "version": "0.1.0", "runtime": "lua", "entrypoint": "main.lua",
        "permissions": ["session.spawn", "screen.read"],
    }}));
    assert_eq!(valid["valid"], true);
    let capabilities = home.call("plugin.capabilities", json!({}));
    assert_eq!(capabilities["permissions"].as_array().unwrap().len(), 7);
}

#[test]
fn a_plugin_that_fails_is_shown_with_its_own_words() {
    let home = enabled();
    let dir = home.path().join("plugins/my-filter");
    write(&dir.join("manifest.yaml"), QUICKSTART, 0o644);
    write(&dir.join("filter"), "#!/bin/sh\necho no such table >&2\nexit 3\n", 0o755);
    home.ok(&["plugins", "reload"]);
    let said = home.run(&["plugin", "test", "my-filter", "post_session_output"]);
    assert_eq!(said.code, 1, "{said:?}");
    for words in ["stderr: no such table", "greenroom plugin logs my-filter", "flush", "proc.exec"]
    {
        assert!(said.err.contains(words), "{words}: {said:?}");
    }
}

#[test]
fn task_backend_and_effort_are_told_before_the_start() {
    let home = enabled();
    let dir = home.path().join("plugins/asker");
    let manifest = "name: asker\nentry: ./ask\nhooks: [pre_session_start]\ntimeout_ms: 5000\n";
    write(&dir.join("manifest.yaml"), manifest, 0o644);
    let script = r#"#!/bin/sh
read line
for word in '"task":"fix it"' '"backend":"claude"' '"effort":"high"'; do
  case "$line" in *"$word"*) ;; *) echo '{"action":"pass"}'; exit 0 ;; esac
done
echo '{"action":"block","reason":"told all three"}'
"#;
    write(&dir.join("ask"), script, 0o755);
    home.ok(&["plugins", "reload"]);
    home.ok(&["new", "--task", "fix it", "--", "true"]);
    let asked =
        ["new", "--task", "fix it", "--backend", "claude", "--effort", "high", "--", "true"];
    let said = home.run(&asked);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("told all three"), "{said:?}");
}
