//! Kills or upgrades a busy host again and again and counts what is lost.
//!
//! Sessions print numbered lines at full speed; every one has an attached client. After each blow
//! it measures how long until the host answers and until every client sees output again. At the end
//! every line of every transcript is read back: a number that is missing or comes twice fails.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use greenroom_client::api::Empty;
use greenroom_client::{AttachEvent, Client, api, method};
use tokio::sync::watch;

/// A host or a client that is not back by then has failed.
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// Give up waiting for it here, to report how it stands.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Args {
    /// The greenroom binary.
    #[arg(long)]
    bin: PathBuf,
    /// How often to strike.
    #[arg(long, default_value_t = 100)]
    blows: u32,
    #[arg(long, default_value_t = 8)]
    sessions: u32,
    /// Run `greenroom upgrade` instead of killing the daemon.
    #[arg(long)]
    upgrade: bool,
    /// Longest pause between two blows.
    #[arg(long, default_value_t = 400)]
    pause_ms: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts on a sane machine");
    match runtime.block_on(run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("FAILED: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the report is what this program is for")]
fn say(line: &str) {
    println!("{line}");
}

async fn run(args: &Args) -> Result<()> {
    let home = tempfile::tempdir()?;
    let host = Host::start(args, home.path()).await?;
    let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let outcome = tokio::select! {
        outcome = strike(args, &host) => outcome,
        _ = stop.recv() => Err(anyhow::anyhow!("told to stop")),
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("told to stop")),
    };
    if outcome.is_err() {
        host.last_words();
    }
    host.stop().await;
    outcome
}

async fn strike(args: &Args, host: &Host) -> Result<()> {
    let mut viewers = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..args.sessions {
        let params = api::session::CreateParams {
            command: Some(vec!["seq".into(), "1".into(), "1000000000000".into()]),
            ..Default::default()
        };
        let session = host.client.call::<method::SessionCreate>(&params).await?.session;
        viewers.push(Viewer::attach(&host.socket, &session).await?);
        sessions.push(session);
    }
    let mut answered = Vec::new();
    let mut seen = Vec::new();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for blow in 0..args.blows {
        tokio::time::sleep(Duration::from_micros(dice.below(args.pause_ms * 1000))).await;
        let before = host.client.call::<method::ServerStats>(&Empty {}).await?;
        let started = Instant::now();
        if args.upgrade {
            host.upgrade().await?;
        } else {
            kill(before.daemon_pid)?;
        }
        answered.push(host.back(before.daemon_pid, started).await?);
        for viewer in &mut viewers {
            seen.push(viewer.back(started).await.with_context(|| format!("blow {blow}"))?);
        }
        if blow % 10 == 9 {
            say(&format!("  {} blows, host back max {:?}", blow + 1, answered.iter().max()));
        }
    }
    let alive = host.client.sessions().await?.iter().filter(|s| s.pid.is_some()).count();
    ensure!(alive == sessions.len(), "{} of {} sessions live", alive, sessions.len());
    let mut lines = 0;
    for session in &sessions {
        lines += check_lines(&host.client, session).await?;
    }
    report("host answers", &mut answered);
    report("clients see output", &mut seen);
    say(&format!("0 of {alive} sessions lost, {lines} lines read back, 0 missing, 0 doubled"));
    ensure!(answered.iter().chain(&seen).all(|took| *took < BACK_WITHIN), "back later than 1 s");
    Ok(())
}

fn report(what: &str, took: &mut [Duration]) {
    took.sort();
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    say(&format!("{what}: p50 {:?}, p90 {:?}, max {:?}", at(50), at(90), at(100)));
}

fn kill(pid: u32) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.context("the daemon has no pid")?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::KILL)?)
}

/// Ends the session and reads every line it printed.
async fn check_lines(client: &Client, session: &str) -> Result<u64> {
    let ending =
        api::session::KillParams { session: session.to_owned(), signal: None, grace_ms: None };
    client.call::<method::SessionKill>(&ending).await?;
    let mut since = 0;
    let mut next = 1u64;
    let mut rest = String::new();
    loop {
        let params = api::session::TranscriptParams {
            session: session.to_owned(),
            since: Some(since),
            max_bytes: Some(api::session::TranscriptParams::MAX_BYTES),
            format: api::screen::TranscriptFormat::Ansi,
            redact: true,
            redaction: None,
            timeout_ms: None,
        };
        let page =
            tokio::time::timeout(PATIENCE, client.call::<method::SessionTranscript>(&params)).await;
        let page = page.with_context(|| format!("{session}: no transcript from {since} on"))??;
        ensure!(page.dropped == 0, "{session}: {} bytes dropped after {since}", page.dropped);
        ensure!(page.seq == since, "{session}: asked from {since}, got {}", page.seq);
        rest.push_str(&page.text);
        let whole = rest.rfind('\n').map_or(0, |at| at + 1);
        for line in rest[..whole].lines() {
            let number: u64 = line
                .trim_end_matches('\r')
                .parse()
                .with_context(|| format!("{session}: {line:?}"))?;
            ensure!(number == next, "{session}: line {next} expected, {number} found");
            next += 1;
        }
        rest.drain(..whole);
        since = page.next_seq;
        if !page.has_more {
            return Ok(next - 1);
        }
    }
}

