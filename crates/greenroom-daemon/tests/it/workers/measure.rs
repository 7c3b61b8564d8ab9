//! What a call costs, and that a program that stays is worth it.

use std::time::{Duration, Instant};

use greenroom_formats::manifest::Allowed;
use greenroom_plugins::runtime::jsonl::{Options, Peer};
use greenroom_plugins::runtime::oneshot::Runner;
use greenroom_sandbox::policy::Level;
use serde_json::json;

use super::peers::FULL;
use super::scene::{Scene, User};

const DEADLINE: Duration = Duration::from_secs(20);
/// The same filter, a process per line.
const ONCE: &str = r#"#!/usr/bin/python3
import json, sys
ask = json.loads(sys.stdin.readline())
print(json.dumps({"action": "replace", "line": "***"} if "secret" in ask["line"] else {"action": "pass"}))
"#;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median of some calls of a shell that answers at once.
async fn once(user: User, level: Level) -> Option<Duration> {
    let scene = Scene::new(user, level)?;
    let runner = Runner::default();
    let launch = scene.sh("read x; echo '{}'");
    let mut times = Vec::new();
    for _ in 0..15 {
        let began = Instant::now();
        runner.call(&scene.workers, &launch, &json!({}), DEADLINE).await.unwrap();
        times.push(began.elapsed());
    }
    Some(median(times))
}

#[tokio::test]
async fn what_each_level_costs() {
    for level in [Level::Full, Level::Reduced, Level::Bare] {
        let took = once(User::Ordinary, level).await;
        eprintln!("a call of sh at level {level}: p50 {took:?}");
        // Far more than a busy machine takes.
        assert!(took.is_none_or(|took| took < Duration::from_secs(1)));
    }
}

#[tokio::test]
async fn a_program_that_stays_filters_a_hundred_times_as_many_lines() {
    let scene = Scene::new(User::Ordinary, Level::Full).expect("somebody runs this");
    let runner = Runner::default();
    let request = json!({ "hook": "output.filter", "line": "nothing secret here, only a line" });
    let mut medians = Vec::new();
    for launch in [scene.sh("read x; echo '{}'"), scene.launch(ONCE, &Allowed::new())] {
        let mut times = Vec::new();
        for _ in 0..15 {
            let began = Instant::now();
            runner.call(&scene.workers, &launch, &request, DEADLINE).await.unwrap();
            times.push(began.elapsed());
        }
        medians.push(median(times));
    }
    let launch = scene.launch(FULL, &Allowed::new());
    let peer = Peer::start(&scene.workers, &launch, Options::default()).await.unwrap();
    let asked = request.as_object().unwrap();
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        peer.ask(asked, None, DEADLINE).await.unwrap();
        times.push(began.elapsed());
    }
    let call = median(times);
    let lines = vec!["nothing secret here, only a line"; 256];
    let began = Instant::now();
    const BATCHES: u32 = 40;
    for _ in 0..BATCHES / 4 {
        let batch = || peer.ask(asked, Some(&lines), DEADLINE);
        let (a, b, c, d) = tokio::join!(batch(), batch(), batch(), batch());
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
    }
    let per_second = f64::from(BATCHES * 256) / began.elapsed().as_secs_f64();
    let once = 1.0 / medians[1].as_secs_f64();
    eprintln!(
        "oneshot sh p50 {:?}, oneshot python p50 {:?} ({once:.0} lines/s)",
        medians[0], medians[1]
    );
    eprintln!(
        "jsonl python p50 {call:?}, in batches {per_second:.0} lines/s, {:.0} times",
        per_second / once
    );
    assert!(per_second > 100.0 * once, "{per_second} against {once}");
}
