//! tmux, as fast as it can be driven: one persistent control-mode client instead of a process per
//! command, no configuration file, no status line, output of floods not copied to the client.
//!
//! In: control-mode commands. Out: replies and pushed output.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bare::{Terminal, echo_on};
use crate::contender::{Contender, Drained, Host, Programs};
use crate::finish::FinishLine;
use crate::programs::READY;
use crate::ticks::Ticks;
use greenroom_bench::payload::{END, Kind, Payload};

/// A private tmux server in a temporary directory.
pub struct Tmux {
    programs: Programs,
    dir: tempfile::TempDir,
    pid: u32,
    /// Does not get the output of panes: floods stay unwatched.
    quiet: Control,
    held: Vec<String>,
}

impl Tmux {
    pub fn start(programs: Programs) -> Result<Tmux> {
        let dir = tempfile::tempdir().context("cannot make a directory for tmux")?;
        let socket = dir.path().join("tmux.sock");
        let status = tmux(&socket)
            .args(["new-session", "-d", "-s", "base", "-x", "80", "-y", "24"])
            .arg(shell_line(&programs.hello()))
            .status()
            .context("cannot run tmux (hint: make setup)")?;
        ensure!(status.success(), "tmux did not start");
        let mut quiet = Control::attach(&socket, "base", true)?;
        for option in ["remain-on-exit on", "status off", "escape-time 0", "exit-empty off"] {
            quiet.command(&format!("set-option -g {option}"))?;
        }
        let pid = quiet.one("display-message -p '#{pid}'")?.parse().context("tmux has no pid")?;
        Ok(Tmux { programs, dir, pid, quiet, held: Vec::new() })
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("tmux.sock")
    }

    /// A window nobody looks at. Answers its pane.
    fn window(&mut self, argv: &[String]) -> Result<String> {
        let line = shell_line(argv).replace('\'', r"'\''");
        self.quiet.one(&format!("new-window -d -t base: -P -F '#{{pane_id}}' '{line}'"))
    }

    fn wait_text(&mut self, pane: &str, needle: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let rows = self.quiet.command(&format!("capture-pane -p -t {pane}"))?;
            if rows.iter().any(|row| row.contains(needle)) {
                return Ok(());
            }
        }
        bail!("{needle:?} did not appear in tmux pane {pane}")
    }

    /// A flood at its barrier.
    fn flood(&mut self, kind: Kind, bytes: usize, raw: bool, line: &FinishLine) -> Result<String> {
        let argv = self.programs.flood(kind, bytes, raw, Some(line.path()));
        let pane = self.window(&argv)?;
        self.wait_text(&pane, READY.trim_end())?;
        Ok(pane)
    }

    /// The end line must be on the screen: tmux has parsed everything, not only read it.
    fn finish(&mut self, pane: &str, bytes: usize) -> Result<()> {
        let rows = self.quiet.command(&format!("capture-pane -p -t {pane}"))?;
        let end = format!("{END} {bytes}");
        ensure!(rows.iter().any(|row| row.contains(&end)), "tmux lost the end of the flood");
        self.quiet.command(&format!("kill-pane -t {pane}"))?;
        Ok(())
    }

    fn drain_all(&mut self, kind: Kind, count: usize, bytes: usize, raw: bool) -> Result<Drained> {
        let mut line = FinishLine::draw()?;
        let panes =
            (0..count).map(|_| self.flood(kind, bytes, raw, &line)).collect::<Result<Vec<_>>>()?;
        let starts: String =
            panes.iter().map(|pane| format!("send-keys -t {pane} Enter\n")).collect();
        let cpu = crate::process::cpu(&[self.pid])?;
        let start = Instant::now();
        self.quiet.send(&starts)?;
        line.wait(count)?;
        let wall = start.elapsed();
        let cpu = crate::process::cpu(&[self.pid])?.saturating_sub(cpu);
        for _ in &panes {
            self.quiet.reply()?;
        }
        for pane in &panes {
            self.finish(pane, bytes)?;
        }
        let each = Payload::new(kind, bytes, raw).received(raw);
        Ok(Drained { wall, cpu, bytes: each * count as u64 })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The directory goes away right after: a server that is gone already is what we want.
        let _ = tmux(&self.socket()).arg("kill-server").status();
    }
}

