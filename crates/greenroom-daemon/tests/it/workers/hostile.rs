//! Hostile programs: each call ends by its deadline, and then nothing of it runs.

use std::time::{Duration, Instant};

use greenroom_plugins::runtime::oneshot::Runner;
use greenroom_plugins::runtime::{CallFailure, Launch, MAX_DECLARED_ANSWER, Reply};
use greenroom_sandbox::policy::Level;
use serde_json::{Value, json};

use super::scene::{Scene, User};

const DEADLINE: Duration = Duration::from_millis(400);
/// The deadline of programs that end by themselves: a busy machine must not make them late.
const LONG: Duration = Duration::from_secs(5);
/// By how much a busy machine may be late.
const MORE: Duration = Duration::from_secs(5);

struct Hostile {
    name: &'static str,
    script: &'static str,
    right: fn(&Result<Reply, CallFailure>) -> bool,
}

fn late(result: &Result<Reply, CallFailure>) -> bool {
    matches!(result, Err(CallFailure::Deadline(DEADLINE)))
}

fn too_long(result: &Result<Reply, CallFailure>) -> bool {
    matches!(result, Err(CallFailure::TooLong { .. }))
}

fn malformed(result: &Result<Reply, CallFailure>) -> bool {
    matches!(result, Err(CallFailure::Malformed { .. }))
}

fn died(result: &Result<Reply, CallFailure>) -> bool {
    matches!(result, Err(CallFailure::Died { .. }))
}

fn answered(result: &Result<Reply, CallFailure>) -> bool {
    result.as_ref().is_ok_and(|reply| reply.verdict().is_ok())
}

const ALL: &[Hostile] = &[
    Hostile { name: "never reads", script: "sleep MARK", right: late },
    Hostile {
        name: "floods 50 MB",
        script: "head -c 50000000 /dev/zero | tr '\\0' x; sleep MARK",
        right: too_long,
    },
    Hostile {
        name: "floods lines",
        script: "echo x; yes MARK | head -c 50000000; exit 0",
        right: |it| malformed(it) || late(it),
    },
    Hostile {
        name: "floods stderr",
        script: "head -c 50000000 /dev/zero >&2; echo '{}'",
        right: |it| answered(it) || late(it),
    },
    Hostile { name: "half a line", script: "printf '{\"action\":\"pa'; sleep MARK", right: late },
    Hostile { name: "banner", script: "echo Welcome; echo '{}'", right: malformed },
    Hostile { name: "wrong JSON", script: "echo '[\"x\"]'", right: malformed },
    Hostile { name: "not even JSON", script: "printf '{\"a\": NaN}\\n'", right: malformed },
    Hostile {
        name: "unknown verdict",
        script: "echo '{\"action\":\"redcat\"}'",
        right: |it| {
            let verdict = it.as_ref().map(Reply::verdict);
            matches!(verdict, Ok(Err(CallFailure::UnknownAction(_))))
        },
    },
    Hostile { name: "dies mid-call", script: "printf '{'; kill -9 $$", right: died },
    Hostile { name: "fails", script: "echo '{}'; exit 3", right: died },
    Hostile {
        name: "vetoes",
        script: "echo because >&2; exit 2",
        right: |it| it.as_ref().is_ok_and(|reply| reply.veto.as_deref() == Some("because")),
    },
    Hostile {
        name: "grandchild holds stdout",
        script: "sleep MARK & echo '{}'; exit 0",
        right: answered,
    },
    Hostile {
        name: "ignores TERM",
        script: "trap '' TERM HUP INT QUIT; sleep MARK & while :; do wait; sleep MARK; done",
        right: late,
    },
    Hostile {
        name: "fork bomb",
        // How deep is the scene's to say: see there.
        script: "b() { sleep MARK & (setsid sleep MARK &); [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; wait; }; b DEPTH",
        right: |it| late(it) || died(it),
    },
    Hostile {
        name: "17 MiB answer",
        script: "head -c 17825792 /dev/zero | tr '\\0' x; echo",
        right: too_long,
    },
    Hostile {
        name: "two forks and a session",
        script: "(setsid sh -c 'trap \"\" HUP TERM; sleep MARK' &); exec sleep MARK",
        right: late,
    },
    Hostile {
        name: "a daemon that outlives the answer",
        script: "(setsid env -i /bin/sh -c 'trap \"\" HUP TERM; /bin/sleep MARK' </dev/null >/dev/null 2>&1 &); echo '{}'",
        right: answered,
    },
    Hostile {
        name: "a daemon that waits for the deadline",
        script: "(setsid env -i /bin/sleep MARK </dev/null >/dev/null 2>&1 &); while :; do sleep MARK; done",
        right: late,
    },
    Hostile {
        name: "closes everything",
        script: "exec </dev/null >&- 2>&-; sleep MARK",
        right: late,
    },
];

