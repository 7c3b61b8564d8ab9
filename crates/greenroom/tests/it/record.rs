//! Recordings out and in.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Home;

#[test]
fn record_is_asciicast_3_and_replays() {
    let home = Home::new();
    let id = home.shell("printf 'h\\303\\251llo\\n'; printf '\\033[32mgreen\\033[0m\\n'; exit 4");
    home.ok(&["wait", &id, "--until", "exit"]);
    let cast = home.ok(&["record", &id]);
    let header: Value = serde_json::from_str(cast.lines().next().unwrap()).unwrap();
    assert_eq!((header["version"].as_i64(), header["term"]["cols"].as_i64()), (Some(3), Some(80)));
    for line in cast.lines().skip(1) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event[0].is_number() && event[1].is_string() && event[2].is_string(), "{line}");
    }
    let file = home.path().join("x.cast");
    let value = home.json(&["record", &id, "--output", file.to_str().unwrap(), "--json"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), cast);
    assert_eq!(value["bytes"].as_u64(), Some(std::fs::metadata(&file).unwrap().len()));

    let wanted = "héllo\r\n\x1b[32mgreen\x1b[0m\r\n";
    assert_eq!(home.run(&["replay", "x.cast", "--speed", "0"]).out, wanted);
    assert_eq!(home.run(&["replay", &id, "--speed", "0"]).out, wanted);
    assert_eq!(home.run_with_input(&["replay", "-", "--speed", "0"], &cast).out, wanted);
    let about = home.json(&["replay", &id, "--json", "--at", "1h"]);
    assert_eq!(
        (about["exit"].as_i64(), about["at"]["text"].as_str()),
        (Some(4), Some("héllo\ngreen"))
    );
    assert_eq!(home.run(&["record", &id, "--text"]).out, "héllo\ngreen\n");
}

#[test]
fn version_2_plays_in_its_time() {
    let home = Home::new();
    let cast = "{\"version\": 2, \"width\": 80, \"height\": 24}\n[0.1, \"o\", \"a\"]\n[0.5, \"o\", \"b\"]\n[30.5, \"o\", \"c\"]\n";
    std::fs::write(home.path().join("v2.cast"), cast).unwrap();
    let begun = Instant::now();
    assert_eq!(
        home.run(&["replay", "v2.cast", "--idle-limit", "300ms", "--speed", "2"]).out,
        "abc"
    );
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(340) && took < Duration::from_secs(20), "{took:?}");
    let begun = Instant::now();
    assert_eq!(home.run(&["replay", "v2.cast", "--at", "30.4s"]).out, "abc");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let about = home.json(&["replay", "v2.cast", "--json"]);
    assert_eq!(about["duration_ms"], 30_500);
}

#[test]
fn keys_steer_a_replay_on_a_terminal() {
    let home = Home::new();
    let cast = "{\"version\": 2, \"width\": 80, \"height\": 24}\n[0.0, \"o\", \"first \"]\n[600.0, \"o\", \"second \"]\n[1200.0, \"o\", \"third\"]\n";
    std::fs::write(home.path().join("long.cast"), cast).unwrap();
    let shell = home.ok(&["new", "--", "sh", "-i"]);
    home.ok(&["send", &shell, "greenroom replay long.cast --at 598s", "--enter"]);
    home.wait_text(&shell, "^first");
    home.ok(&["key", &shell, "right"]);
    home.wait_text(&shell, "^first second");
    home.ok(&["key", &shell, "left"]);
    home.wait_text(&shell, "^first\\s*$");
    home.ok(&["key", &shell, "space"]);
    home.ok(&["send", &shell, "q"]);
    home.wait_text(&shell, "ready>\\s*$");
    home.ok(&["send", &shell, "echo still $((1+1)) here", "--enter"]);
    home.wait_text(&shell, "still 2 here");
}