struct Host {
    bin: PathBuf,
    home: PathBuf,
    socket: PathBuf,
    client: Client,
}

impl Host {
    async fn start(args: &Args, home: &Path) -> Result<Host> {
        // Every line is read back at the end, so nothing may be dropped.
        let config = "[sessions]\nlimit_bytes = \"64GiB\"\ntotal_bytes = \"512GiB\"\n";
        std::fs::write(home.join("config.toml"), config)?;
        let socket = home.join("run/greenroom.sock");
        let started = command(&args.bin, home).args(["ls", "--json"]).output()?;
        if !started.status.success() {
            bail!("starting the host: {}", String::from_utf8_lossy(&started.stderr));
        }
        let client = Client::connect(&socket).await?;
        Ok(Host { bin: args.bin.clone(), home: home.to_owned(), socket, client })
    }

    async fn upgrade(&self) -> Result<()> {
        let mut upgrading = command(&self.bin, &self.home);
        upgrading.args(["upgrade", "--json"]);
        let done = tokio::task::spawn_blocking(move || upgrading.output()).await??;
        ensure!(done.status.success(), "upgrade: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }

    /// How long until a new daemon answers on a new connection.
    async fn back(&self, old_pid: u32, since: Instant) -> Result<Duration> {
        loop {
            let asked = async {
                let client = Client::connect(&self.socket).await?;
                client.call::<method::ServerStats>(&Empty {}).await
            };
            match asked.await {
                Ok(stats) if stats.daemon_pid != old_pid => return Ok(since.elapsed()),
                Ok(_) | Err(_) if since.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(_) => bail!("still the old daemon"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What the host logged last: its home goes with this program.
    fn last_words(&self) {
        let logged = command(&self.bin, &self.home).args(["logs", "--lines", "40"]).output();
        say(&logged.map_or_else(
            |error| format!("no logs: {error}"),
            |logged| String::from_utf8_lossy(&logged.stdout).into_owned(),
        ));
    }

    async fn stop(&self) {
        let _ = self.client.call::<method::ServerShutdown>(&Default::default()).await;
    }
}

fn command(bin: &Path, home: &Path) -> Command {
    let mut command = Command::new(bin);
    command.env("GREENROOM_HOME", home).stdin(Stdio::null());
    command
}

/// An attached client that notes when it last saw output.
struct Viewer {
    last: watch::Receiver<Option<Instant>>,
    failed: Arc<std::sync::Mutex<Option<String>>>,
}

impl Viewer {
    async fn attach(socket: &Path, session: &str) -> Result<Viewer> {
        let client = Client::connect(socket).await?;
        let params = api::session::AttachParams {
            session: session.to_owned(),
            size: Some(api::screen::Size::new(80, 24)),
            ..Default::default()
        };
        let mut stream = client.attach(params).await?;
        let (seen, last) = watch::channel(None);
        let failed = Arc::new(std::sync::Mutex::new(None));
        let fate = failed.clone();
        tokio::spawn(async move {
            let why = loop {
                match stream.next().await {
                    Ok(Some(AttachEvent::Output { .. } | AttachEvent::Keyframe { .. })) => {
                        seen.send_replace(Some(Instant::now()));
                    }
                    Ok(Some(AttachEvent::Exit(_)) | None) => break "ended".to_owned(),
                    Ok(Some(_)) => {}
                    Err(error) => break error.to_string(),
                }
            };
            if let Ok(mut fate) = fate.lock() {
                *fate = Some(why);
            }
        });
        Ok(Viewer { last, failed })
    }

    /// How long after `blow` the first output came.
    async fn back(&mut self, blow: Instant) -> Result<Duration> {
        let wait = self.last.wait_for(|seen| seen.is_some_and(|at| at > blow));
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(Ok(seen)) => Ok(seen.map_or(PATIENCE, |at| at.duration_since(blow))),
            Ok(Err(_)) => {
                let why = self.failed.lock().ok().and_then(|why| why.clone());
                bail!("an attached client gave up: {}", why.unwrap_or_default())
            }
            Err(_) => bail!("an attached client saw nothing for {PATIENCE:?}"),
        }
    }
}

/// Small and repeatable is all that is wanted of this randomness.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
