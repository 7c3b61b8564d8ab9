//! Programs that stay: greeted or not, in batches or one by one, dying, stalling, babbling.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use greenroom_formats::manifest::Allowed;
use greenroom_plugins::runtime::CallFailure;
use greenroom_plugins::runtime::jsonl::{Options, Peer, STOP_GRACE, WRITE_STALL};
use greenroom_sandbox::policy::Level;
use serde_json::{Map, Value, json};

use super::scene::{Scene, User};

const DEADLINE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);
/// By how much a busy machine may be late.
const SLACK: Duration = Duration::from_secs(5);

/// Speaks ids and batches: answers the second of two requests first, edits every line with
/// `secret`.
pub const FULL: &str = r#"#!/usr/bin/python3 -u
import json, sys
def say(value): sys.stdout.write(json.dumps(value) + "\n"); sys.stdout.flush()
held = []
for line in sys.stdin:
    ask = json.loads(line)
    if "hello" in ask: say({"hello": {"name": "full", "features": ["filter.batch"]}}); continue
    if "cancel" in ask: print("cancelled", ask["cancel"], file=sys.stderr, flush=True); continue
    if "items" in ask:
        edits = [[it["n"], "***"] for it in ask["items"] if "secret" in it["line"]]
        say({"id": ask["id"], "edits": edits}); continue
    if ask.get("line") == "hold": held.append(ask["id"]); continue
    if ask.get("line") == "never": continue
    if ask.get("line") == "wrong": say({"id": ask["id"], "edits": [[99, "x"]]}); continue
    say({"id": ask["id"], "line": ask.get("line", "")})
    while held: say({"id": held.pop(), "line": "held"})
"#;

fn request(line: &str) -> Map<String, Value> {
    json!({ "hook": "output.filter", "line": line }).as_object().unwrap().clone()
}

async fn start(scene: &Scene, script: &str) -> Peer {
    let launch = scene.launch(script, &Allowed::new());
    let options = Options { patience: DEADLINE, ..Options::default() };
    Peer::start(&scene.workers, &launch, options).await.unwrap()
}

fn scene() -> Scene {
    Scene::new(User::Ordinary, Level::Full).expect("somebody runs this")
}

#[tokio::test]
async fn answers_come_in_any_order_and_batches_name_only_what_changes() {
    let scene = scene();
    let peer = start(&scene, FULL).await;
    assert!(peer.takes_batches());
    assert_eq!(peer.greeting()["name"], "full");
    let (hold, next) = (request("hold"), request("next"));
    let (held, next) =
        tokio::join!(peer.ask(&hold, None, DEADLINE), peer.ask(&next, None, DEADLINE));
    assert_eq!(held.unwrap().answer["line"], "held");
    assert_eq!(next.unwrap().answer["line"], "next");
    let lines = ["a", "a secret", "b", "secret \" \n ä"];
    let reply = peer.ask(&request(""), Some(&lines), DEADLINE).await.unwrap();
    let items: Vec<_> = reply.verdict().unwrap().edits.iter().map(|(item, _)| *item).collect();
    assert_eq!(items, [1, 3]);
    drop(peer);
    scene.gone("dropped").await;
}

#[tokio::test]
async fn a_late_answer_is_nobodys_and_the_next_is_right() {
    let scene = scene();
    let said = Arc::new(Mutex::new(String::new()));
    let told = said.clone();
    let launch = scene.launch(FULL, &Allowed::new());
    let stderr = Arc::new(move |text: &str| told.lock().unwrap().push_str(text));
    let options = Options { stderr, patience: DEADLINE, ..Options::default() };
    let peer = Peer::start(&scene.workers, &launch, options).await.unwrap();
    let late = peer.ask(&request("never"), None, SHORT).await;
    assert_eq!(late, Err(CallFailure::Deadline(SHORT)));
    assert_eq!(peer.ask(&request("x"), None, DEADLINE).await.unwrap().answer["line"], "x");
    let wrong = peer.ask(&request("wrong"), Some(&["only"]), DEADLINE).await;
    assert!(wrong.is_ok(), "a batch ignores `line`: {wrong:?}");
    peer.stop().await;
    assert!(said.lock().unwrap().contains("cancelled"), "{said:?}");
    assert_eq!(peer.ask(&request("x"), None, DEADLINE).await, Err(CallFailure::Stopped));
    scene.gone("stopped").await;
}