impl Contender for Tmux {
    fn name(&self) -> &'static str {
        "tmux"
    }

    fn drain(&mut self, kind: Kind, bytes: usize, raw: bool) -> Result<Drained> {
        self.drain_all(kind, 1, bytes, raw)
    }

    fn drain_many(&mut self, count: usize, bytes: usize) -> Result<Drained> {
        self.drain_all(Kind::Plain, count, bytes, false)
    }

    /// Through an attached client on a terminal of its own, as a user types.
    fn echo(&mut self, keys: usize) -> Result<Vec<Duration>> {
        let argv = self.programs.echo();
        let pane = self.window(&argv)?;
        self.wait_text(&pane, READY.trim_end())?;
        self.quiet.command(&format!("break-pane -d -s {pane} -n echo"))?;
        self.quiet.command("new-session -d -s typist -t base")?;
        self.quiet.command(&format!("select-window -t typist:={}", "echo"))?;
        let socket = self.socket().to_string_lossy().into_owned();
        let attach = ["tmux", "-S", &socket, "attach-session", "-t", "typist"].map(str::to_owned);
        let mut terminal = Terminal::spawn_with(&attach, &[("TMUX", "")])?;
        terminal.read_until(READY.trim_end().as_bytes())?;
        let times = echo_on(&mut terminal, keys)?;
        drop(terminal);
        self.quiet.command("kill-session -t typist")?;
        self.quiet.command(&format!("kill-pane -t {pane}"))?;
        Ok(times)
    }

    fn create(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut loud = Control::attach(&self.socket(), "base", false)?;
        let line = shell_line(&self.programs.hello()).replace('\'', r"'\''");
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            let pane =
                loud.one(&format!("new-window -d -t base: -P -F '#{{pane_id}}' '{line}'"))?;
            loud.output_of(&pane)?;
            times.push(start.elapsed());
            loud.command(&format!("kill-pane -t {pane}"))?;
        }
        Ok(times)
    }
}

impl Host for Tmux {
    fn pids(&mut self) -> Result<Vec<u32>> {
        Ok(vec![self.pid])
    }

    fn hold(&mut self, count: usize) -> Result<()> {
        let argv = self.programs.hello();
        let panes = (0..count).map(|_| self.window(&argv)).collect::<Result<Vec<_>>>()?;
        for pane in &panes {
            self.wait_text(pane, READY.trim_end())?;
        }
        self.held.extend(panes);
        Ok(())
    }

    fn let_go(&mut self) -> Result<()> {
        for pane in std::mem::take(&mut self.held) {
            self.quiet.command(&format!("kill-pane -t {pane}"))?;
        }
        Ok(())
    }

    fn snapshots(&mut self, count: usize) -> Result<Duration> {
        let argv = self.programs.page();
        let pane = self.window(&argv)?;
        self.wait_text(&pane, READY.trim_end())?;
        let start = Instant::now();
        for _ in 0..count {
            let rows = self.quiet.command(&format!("capture-pane -p -t {pane}"))?;
            ensure!(rows.len() >= 23, "a snapshot has {} rows", rows.len());
        }
        let time = start.elapsed();
        self.quiet.command(&format!("kill-pane -t {pane}"))?;
        Ok(time)
    }

    fn pushed(&mut self, count: usize, every_us: u64) -> Result<Vec<Duration>> {
        let mut loud = Control::attach(&self.socket(), "base", false)?;
        let argv = self.programs.tick(count, every_us);
        let pane = self.window(&argv)?;
        self.wait_text(&pane, READY.trim_end())?;
        self.quiet.command(&format!("send-keys -t {pane} Enter"))?;
        let mut ticks = Ticks::default();
        while ticks.delays.len() < count {
            let data = loud.output_of(&pane)?;
            ticks.feed(data.as_bytes());
        }
        self.quiet.command(&format!("kill-pane -t {pane}"))?;
        Ok(ticks.delays)
    }
}

