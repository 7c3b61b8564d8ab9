//! Every verb speaks JSON when asked to: a verb that is in the help and not in the table here
//! fails.

use serde_json::Value;

use crate::support::Home;

/// A call of each verb that works, after [`prepare`]. `{run}` and `{ended}` are sessions. The verbs
/// with a test of their own are named with the file that has it.
pub const CALLS: &[(&str, &[&str])] = &[
    ("new", &["new", "--", "sh", "-c", "read x"]),
    ("ls", &["ls"]),
    ("info", &["info", "{run}"]),
    ("rename", &["rename", "{run}", "other"]),
    ("rm", &["rm", "{ended}"]),
    ("send", &["send", "{run}", "x"]),
    ("key", &["key", "{run}", "enter"]),
    ("read", &["read", "{run}"]),
    ("wait", &["wait", "{ended}", "--until", "exit"]),
    ("events", &["events"]),
    ("kill", &["kill", "{run}"]),
    ("record", &["record", "{ended}"]),
    ("replay", &["replay", "{ended}"]),
    ("web", &["web"]),
    ("upgrade", &["upgrade"]),
    ("doctor", &["doctor"]),
    ("stats", &["stats"]),
    ("reload", &["reload"]),
    ("logs", &["logs"]),
    ("completions", &["completions", "bash"]),
    ("schema", &["schema"]),
    ("worktree", &["worktree", "ls"]),
    ("sandbox", &["sandbox", "doctor"]),
    ("redact", &["redact", "rules"]),
    ("alert", &["alert", "the tea is ready"]),
    ("approval", &["approval", "list"]),
    ("hooks", &["hooks", "install", "claude", "--print"]),
    ("shutdown", &["shutdown", "--grace", "100ms"]),
];
const ELSEWHERE: &[(&str, &str)] = &[
    ("attach", "attach.rs"),
    ("run", "run.rs"),
    ("serve", "serve.rs"),
    ("demo", "demo.rs"),
    ("mcp", "surfaces.rs"),
    ("plugin", "plugin_verbs.rs"),
    ("hook", "notices.rs"),
    ("man", "home.rs"),
    ("help", "first_day.rs"),
];

fn prepare(home: &Home) -> (String, String) {
    let run = home.shell("cat");
    let ended = home.shell("echo done");
    home.ok(&["wait", &ended, "--until", "exit"]);
    (run, ended)
}

#[test]
fn every_verb_answers_in_json() {
    for (verb, call) in CALLS {
        let home = Home::new();
        let (run, ended) = prepare(&home);
        let fill = |word: &&str| word.replace("{run}", &run).replace("{ended}", &ended);
        let mut words: Vec<String> = call.iter().map(fill).collect();
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(at, "--json".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = home.ok(&words);
        assert!(!text.is_empty(), "{verb} --json says nothing");
        for line in text.lines() {
            serde_json::from_str::<Value>(line)
                .unwrap_or_else(|error| panic!("{verb}: {error}: {line}"));
        }
    }
}

#[test]
fn the_table_has_every_verb() {
    let home = Home::new();
    let help = home.ok(&["--help"]);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let verbs: Vec<&str> =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let verbs: Vec<&str> = verbs.into_iter().filter(|verb| !verb.is_empty()).collect();
    assert!(verbs.len() > 15, "{help}");
    for verb in verbs {
        let here = CALLS.iter().any(|(name, _)| *name == verb)
            || ELSEWHERE.iter().any(|(name, _)| *name == verb);
        assert!(here, "{verb} has no JSON test");
    }
    for verb in [
        "new",
        "ls",
        "info",
        "rename",
        "rm",
        "attach",
        "send",
        "key",
        "read",
        "wait",
        "events",
        "kill",
        "record",
        "replay",
        "serve",
        "upgrade",
        "doctor",
        "logs",
        "completions",
        "schema",
        "demo",
    ] {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is not in the help");
    }
}
