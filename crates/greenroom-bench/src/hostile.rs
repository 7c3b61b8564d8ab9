//! Plugins that do not do their work: what they cost sessions that have nothing to do with it.
//!
//! In: the release binary. Out: rates and echo times beside them, as a share of the same host's
//! without them. A filter that sleeps stands between a session and its readers; hostile programs
//! are called one after the other while somebody types elsewhere.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use greenroom_protocol::methods::{Method as _, method};
use serde_json::{Value, json};

use crate::contender::{Contender, Programs};
use crate::filters::host_with;
use crate::greenroom::Greenroom;
use crate::stats::percentile;
use crate::wire::Connection;
use greenroom_bench::payload::Kind;

/// Sleeps ten seconds over each question.
const SLEEPER: &str = r#"#!/usr/bin/env python3
import sys, time
print('{"hello":{"features":["filter.batch"]}}', flush=True)
sys.stdin.readline()
for line in sys.stdin:
    time.sleep(10)
    print('{}', flush=True)
"#;

/// Each ends by its own doing or by its deadline.
const HOSTILE: &[(&str, &str)] = &[
    ("never-reads", "sleep 100"),
    ("floods", "head -c 50000000 /dev/zero | tr '\\0' x; sleep 100"),
    ("half-a-line", "printf '{\"action\":\"pa'; sleep 100"),
    ("banner", "echo Welcome; echo '{}'"),
    ("wrong-json", "echo '[\"x\"]'"),
    ("unknown-verdict", "echo '{\"action\":\"redcat\"}'"),
    ("dies", "printf '{'; kill -9 $$"),
    ("holds-stdout", "sleep 100 & echo '{}'; exit 0"),
    ("ignores-term", "trap '' TERM HUP INT; sleep 100 & while :; do wait; sleep 100; done"),
    ("forks", "b() { sleep 100 & [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; wait; }; b 4"),
    ("long-answer", "head -c 17825792 /dev/zero | tr '\\0' x; echo"),
];

/// A hook of its own kind, so that nothing asks it by itself.
fn manifest(name: &str, kind: &str, hook: &str) -> String {
    let stage = if hook == "output.filter" { "stage = \"redact\"\n" } else { "" };
    format!(
        "schema = 1\n[plugin]\nname = \"{name}\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\nkind = \"{kind}\"\ncommand = [\"./filter\"]\n[[hooks]]\nhook = \"{hook}\"\n{stage}timeout_ms = 400\n"
    )
}

/// A host whose sessions' output goes through a filter that sleeps.
pub struct Sleeping {
    host: Greenroom,
}

impl Sleeping {
    pub fn start(bin: &Path, programs: Programs) -> Result<Sleeping> {
        let sleeper = ("sleeper", manifest("sleeper", "jsonl", "output.filter"), SLEEPER);
        let host = host_with(bin, programs, std::iter::once(sleeper))?.masked();
        Ok(Sleeping { host })
    }

    /// For sessions from now on.
    fn asleep(&mut self, on: bool) -> Result<()> {
        let method = if on { method::PluginEnable::NAME } else { method::PluginDisable::NAME };
        self.host.call(method, &json!({ "name": "sleeper" })).map(drop)
    }

    /// MB/s of a flood with the sleeper, as a share of one without; who begins alternates.
    pub fn drain(&mut self, bytes: usize, turn: usize) -> Result<f64> {
        self.ratio(turn, |host| Ok(host.drain(Kind::Plain, bytes, false)?.mb_per_s()))
    }

    /// Keys a second with the sleeper, as a share of those without.
    pub fn echo(&mut self, keys: usize, turn: usize) -> Result<f64> {
        self.ratio(turn, |host| Ok(1.0 / p50(host, keys)?))
    }

    fn ratio(
        &mut self,
        turn: usize,
        mut measure: impl FnMut(&mut Greenroom) -> Result<f64>,
    ) -> Result<f64> {
        let mut rates = [0.0; 2];
        for n in 0..2 {
            let on = (turn + n) % 2;
            self.asleep(on == 1)?;
            rates[on] = measure(&mut self.host)?;
        }
        Ok(rates[1] / rates[0])
    }
}

fn p50(host: &mut Greenroom, keys: usize) -> Result<f64> {
    Ok(percentile(&host.echo(keys)?, 50).context("nothing was timed")?.as_secs_f64())
}

/// A host with hostile plugins that are called by hand.
pub struct Hostile {
    host: Greenroom,
}

impl Hostile {
    pub fn start(bin: &Path, programs: Programs) -> Result<Hostile> {
        let scripts: Vec<_> =
            HOSTILE.iter().map(|(_, script)| format!("#!/bin/sh\n{script}\n")).collect();
        let plugins = HOSTILE.iter().zip(&scripts).map(|((name, _), script)| {
            (*name, manifest(name, "oneshot", "alert.emit"), script.as_str())
        });
        Ok(Hostile { host: host_with(bin, programs, plugins)? })
    }

    /// Echo p50 while they are called in turn, as a share of the quiet one.
    pub fn echo(&mut self, keys: usize, turn: usize) -> Result<f64> {
        let mut times = [0.0; 2];
        for n in 0..2 {
            let beside = (turn + n) % 2;
            times[beside] = match beside {
                0 => p50(&mut self.host, keys)?,
                _ => self.beside(keys)?,
            };
        }
        Ok(times[1] / times[0])
    }

    fn beside(&mut self, keys: usize) -> Result<f64> {
        let over = AtomicBool::new(false);
        let socket = self.host.socket().to_owned();
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| call_in_turn(&socket, &over));
            let mut times = Vec::new();
            // As long as it takes until each was called.
            while !caller.is_finished() {
                times.extend(self.host.echo(keys)?);
            }
            over.store(true, Ordering::Relaxed);
            caller.join().expect("a caller does not panic")?;
            Ok(percentile(&times, 50).context("nothing was timed")?.as_secs_f64())
        })
    }
}

fn call_in_turn(socket: &Path, over: &AtomicBool) -> Result<()> {
    let mut connection = Connection::open(socket)?;
    for (name, _) in HOSTILE {
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let payload = json!({ "title": "x", "text": "x".repeat(300_000) });
        let params = json!({ "name": name, "hook": "alert.emit", "payload": payload });
        let answer: Value = connection.call(method::PluginTest::NAME, &params)?;
        ensure!(answer.is_object(), "{name} gave no result");
    }
    Ok(())
}