/// What `tmux -V` says.
pub fn version() -> Result<String> {
    let output = Command::new("tmux").arg("-V").output().context("cannot run tmux")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn tmux(socket: &std::path::Path) -> Command {
    let mut command = Command::new("tmux");
    command.arg("-f").arg("/dev/null").arg("-S").arg(socket).env_remove("TMUX");
    command.env("TERM", "xterm-256color");
    command
}

/// tmux gives a window's command to a shell; `exec` makes the program the only process, as
/// elsewhere.
fn shell_line(argv: &[String]) -> String {
    let quoted: Vec<String> = argv.iter().map(|arg| format!("\"{arg}\"")).collect();
    format!("exec {}", quoted.join(" "))
}

/// A control-mode client.
struct Control {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Output that came while a reply was awaited: pane and text.
    pushed: Vec<(String, String)>,
}

impl Control {
    fn attach(socket: &std::path::Path, session: &str, quiet: bool) -> Result<Control> {
        let mut command = tmux(socket);
        command.args(["-C", "attach-session", "-t", session]);
        if quiet {
            command.args(["-f", "no-output,ignore-size"]);
        } else {
            command.args(["-f", "ignore-size"]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run tmux (hint: make setup)")?;
        let stdin = child.stdin.take().context("stdin was asked for")?;
        let stdout = BufReader::new(child.stdout.take().context("stdout was asked for")?);
        let mut control = Control { child, stdin, stdout, pushed: Vec::new() };
        // The attach itself is answered by a block that is not of a command of ours: the first of
        // ours syncs.
        control.command("list-sessions")?;
        Ok(control)
    }

    fn send(&mut self, lines: &str) -> Result<()> {
        self.stdin.write_all(lines.as_bytes()).context("tmux closed its control client")
    }

    fn command(&mut self, line: &str) -> Result<Vec<String>> {
        self.send(&format!("{line}\n"))?;
        self.reply().with_context(|| format!("tmux command {line:?}"))
    }

    /// A command that answers one line.
    fn one(&mut self, line: &str) -> Result<String> {
        self.command(line)?.pop().with_context(|| format!("tmux said nothing to {line:?}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let n = self.stdout.read_until(b'\n', &mut line).context("cannot read from tmux")?;
        ensure!(n > 0, "tmux ended");
        Ok(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
    }

    /// The body of the next reply to a command of ours; output that comes before it is kept. tmux
    /// also prints blocks for commands of hooks and of the attach itself: those have 0 as their
    /// last word.
    fn reply(&mut self) -> Result<Vec<String>> {
        loop {
            let line = self.line()?;
            if !line.starts_with("%begin ") {
                self.keep(&line);
                continue;
            }
            let body = self.block()?;
            if line.ends_with(" 1") {
                return body.map_err(|text| anyhow::anyhow!("tmux: {text}"));
            }
        }
    }

    /// The lines up to the end of a block, or the text of its error.
    fn block(&mut self) -> Result<std::result::Result<Vec<String>, String>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            if line.starts_with("%end ") {
                return Ok(Ok(body));
            }
            if line.starts_with("%error ") {
                return Ok(Err(body.join(" ")));
            }
            body.push(line);
        }
    }

    fn keep(&mut self, line: &str) {
        if let Some((pane, data)) =
            line.strip_prefix("%output ").and_then(|rest| rest.split_once(' '))
        {
            self.pushed.push((pane.to_owned(), data.to_owned()));
        }
    }

    /// The next pushed output of a pane, as tmux escapes it.
    fn output_of(&mut self, pane: &str) -> Result<String> {
        loop {
            if let Some(at) = self.pushed.iter().position(|(from, _)| from == pane) {
                let (_, data) = self.pushed.remove(at);
                return Ok(data);
            }
            let line = self.line()?;
            self.keep(&line);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Detaches the client; the server lives on.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
