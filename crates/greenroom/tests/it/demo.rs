//! The demo holds what it shows, and leaves nothing behind.

use serde_json::Value;

use crate::support::Home;

#[test]
fn the_demo_runs_without_a_terminal() {
    let home = Home::new();
    let said = home.run(&["demo"]);
    assert_eq!(said.code, 0, "{said:?}");
    for words in [
        "kill -9",
        "each once, in order",
        "the same agent",
        "replayed",
        "greenroom ls:",
        "greenroom new --name work",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    assert!(!home.socket().exists(), "the demo has a host of its own");
}

#[test]
fn the_demo_in_json() {
    let home = Home::new();
    let text = home.ok(&["demo", "--json"]);
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(steps.len() >= 10 && steps.iter().all(|step| step["ok"] == true), "{text}");
    assert!(
        steps.iter().any(|step| step["data"]["took_ms"].as_u64().is_some_and(|ms| ms < 1000)),
        "{text}"
    );
}
