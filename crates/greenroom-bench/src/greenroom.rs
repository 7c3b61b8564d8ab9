//! greenroom itself: a private host in a temporary home, driven through its socket.
//!
//! In: the release binary. Out: the same measurements as the other contenders, and those only it
//! can give (recovery, growth).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use greenroom_protocol::api::event::OutputPush;
use greenroom_protocol::api::server::StatsResult;
use greenroom_protocol::api::session::{
    AttachResult, CreateResult, ListResult, Listed, SessionInfo, WaitResult,
};
use greenroom_protocol::attach::{AttachDecoder, Frame};
use greenroom_protocol::events::Push as _;
use greenroom_protocol::methods::{Method as _, method};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::{Value, json};

use crate::bare::contains;
use crate::contender::{Contender, Drained, Host, KEYS, Programs};
use crate::finish::FinishLine;
use crate::programs::{READY, ready_received};
use crate::ticks::Ticks;
use crate::wire::Connection;
use greenroom_bench::payload::{END, Kind, Payload};

/// How long a host may take to go when asked before it is killed.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(20);

/// Looked at this often where nothing tells.
const LOOK: Duration = Duration::from_millis(1);

/// A pushed first byte that is later than this counts as this late.
const PUSH_LIMIT: Duration = Duration::from_millis(200);

pub struct Greenroom {
    bin: PathBuf,
    programs: Programs,
    socket: PathBuf,
    connection: Connection,
    keeper_pid: u32,
    held: Vec<String>,
    /// Its filters hide what sessions print: only counts tell how far they are.
    masked: bool,
    _home: tempfile::TempDir,
}

impl Greenroom {
    pub fn start(bin: &Path, programs: Programs) -> Result<Greenroom> {
        Greenroom::start_with(bin, programs, "")
    }

    /// A host with this configuration.
    pub fn start_with(bin: &Path, programs: Programs, config: &str) -> Result<Greenroom> {
        let home = tempfile::tempdir().context("cannot make a home for the host")?;
        std::fs::write(home.path().join("config.toml"), config).context("cannot configure it")?;
        Greenroom::start_in(bin, programs, home)
    }