/// Larger than a pipe: who does not read keeps the writer waiting.
fn request() -> Value {
    json!({ "hook": "output.filter", "line": "x".repeat(300_000) })
}

async fn one(scene: &Scene, runner: &Runner, hostile: &Hostile, launch: &Launch) {
    // Who is right to be late gets little time.
    let deadline = match (hostile.right)(&Err(CallFailure::Deadline(DEADLINE))) {
        true => DEADLINE,
        false => LONG,
    };
    let began = Instant::now();
    let result = runner.call(&scene.workers, launch, &request(), deadline).await;
    let (took, name) = (began.elapsed(), scene.name());
    assert!((hostile.right)(&result), "{name}: {}: {result:?}", hostile.name);
    assert!(took < deadline + MORE, "{name}: {}: {took:?}", hostile.name);
    scene.gone_by(began + took.max(DEADLINE) + MORE, hostile.name).await;
}

#[tokio::main(flavor = "current_thread")]
async fn suite(user: User, level: Level) {
    let Some(scene) = Scene::new(user, level) else { return };
    let runner = Runner::default();
    for hostile in ALL {
        let mut launch = scene.sh(hostile.script);
        if hostile.name.starts_with("17") {
            launch.terms.max_answer = MAX_DECLARED_ANSWER;
        }
        one(&scene, &runner, hostile, &launch).await;
    }
    // And an honest one, after all that.
    let launch = scene.sh("read x; echo '{\"action\":\"replace\",\"line\":\"y\"}'");
    let reply = runner.call(&scene.workers, &launch, &request(), Duration::from_secs(10)).await;
    assert_eq!(reply.unwrap().verdict().unwrap().line.as_deref(), Some("y"));
    scene.gone("the honest one").await;
}

#[test]
fn at_level_full_as_an_ordinary_user() {
    suite(User::Ordinary, Level::Full);
}

#[test]
fn at_level_full_as_root() {
    suite(User::Root, Level::Full);
}

#[test]
fn at_level_reduced_as_an_ordinary_user() {
    suite(User::Ordinary, Level::Reduced);
}

#[test]
fn without_a_fence_as_an_ordinary_user() {
    suite(User::Ordinary, Level::Bare);
}

#[test]
fn without_a_fence_as_root() {
    suite(User::Root, Level::Bare);
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing() {
    let Some(scene) = Scene::new(User::Ordinary, Level::Full) else { return };
    let runner = Runner::default();
    let launch = scene.sh("echo '{}'; sleep MARK");
    // At any moment: before the start, during it, after it.
    for micros in [0, 200, 1000, 3000, 6000, 10_000, 20_000, 50_000] {
        let request = json!({});
        let call = runner.call(&scene.workers, &launch, &request, Duration::from_secs(20));
        let _ = tokio::time::timeout(Duration::from_micros(micros), call).await;
        scene.gone_by(Instant::now() + MORE, "given up").await;
    }
}

#[tokio::test]
async fn no_plugin_has_more_than_its_turns() {
    let Some(scene) = Scene::new(User::Ordinary, Level::Full) else { return };
    let runner = Runner::default();
    let launch = scene.sh("sleep MARK");
    let request = json!({});
    let call = |deadline| runner.call(&scene.workers, &launch, &request, deadline);
    // The third has given up before one of the others could make room.
    let (a, b, c) = tokio::join!(call(DEADLINE), call(DEADLINE), call(DEADLINE / 4));
    let no_turn = |it: &Result<Reply, CallFailure>| matches!(it, Err(CallFailure::NoTurn { .. }));
    assert_eq!([a, b, c].iter().filter(|it| no_turn(it)).count(), 1);
    scene.gone("turns").await;
}

#[tokio::test]
async fn what_cannot_start_says_why_and_what_it_may_not_it_cannot() {
    let Some(scene) = Scene::new(User::Ordinary, Level::Full) else { return };
    let runner = Runner::default();
    let mut launch = scene.sh("echo '{}'");
    launch.argv = vec!["/no/such".into()];
    let failed = runner.call(&scene.workers, &launch, &json!({}), DEADLINE).await.unwrap_err();
    assert!(failed.to_string().contains("run /no/such"), "{failed}");
    // Neither home, nor the keeper's socket, nor a network; its own tree and its data.
    let script = "cat ../secret 2>/dev/null && exit 1; ls ../../keeper/* 2>/dev/null && exit 1; \
                  cat /etc/passwd 2>/dev/null && exit 1; touch x 2>/dev/null && exit 1; \
                  cat main >/dev/null && echo kept > $HOME/note && echo '{\"ok\":true}'";
    let launch = scene.sh(script);
    let reply = runner.call(&scene.workers, &launch, &json!({}), Duration::from_secs(10)).await;
    assert_eq!(reply.unwrap().answer["ok"], true);
}