#[tokio::test]
async fn a_bare_loop_is_enough() {
    let scene = scene();
    let script = "#!/bin/sh\nwhile read -r x; do echo '{\"action\":\"drop\"}'; done\n";
    let peer = start(&scene, script).await;
    assert!(!peer.takes_batches());
    let asked = request("x");
    let (a, b) = tokio::join!(peer.ask(&asked, None, DEADLINE), peer.ask(&asked, None, DEADLINE));
    assert!(a.is_ok() && b.is_ok());
    let began = Instant::now();
    peer.stop().await;
    assert!(began.elapsed() < STOP_GRACE, "the end of its input is enough");
    scene.gone("loop").await;
}

#[tokio::test]
async fn one_that_is_not_greeted_hears_requests_only() {
    let scene = scene();
    let launch =
        scene.sh("read -r x; case $x in *hello*) exit 1;; esac; echo '{}'; cat >/dev/null");
    let options = Options { hello: false, ..Options::default() };
    let peer = Peer::start(&scene.workers, &launch, options).await.unwrap();
    assert!(peer.ask(&request("x"), None, DEADLINE).await.is_ok());
}

/// What it does, and the failure everybody who waits gets.
const BAD: &[(&str, &str, &str)] = &[
    ("dies mid-call", "read -r x; read -r y; kill -9 $$", "signal 9"),
    ("closes its output", "read -r x; read -r y; exec >&-; sleep MARK", "closed its output"),
    ("exits", "read -r x; read -r y; exit 0", "status 0"),
    ("babbles", "read -r x; while echo nonsense; do :; done; sleep MARK", "no answers"),
    ("floods", "read -r x; head -c 50000000 /dev/zero; sleep MARK", "1048576 bytes"),
];

async fn suite(user: User, level: Level) {
    let Some(scene) = Scene::new(user, level) else { return };
    for (name, script, fragment) in BAD {
        let launch = scene.sh(script);
        let options = Options { patience: SHORT, ..Options::default() };
        let began = Instant::now();
        let failure = match Peer::start(&scene.workers, &launch, options).await {
            Err(failure) => failure,
            Ok(peer) => {
                let (one, two) = (request("1"), request("2"));
                let (one, _) =
                    tokio::join!(peer.ask(&one, None, DEADLINE), peer.ask(&two, None, DEADLINE));
                let failure = one.unwrap_err();
                assert_eq!(peer.ended().await, failure, "{name}");
                failure
            }
        };
        assert!(failure.to_string().contains(fragment), "{name}: {failure}");
        assert!(began.elapsed() < SHORT + SLACK, "{name}");
        scene.gone(name).await;
    }
    // Never answers, ignores TERM and has a daemon of its own: gone when nobody wants it any more.
    let script = "trap '' TERM HUP; (setsid env -i /bin/sleep MARK </dev/null >/dev/null 2>&1 &); \
                  while :; do read -r x || sleep MARK; done";
    let options = Options { patience: SHORT, ..Options::default() };
    let peer = Peer::start(&scene.workers, &scene.sh(script), options).await.unwrap();
    let late = peer.ask(&request("x"), None, SHORT).await;
    assert_eq!(late, Err(CallFailure::Deadline(SHORT)));
    drop(peer);
    scene.gone("dropped").await;
}

#[tokio::test]
async fn bad_ones_at_level_full() {
    suite(User::Ordinary, Level::Full).await;
}

#[tokio::test]
async fn bad_ones_at_level_reduced() {
    suite(User::Ordinary, Level::Reduced).await;
}

#[tokio::test]
async fn bad_ones_without_a_fence() {
    suite(User::Root, Level::Bare).await;
}

#[tokio::test]
async fn one_that_does_not_read_is_ended() {
    let scene = scene();
    let launch = scene.sh("sleep MARK");
    let options = Options { hello: false, ..Options::default() };
    let peer = Peer::start(&scene.workers, &launch, options).await.unwrap();
    let began = Instant::now();
    let stuck = peer.ask(&request(&"x".repeat(300_000)), None, DEADLINE).await;
    assert_eq!(stuck, Err(CallFailure::Stalled(WRITE_STALL)));
    assert!(began.elapsed() < WRITE_STALL + SLACK, "{:?}", began.elapsed());
    scene.gone("stalled").await;
}
