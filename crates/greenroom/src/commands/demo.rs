//! `greenroom demo`: the whole of it, end to end, without a terminal, a network or a key.
//!
//! A private host runs the fake agent; the API drives it; the daemon is killed with SIGKILL in the
//! middle of an answer; the session goes on, and nothing of it is lost. Every step is checked, and
//! the first that does not hold ends the demo with exit code 1. The host and its directory are gone
//! afterwards in any case.

use std::time::{Duration, Instant};

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::input::{Action, InputParams};
use greenroom_protocol::api::matcher::{Matcher, Test};
use greenroom_protocol::api::screen::{
    SnapshotFormat, SnapshotParams, TranscriptFormat, TranscriptParams,
};
use greenroom_protocol::api::server::StatsResult;
use greenroom_protocol::api::session::{
    CreateParams, ExportFormat, InfoParams, ListParams, ReplayParams, SnapshotChoice, WaitParams,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::record::export;
use super::{Context, ls, new};
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, PrivateHost, called, program};
use crate::output::{Output, Tone, millis};
use crate::player::Timeline;
use crate::stop::Stop;

/// Watch a session survive kill -9: no terminal, network or key needed
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  greenroom demo\n  greenroom demo --json")]
pub struct DemoArgs {
    /// Keep the demo's directory and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// Lines of the long answer; the kill comes after [`KILL_AFTER`] of them.
const LINES: usize = 100;
const KILL_AFTER: usize = 30;
/// Between two lines: long enough that the kill falls into the middle, short enough to watch.
const LINE_PAUSE_MS: u64 = 25;
/// No step takes a tenth of this; a demo that hangs is worse than one that fails.
const STEP_LIMIT_MS: u64 = 20_000;
/// A session is back within this after the daemon's death, or the promise is broken.
const BACK_WITHIN: Duration = Duration::from_secs(1);
const LAST_WORDS: &str = "That was the whole answer.";

pub async fn run(args: DemoArgs, context: &Context) -> ExitResult {
    let begun = Instant::now();
    let mut tale = Tale { out: context.out, step: 0, since: begun };
    tale.say("greenroom hosts a coding agent (a fake one), and loses its own brain on the way.")?;
    let mut stop = Stop::listen()?;
    let interrupted = || Failure::failed("the demo was interrupted");
    let private = tokio::select! {
        private = PrivateHost::start() => private?,
        () = stop.asked() => return Err(interrupted()),
    };
    let played = tokio::select! {
        played = play(&private, &mut tale) => played,
        () = stop.asked() => Err(interrupted()),
    };
    if args.keep && played.is_err() {
        tale.say(&format!("its log: {}", private.home.path().join("state/logs").display()))?;
    }
    let agent = played?;
    private.stop().await?;
    check(!alive(agent), || format!("the agent (pid {agent}) outlived its host"))?;
    tale.done("the host, its sessions and its directory are gone", json!({}))?;
    tale.say(&format!(
        "\nAll of it held, in {:.1} s. Now for real:\n  greenroom new --name work --attach   a shell that survives (detach: Ctrl-b d)\n  greenroom new -- claude              your agent, or any program\n  greenroom ls                         who is there\n  greenroom --help                     everything else",
        begun.elapsed().as_secs_f64()
    ))?;
    Ok(0)
}

/// The demo itself; answers the agent's pid.
async fn play(private: &PrivateHost, tale: &mut Tale) -> Result<u32, Failure> {
    let host = &private.host;
    let before = host.stats().await?;
    tale.done(
        &format!("a host is up: keeper {}, daemon {}", before.keeper_pid, before.daemon_pid),
        json!({ "keeper_pid": before.keeper_pid, "daemon_pid": before.daemon_pid }),
    )?;

    let (session, agent) = start_agent(private, tale).await?;
    drive(host, &session, tale).await?;
    kill_daemon(host, &before, tale).await?;
    go_on(host, &session, agent, tale).await?;
    nothing_is_lost(host, &session, tale).await?;
    replay(host, &session, tale).await?;
    list(host, tale).await?;
    Ok(agent)
}

async fn start_agent(private: &PrivateHost, tale: &mut Tale) -> Result<(String, u32), Failure> {
    let script = private.home.path().join("demo.agent");
    std::fs::write(&script, agent_script())
        .map_err(|error| Failure::io("cannot write the agent's script", &error))?;
    let command = vec![
        program().display().to_string(),
        "fake-agent".to_owned(),
        "--script".to_owned(),
        script.display().to_string(),
    ];
    let params = CreateParams {
        command: Some(command),
        cwd: Some(private.home.path().display().to_string()),
        name: Some("demo".to_owned()),
        ..CreateParams::default()
    };
    let made = new::create(&private.host, &params).await?;
    let agent = made
        .pid
        .ok_or_else(|| Failure::failed("the host does not say which process it started"))?;
    wait(&private.host, &made.session, Test::ContainsText("Ask me anything".to_owned())).await?;
    let session = made.session;
    tale.done(
        &format!("session {session} runs the agent, pid {agent}; it has painted its prompt"),
        json!({ "session": session, "pid": agent }),
    )?;
    Ok((session, agent))
}

async fn drive(host: &HostClient, session: &str, tale: &mut Tale) -> Result<(), Failure> {
    input(host, session, Action::Paste("please count to a hundred".to_owned())).await?;
    input(host, session, Action::Key("enter".to_owned())).await?;
    wait(host, session, Test::ContainsText("Do you want to proceed?".to_owned())).await?;
    tale.done("prompt sent through the API; the agent asks for permission", json!({}))?;
    input(host, session, Action::Key("1".to_owned())).await?;
    wait(host, session, Test::TranscriptContains(line(KILL_AFTER))).await?;
    tale.done(
        &format!("answered with a key; line {KILL_AFTER} of {LINES} has come"),
        json!({ "line": KILL_AFTER }),
    )
}

async fn kill_daemon(
    host: &HostClient,
    before: &StatsResult,
    tale: &mut Tale,
) -> Result<(), Failure> {
    let pid = i32::try_from(before.daemon_pid).ok().and_then(Pid::from_raw);
    let pid =
        pid.ok_or_else(|| Failure::failed("the host does not say which process its daemon is"))?;
    kill_process(pid, Signal::KILL)
        .map_err(|error| Failure::io("cannot kill the daemon", &error.into()))?;
    let killed = Instant::now();
    let after = loop {
        let now = host.stats().await?;
        if now.daemon_pid != before.daemon_pid {
            break now;
        }
    };
    let took = killed.elapsed();
    check(after.keeper_pid == before.keeper_pid, || "the keeper is another one".to_owned())?;
    check(took < BACK_WITHIN, || format!("the new daemon took {} ms", took.as_millis()))?;
    let ms = millis(took);
    tale.done(
        &format!(
            "kill -9 {}: a new daemon ({}) answers after {ms} ms",
            before.daemon_pid, after.daemon_pid
        ),
        json!({ "daemon_pid": after.daemon_pid, "took_ms": ms }),
    )
}

async fn go_on(
    host: &HostClient,
    session: &str,
    agent: u32,
    tale: &mut Tale,
) -> Result<(), Failure> {
    let info =
        host.call::<method::SessionInfo>(&InfoParams::of(session), "describe the session").await?;
    check(info.pid == Some(agent) && alive(agent), || {
        format!("the agent is another process: {:?}", info.pid)
    })?;
    wait(host, session, Test::ContainsText(LAST_WORDS.to_owned())).await?;
    tale.done(
        &format!("the same agent (pid {agent}) went on and finished its answer"),
        json!({ "pid": agent }),
    )
}

async fn nothing_is_lost(host: &HostClient, session: &str, tale: &mut Tale) -> Result<(), Failure> {
    let params = TranscriptParams {
        session: session.to_owned(),
        since: Some(0),
        max_bytes: Some(TranscriptParams::MAX_BYTES),
        format: TranscriptFormat::Text,
        redact: true,
        redaction: None,
        timeout_ms: None,
    };
    let output = host.call::<method::SessionTranscript>(&params, "read the transcript").await?;
    check_lines(&output.text, "the transcript")?;
    tale.done(
        &format!("its transcript has all {LINES} lines, each once, in order"),
        json!({ "lines": LINES }),
    )
}

async fn replay(host: &HostClient, session: &str, tale: &mut Tale) -> Result<(), Failure> {
    let mut cast = String::new();
    let keep = |piece: &str| {
        cast.push_str(piece);
        Ok(())
    };
    export(host, session, ExportFormat::AsciicastV3, None, keep).await?.complete(session)?;
    let timeline = Timeline::read(cast.lines(), None)
        .map_err(|error| Failure::failed(format!("cannot read the recording back: {error}")))?;
    check_lines(&timeline.output(), "the recording")?;
    let ms = millis(timeline.duration());
    tale.done(
        &format!(
            "recorded: {} events over {:.1} s, kill included, nothing missing",
            timeline.len(),
            ms as f64 / 1000.0
        ),
        json!({ "events": timeline.len(), "duration_ms": ms }),
    )?;
    for part in [1, 2] {
        let then = screen_at(host, session, ms * part / 3).await?;
        let last = then
            .lines()
            .rev()
            .find(|line| line.contains("line "))
            .unwrap_or("the prompt")
            .trim()
            .to_owned();
        tale.say(&format!("     at {:.1} s it showed: {last}", (ms * part / 3) as f64 / 1000.0))?;
    }
    let live = host
        .call::<method::SessionSnapshot>(
            &SnapshotParams::new(session, SnapshotFormat::Text),
            "read the screen",
        )
        .await?;
    let end = screen_at(host, session, ms + 1000).await?;
    check(live.text.as_deref() == Some(&end), || {
        "the replay ends with another screen than the session".to_owned()
    })?;
    tale.done("replayed to its end: the same screen as the live one", json!({}))
}

async fn screen_at(host: &HostClient, session: &str, at_ms: u64) -> Result<String, Failure> {
    let params = ReplayParams {
        session: session.to_owned(),
        at_ms: Some(at_ms),
        at_seq: None,
        format: SnapshotFormat::Text,
        timeout_ms: None,
    };
    let then = host.call::<method::SessionReplay>(&params, "replay the session").await?;
    Ok(then.snapshot.text.unwrap_or_default())
}

async fn list(host: &HostClient, tale: &mut Tale) -> Result<(), Failure> {
    let params = ListParams { detail: true, ..ListParams::default() };
    let list = host.call::<method::SessionList>(&params, "list sessions").await?;
    check(list.sessions.len() == 1, || format!("{} sessions instead of 1", list.sessions.len()))?;
    let table = ls::table(&list.sessions, &tale.out.like_a_terminal());
    tale.done("greenroom ls:", json!({ "sessions": list.sessions }))?;
    tale.say(table.trim_end())
}

/// Tells the user each step that held, with its time.
struct Tale {
    out: Output,
    step: u32,
    since: Instant,
}

impl Tale {
    fn done(&mut self, what: &str, data: Value) -> Result<(), Failure> {
        self.step += 1;
        if self.out.json {
            let ms = millis(self.since.elapsed());
            return self.out.json_line(
                &json!({ "step": self.step, "what": what, "ok": true, "at_ms": ms, "data": data }),
            );
        }
        let mark = self.out.paint(Tone::Good, "✓");
        self.out.line(&format!("{mark} {:2} {what}", self.step))
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.out.json { Ok(()) } else { self.out.line(text) }
    }
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    Err(Failure::failed(format!("the demo failed: {}", otherwise())))
}

/// Every numbered line once, in order.
fn check_lines(text: &str, place: &str) -> Result<(), Failure> {
    let found: Vec<usize> = text
        .split("line ")
        .skip(1)
        .filter_map(|rest| {
            let (number, rest) = rest.split_at_checked(3)?;
            rest.starts_with(" of ").then(|| number.parse().ok())?
        })
        .collect();
    let wanted: Vec<usize> = (1..=LINES).collect();
    let first = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
    check(found == wanted, || {
        let at = first.unwrap_or(found.len().min(wanted.len()));
        format!(
            "{place} has {} numbered lines; line {} is not where it should be",
            found.len(),
            at + 1
        )
    })
}

fn line(number: usize) -> String {
    format!("line {number:03} of ")
}

fn agent_script() -> String {
    let mut script = String::from(
        "name Demo Agent\nwelcome Ask me anything.\nspeed 20\n\non count\n  think 300 Thinking\n  say I can count, but I have to run something for it.\n  ask Bash(seq 100)\n  | Count to a hundred\n  tool Bash(seq 100)\n  | (running)\n",
    );
    for number in 1..=LINES {
        script.push_str(&format!("  print {}{LINES}\n  wait {LINE_PAUSE_MS}\n", line(number)));
    }
    script.push_str(&format!("  say {LAST_WORDS}\n"));
    script
}

fn alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

async fn input(host: &HostClient, session: &str, action: Action) -> Result<(), Failure> {
    let params = InputParams { session: session.to_owned(), action, submit: false };
    host.call::<method::SessionInput>(&params, &format!("type into {session}")).await.map(drop)
}

async fn wait(host: &HostClient, session: &str, test: Test) -> Result<(), Failure> {
    let params = WaitParams {
        timeout_ms: STEP_LIMIT_MS,
        snapshot: Some(SnapshotChoice::Flag(false)),
        ..WaitParams::new(session, Matcher::new(test))
    };
    let found = host.client.wait(&params).await;
    found.map(drop).map_err(|error| called(&format!("wait for {session}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_strictly() {
        let all: String = (1..=LINES).map(|n| format!("{}{LINES}\n", line(n))).collect();
        assert!(check_lines(&all, "x").is_ok());
        let missing = all.replace(&line(50), "");
        assert!(check_lines(&missing, "x").unwrap_err().message.contains("line 50 is not"));
        let doubled = format!("{all}{}{LINES}\n", line(7));
        assert!(check_lines(&doubled, "x").is_err());
        assert!(check_lines("", "x").is_err());
    }
}