    /// A host in a home that was made for it.
    pub fn start_in(bin: &Path, programs: Programs, home: tempfile::TempDir) -> Result<Greenroom> {
        let status = Command::new(bin)
            .arg("ls")
            .env("GREENROOM_HOME", home.path())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("cannot run {}", bin.display()))?;
        ensure!(status.success(), "the host did not start ({status})");
        let socket = home.path().join("run/greenroom.sock");
        let mut connection = Connection::open(&socket)?;
        let stats: StatsResult = connection.call(method::ServerStats::NAME, &json!({}))?;
        let keeper_pid = stats.keeper_pid;
        let (bin, held) = (bin.to_owned(), Vec::new());
        let masked = false;
        Ok(Greenroom { bin, programs, socket, connection, keeper_pid, held, masked, _home: home })
    }

    /// From now on sessions are counted, not looked at.
    pub fn masked(mut self) -> Greenroom {
        self.masked = true;
        self
    }

    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.connection.call(method, params)
    }

    fn stats(&mut self) -> Result<StatsResult> {
        self.connection.call(method::ServerStats::NAME, &json!({}))
    }

    /// A session of 80 × 24. Answers its id.
    fn session(&mut self, argv: &[String]) -> Result<String> {
        self.session_of(&json!({"command": argv, "size": "80x24"}))
    }

    fn session_of(&mut self, params: &Value) -> Result<String> {
        Ok(self.connection.call::<CreateResult>(method::SessionCreate::NAME, params)?.session)
    }

    fn ready_session(&mut self, argv: &[String]) -> Result<String> {
        let session = self.session(argv)?;
        if self.masked {
            while self.info(&session)?.seq < ready_received(true) {
                std::thread::park_timeout(LOOK);
            }
        } else {
            let matcher = json!({"type": "contains_text", "value": READY.trim_end()});
            self.wait(&session, &matcher)?;
        }
        Ok(session)
    }

    fn info(&mut self, session: &str) -> Result<SessionInfo> {
        self.connection.call(method::SessionInfo::NAME, &json!({"session": session}))
    }

    fn wait(&mut self, session: &str, matcher: &Value) -> Result<WaitResult> {
        let params = json!({"session": session, "matcher": matcher, "timeout_ms": 60_000, "snapshot": false});
        self.connection.call(method::SessionWait::NAME, &params)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn bin(&self) -> &Path {
        &self.bin
    }

    pub fn programs(&self) -> Programs {
        self.programs.clone()
    }

    /// A session that floods when it is told to.
    pub fn flood(&mut self, kind: Kind, bytes: usize) -> Result<String> {
        let argv = self.programs.flood(kind, bytes, false, None);
        self.ready_session(&argv)
    }

    pub fn close(&mut self, session: &str) -> Result<()> {
        self.connection.call::<Value>(method::SessionClose::NAME, &json!({"session": session}))?;
        Ok(())
    }

    /// Everything must have arrived: counted, and the end line on the screen.
    fn finish(&mut self, session: &str, kind: Kind, bytes: usize, raw: bool) -> Result<u64> {
        self.wait(session, &json!({"type": "process_exited"}))?;
        let info = self.info(session)?;
        let expected = Payload::new(kind, bytes, raw).received(raw);
        ensure!(
            info.seq == expected + ready_received(raw),
            "{} bytes were recorded instead of {}",
            info.seq,
            expected + ready_received(raw)
        );
        if !self.masked {
            let params = json!({"session": session, "format": "text"});
            let screen: Value = self.connection.call(method::SessionSnapshot::NAME, &params)?;
            let text = screen["text"].as_str().unwrap_or_default();
            ensure!(text.contains(&format!("{END} {bytes}")), "the end line is not on the screen");
        }
        self.close(session)?;
        Ok(expected)
    }

    fn drain_all(&mut self, kind: Kind, count: usize, bytes: usize, raw: bool) -> Result<Drained> {
        let mut line = FinishLine::draw()?;
        let argv = self.programs.flood(kind, bytes, raw, Some(line.path()));
        let sessions = (0..count).map(|_| self.ready_session(&argv)).collect::<Result<Vec<_>>>()?;
        let pids = self.pids()?;
        let cpu = crate::process::cpu(&pids)?;
        let start = Instant::now();
        let mut asked = Vec::with_capacity(count);
        for session in &sessions {
            let action = json!({"type": "text", "value": "\n"});
            let params = json!({"session": session, "action": action});
            asked.push(self.connection.send(method::SessionInput::NAME, &params)?);
        }
        line.wait(count)?;
        let wall = start.elapsed();
        let cpu = crate::process::cpu(&pids)?.saturating_sub(cpu);
        self.connection.replies(&asked)?;
        let mut total = 0;
        for session in &sessions {
            total += self.finish(session, kind, bytes, raw)?;
        }
        Ok(Drained { wall, cpu, bytes: total })
    }

    /// Starts sessions that stay; the time of each until its first byte was pushed.
    pub fn hold_timed(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        let params = json!({"command": self.programs.hello(), "size": "80x24"});
        for _ in 0..count {
            let (time, session) = self.create_timed(&params)?;
            times.push(time);
            self.held.push(session);
        }
        Ok(times)
    }

    /// Starts sessions without and with a sandbox in turn; the time of each until its first byte
    /// was pushed.
    pub fn create_confined(&mut self, count: usize) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let place = tempfile::tempdir().context("cannot make a directory to work in")?;
        // A program every sandbox can see, wherever this one was built.
        let script = format!("echo {}; read line", READY.trim_end());
        let open =
            json!({"command": ["/bin/sh", "-c", script], "cwd": place.path(), "size": "80x24"});
        let mut confined = open.clone();
        confined["sandbox"] = json!("full");
        let mut times = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            for (params, times) in [(&open, &mut times.0), (&confined, &mut times.1)] {
                let (time, session) = self.create_timed(params)?;
                times.push(time);
                self.close(&session)?;
            }
        }
        Ok(times)
    }

    /// Starts a program and waits until its first byte is pushed here, all on one connection. A
    /// push that does not come in time is a slow sample, not a lost one: the output itself must be
    /// there.
    fn create_timed(&mut self, params: &Value) -> Result<(Duration, String)> {
        self.connection.forget_pushes();
        let start = Instant::now();
        let session = self.session_of(params)?;
        let params = json!({"session": session, "since": 0, "format": "text"});
        let followed: Value = self.connection.call(method::SessionSubscribe::NAME, &params)?;
        let mut pushed = false;
        while !pushed && self.connection.has_push(PUSH_LIMIT)? {
            pushed = self.connection.push()?.method == OutputPush::METHOD;
        }
        let time = start.elapsed();
        if !pushed {
            let matcher = json!({"type": "transcript_contains", "value": READY.trim_end()});
            self.wait(&session, &matcher)?;
        }
        // A held session must be idle, not followed.
        let params = json!({"subscription": followed["subscription"]});
        self.connection.call::<Value>(method::ServerUnsubscribe::NAME, &params)?;
        Ok((time, session))
    }

    /// After a round that broke off: a fresh connection, and no session left of it.
    pub fn reset(&mut self) -> Result<()> {
        self.connection = Connection::open(&self.socket)?;
        let list: ListResult = self.connection.call(method::SessionList::NAME, &json!({}))?;
        for listed in list.sessions {
            if let Listed::Id(session) = listed {
                self.close(&session)?;
            }
        }
        self.held.clear();
        Ok(())
    }

    /// Kills the daemon; the time until a new one has answered with every session and a screen.
    pub fn recover(&mut self) -> Result<Duration> {
        let daemon = self.stats()?.daemon_pid;
        let witness = self.held.last().context("recovery needs a session")?.clone();
        let start = Instant::now();
        kill_process(pid(daemon)?, Signal::KILL).context("cannot kill the daemon")?;
        let deadline = start + Duration::from_secs(30);
        loop {
            // A connection the dead daemon had accepted is lost: a client reconnects, and so do we.
            match self.look(&witness) {
                Ok(connection) => {
                    let took = start.elapsed();
                    self.connection = connection;
                    ensure!(self.stats()?.daemon_pid != daemon, "the daemon was not killed");
                    return Ok(took);
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn look(&self, witness: &str) -> Result<Connection> {
        let mut connection = Connection::open(&self.socket)?;
        let list: ListResult = connection.call(method::SessionList::NAME, &json!({}))?;
        let listed =
            |id: &String| list.sessions.iter().any(|s| matches!(s, Listed::Id(s) if s == id));
        ensure!(self.held.iter().all(listed), "sessions are missing from the list");
        let params = json!({"session": witness, "format": "text"});
        let screen: Value = connection.call(method::SessionSnapshot::NAME, &params)?;
        let text = screen["text"].as_str().unwrap_or_default();
        ensure!(text.contains(READY.trim_end()), "the screen was not rebuilt");
        Ok(connection)
    }
}

fn pid(pid: u32) -> Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).context("not a process id")
}

impl Drop for Greenroom {
    fn drop(&mut self) {
        let keeper = pid(self.keeper_pid).and_then(|keeper| {
            pidfd_open(keeper, PidfdFlags::empty()).context("the keeper is gone")
        });
        let asked =
            self.connection.call::<Value>(method::ServerShutdown::NAME, &json!({"grace_ms": 500}));
        let Ok(keeper) = keeper else { return };
        let gone = crate::bare::readable(&keeper, SHUTDOWN_LIMIT).unwrap_or(false);
        if asked.is_err() || !gone {
            // Nothing may outlive the measurement; an ended keeper cannot be hit by a pidfd.
            let _ = rustix::process::pidfd_send_signal(&keeper, Signal::KILL);
        }
    }
}

impl Contender for Greenroom {
    fn name(&self) -> &'static str {
        "greenroom"
    }

    fn drain(&mut self, kind: Kind, bytes: usize, raw: bool) -> Result<Drained> {
        self.drain_all(kind, 1, bytes, raw)
    }

    fn drain_many(&mut self, count: usize, bytes: usize) -> Result<Drained> {
        self.drain_all(Kind::Plain, count, bytes, false)
    }

    /// Through the attach stream, as `greenroom attach` types.
    fn echo(&mut self, keys: usize) -> Result<Vec<Duration>> {
        let argv = self.programs.echo();
        let session = self.ready_session(&argv)?;
        let mut stream = Connection::open(&self.socket)?;
        let params = json!({"session": session, "size": {"cols": 80, "rows": 24}});
        stream.call::<AttachResult>(method::SessionAttach::NAME, &params)?;
        let mut decoder = AttachDecoder::new();
        let mut times = Vec::with_capacity(keys);
        for key in KEYS.iter().cycle().take(keys) {
            let frame = Frame::Input(&[*key]).to_vec().context("one key fits a frame")?;
            let start = Instant::now();
            stream.write_bytes(&frame)?;
            next_output(&mut stream, &mut decoder, &[*key])?;
            times.push(start.elapsed());
        }
        drop(stream);
        self.close(&session)?;
        Ok(times)
    }

    fn create(&mut self, count: usize) -> Result<Vec<Duration>> {
        let params = json!({"command": self.programs.hello(), "size": "80x24"});
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let (time, session) = self.create_timed(&params)?;
            times.push(time);
            self.close(&session)?;
        }
        Ok(times)
    }
}

/// Reads frames until one of output holds `needle`. A keyframe repaints what was there before: it
/// proves nothing about a key that was just pressed.
fn next_output(stream: &mut Connection, decoder: &mut AttachDecoder, needle: &[u8]) -> Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        while let Some(frame) = decoder.next() {
            match frame.context("a broken attach frame")? {
                Frame::Output { bytes, .. } if contains(bytes, needle) => return Ok(()),
                Frame::Exit(_) | Frame::Detach(_) => bail!("the attach stream ended"),
                _ => {}
            }
        }
        let n = stream.read_bytes(&mut buffer)?;
        decoder.push(&buffer[..n]);
    }
}

impl Host for Greenroom {
    fn pids(&mut self) -> Result<Vec<u32>> {
        let stats = self.stats()?;
        Ok(vec![stats.daemon_pid, stats.keeper_pid])
    }

    fn hold(&mut self, count: usize) -> Result<()> {
        self.hold_timed(count).map(drop)
    }

    fn let_go(&mut self) -> Result<()> {
        for session in std::mem::take(&mut self.held) {
            self.close(&session)?;
        }
        Ok(())
    }

    fn snapshots(&mut self, count: usize) -> Result<Duration> {
        let argv = self.programs.page();
        let session = self.ready_session(&argv)?;
        let params = json!({"session": session, "format": "text"});
        let start = Instant::now();
        for _ in 0..count {
            let screen: Value = self.connection.call(method::SessionSnapshot::NAME, &params)?;
            let rows = screen["text"].as_str().map_or(0, |text| text.lines().count());
            ensure!(rows >= 23, "a snapshot has {rows} rows");
        }
        let time = start.elapsed();
        self.close(&session)?;
        Ok(time)
    }

    fn pushed(&mut self, count: usize, every_us: u64) -> Result<Vec<Duration>> {
        let argv = self.programs.tick(count, every_us);
        let session = self.ready_session(&argv)?;
        let params = json!({"session": session, "format": "text"});
        self.connection.call::<Value>(method::SessionSubscribe::NAME, &params)?;
        let action = json!({"type": "text", "value": "\n"});
        let params = json!({"session": session, "action": action});
        self.connection.call::<Value>(method::SessionInput::NAME, &params)?;
        let mut ticks = Ticks::default();
        while ticks.delays.len() < count {
            let push = self.connection.push()?;
            if push.method == OutputPush::METHOD {
                ensure!(push.params["dropped"].is_null(), "the subscription lagged");
                let text = push.params["output"].as_str().unwrap_or_default();
                ticks.feed(text.as_bytes());
            }
        }
        self.close(&session)?;
        self.connection.forget_pushes();
        Ok(ticks.delays)
    }
}
