//! Keys in, bytes out, through a real PTY with the agent as its session leader.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use test_kit::wait::{PATIENCE, readable};

const BINARY: &str = env!("CARGO_BIN_EXE_fake-agent");

struct Agent {
    master: File,
    /// Kept open, so that the modes can be read after the agent has left.
    slave: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    /// Everything before this was already expected.
    at: usize,
    modes_before: Termios,
}

impl Agent {
    fn start(args: &[&str]) -> Self {
        let (master, slave) = test_kit::terminal::open(80, 24);
        let modes_before = tcgetattr(&slave).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let mut command = Command::new(BINARY);
        command.args(args).stdin(stdio()).stdout(stdio()).stderr(stdio());
        #[allow(unsafe_code, reason = "only a hook in the child can make the PTY its terminal")]
        // SAFETY: both calls are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Self { master: master.into(), slave, child, seen: Vec::new(), at: 0, modes_before }
    }

    fn with_script(script: &str, args: &[&str]) -> (Self, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.agent");
        std::fs::write(&path, script).unwrap();
        let mut all = vec!["--script", path.to_str().unwrap()];
        all.extend(args);
        (Self::start(&all), dir)
    }

    fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text occurs after what was expected before.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.seen[self.at..].windows(text.len()).position(|w| w == text.as_bytes());
            if let Some(found) = found {
                self.at += found + text.len();
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(self.read(left), "no {text:?} in {:?}", self.rest());
        }
    }

    /// Reads until nothing comes for this long.
    fn settle(&mut self, quiet: Duration) {
        while self.read(quiet) {}
    }

    fn rest(&self) -> String {
        String::from_utf8_lossy(&self.seen[self.at..]).into_owned()
    }

    /// Whether something was read before the time was over.
    fn read(&mut self, wait: Duration) -> bool {
        if !readable(&self.master, wait) {
            return false;
        }
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(len) => self.seen.extend_from_slice(&buffer[..len]),
            Err(_) => return false,
        }
        true
    }

    /// Reads to the end and returns the exit code. The terminal must be as it was.
    #[track_caller]
    fn finish(mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code().unwrap();
            }
            assert!(Instant::now() < deadline, "still running: {:?}", self.rest());
            self.read(Duration::from_millis(10));
        };
        self.settle(Duration::ZERO);
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(after.local_modes, self.modes_before.local_modes);
        assert_eq!(after.output_modes, self.modes_before.output_modes);
        let all = String::from_utf8(self.seen.clone()).unwrap();
        for (on, off) in [("\x1b[?2026h", "\x1b[?2026l"), ("\x1b[?1049h", "\x1b[?1049l")] {
            assert_eq!(all.matches(on).count(), all.matches(off).count(), "{on:?}");
        }
        for off in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[?25h"] {
            assert!(all.contains(off), "{off:?}");
        }
        (code, all)
    }

    #[track_caller]
    fn quit(mut self) -> String {
        self.send("\x03\x03");
        let (code, all) = self.finish();
        assert_eq!(code, 0);
        all
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(ws_col: u16, ws_row: u16) -> Winsize {
    Winsize { ws_col, ws_row, ws_xpixel: 0, ws_ypixel: 0 }
}

fn output(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(BINARY)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that refuses to run does not read.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

const SLOW: &str = "on slow\n think 600000 Brooding\n say never\notherwise\n say hello {prompt}\n";

#[test]
fn greets_and_shows_the_prompt_with_its_marks() {
    let mut agent = Agent::start(&[]);
    agent.expect("\x1b[?2004h");
    agent.expect("\x1b[?2026h");
    agent.expect("Welcome to Fake Agent!");
    agent.expect("\x1b]0;✳ Fake Agent\x07");
    agent.expect("\x1b]133;A\x07");
    agent.expect("│ \x1b[m> ");
    agent.expect("? for shortcuts");
    agent.expect("\x1b[?2026l");
    agent.expect("\x1b]133;B\x07");
    agent.quit();
}

#[test]
fn answers_with_spinner_text_and_code() {
    let mut agent = Agent::start(&["--pace", "0.05"]);
    agent.expect("133;B");
    agent.send("good morning\r");
    agent.expect("> good morning");
    agent.expect("\x1b]133;C\x07");
    agent.expect("\x1b]9;4;3\x07");
    agent.expect("\x1b]0;⠂ Fake Agent\x07");
    agent.expect("esc to interrupt)");
    agent.expect("good morning\x1b[m");
    agent.expect("```rust");
    agent.expect("hello, 世界");
    agent.expect("\x1b]133;D;0\x07");
    agent.expect("\x1b]9;Fake Agent is waiting for your input\x07");
    agent.expect("\x1b]133;A\x07");
    agent.quit();
}

#[test]
fn a_prompt_on_the_command_line_is_played_at_once() {
    let mut agent = Agent::start(&["--pace", "0", "list files"]);
    agent.expect("⏺ ");
    agent.expect("Bash");
    agent.expect("⎿  ");
    agent.expect("Cargo.toml");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn permission_is_asked_until_it_is_given_for_good() {
    let mut agent = Agent::start(&["--pace", "0"]);
    agent.expect("133;B");
    agent.send("remove it\r");
    agent.expect("\x1b]9;Fake Agent needs your permission\x07");
    agent.expect("Bash command");
    agent.expect("rm -rf target");
    agent.expect("❯ 1. Yes");
    agent.expect("2. Yes, and don't ask again for Bash");
    agent.expect("3. No, and tell Fake Agent what to do differently (esc)");
    agent.send("\x1b[B");
    agent.expect("❯ 2. Yes");
    agent.send("\x1b[A");
    agent.expect("❯ 1. Yes");
    agent.send("\r");
    agent.expect("(no output)");
    agent.expect("133;D;0");

    agent.send("remove it\r");
    agent.expect("❯ 1. Yes");
    agent.send("3");
    agent.expect("Interrupted by user");
    agent.expect("133;D;130");

    agent.send("remove it\r");
    agent.expect("❯ 1. Yes");
    agent.send("2");
    agent.expect("133;D;0");

    agent.send("remove it\r");
    agent.expect("133;C");
    let before = agent.at;
    agent.expect("133;D;0");
    let turn = String::from_utf8_lossy(&agent.seen[before..agent.at]).into_owned();
    assert!(!turn.contains("1. Yes"), "{turn:?}");
    agent.quit();
}

#[test]
fn a_plan_can_be_refused_by_escape_and_taken_by_number() {
    let mut agent = Agent::start(&["--pace", "0"]);
    agent.expect("133;B");
    agent.send("make a plan\r");
    agent.expect("Ready to code?");
    agent.expect("2. Fix the parser");
    agent.expect("❯ 1. Yes, and auto-accept edits");
    agent.expect("3. No, keep planning (esc)");
    agent.send("\x1b");
    agent.expect("133;D;130");
    agent.send("make a plan\r");
    agent.expect("❯ 1. Yes");
    agent.send("2");
    agent.expect("Updated src/parser.rs");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn escape_interrupts_and_the_elapsed_time_runs() {
    let (mut agent, _dir) = Agent::with_script(SLOW, &[]);
    agent.expect("133;B");
    agent.send("slow\r");
    agent.expect("Brooding… ");
    agent.expect("(1s · esc to interrupt)");
    agent.send("\x1b");
    agent.expect("Interrupted by user");
    agent.expect("133;D;130");
    agent.send("next\r");
    agent.expect("hello next");
    agent.expect("133;D;0");
    assert!(!agent.quit().contains("never"));
}

#[test]
fn prompts_sent_while_busy_wait_their_turn() {
    let (mut agent, _dir) = Agent::with_script(SLOW, &["--pace", "1"]);
    agent.expect("133;B");
    agent.send("slow\r");
    agent.expect("133;C");
    agent.send("second\r");
    agent.expect("queued: second");
    agent.send("\x1b");
    agent.expect("133;D;130");
    agent.expect("133;C");
    agent.expect("hello second");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn ctrl_c_asks_once_and_clears_the_box() {
    let mut agent = Agent::start(&[]);
    agent.expect("133;B");
    agent.send("draft");
    agent.expect("> draft");
    agent.send("\x03");
    agent.expect("Press Ctrl-C again to exit");
    agent.send("\x03");
    assert_eq!(agent.finish().0, 0);
}

#[test]
fn the_box_takes_several_lines_and_pastes() {
    let mut agent = Agent::start(&["--pace", "0"]);
    agent.expect("133;B");
    agent.send("one\x1b[13;2utwo");
    agent.expect("> one");
    agent.expect("two");
    agent.send("\x15\x1b[200~a\nb\nc\nd\ne\x1b[201~");
    agent.expect("[Pasted text #1 +4 lines]");
    agent.send("\r");
    agent.expect("133;C");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn an_enter_too_soon_after_a_paste_is_lost_in_the_slow_variant() {
    let mut agent = Agent::start(&["--slow-paste=400", "--pace", "0"]);
    agent.expect("133;B");
    for paste in ["\x1b[200~hello\x1b[201~\r", "a long line that nobody types by hand\r"] {
        agent.send(paste);
        agent.settle(Duration::from_millis(600));
        assert!(!agent.rest().contains("133;C"), "{:?}", agent.rest());
        agent.send("\r");
        agent.expect("133;C");
        agent.expect("133;D;0");
    }
    agent.quit();
}

#[test]
fn without_the_variant_the_same_enter_submits() {
    let mut agent = Agent::start(&["--pace", "0"]);
    agent.expect("133;B");
    agent.send("\x1b[200~hello\x1b[201~\r");
    agent.expect("133;C");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn a_change_of_size_repaints_everything() {
    for variant in [&[][..], &["--alternate-screen"][..]] {
        let mut agent = Agent::start(variant);
        agent.expect(&format!("╭{}╮", "─".repeat(78)));
        agent.expect("133;B");
        tcsetwinsize(&agent.master, size(40, 12)).unwrap();
        agent.expect("\x1b[2J");
        agent.expect(&format!("╭{}╮", "─".repeat(38)));
        // Too small for the box is no reason to fall over.
        tcsetwinsize(&agent.master, size(3, 2)).unwrap();
        agent.expect("\x1b[2J");
        tcsetwinsize(&agent.master, size(80, 24)).unwrap();
        agent.expect("Welcome to Fake Agent!");
        agent.quit();
    }
}

#[test]
fn the_alternate_screen_is_left_again() {
    let mut agent = Agent::start(&["--alternate-screen", "--pace", "0"]);
    agent.expect("\x1b[?1049h");
    agent.expect("133;B");
    agent.send("hello\r");
    agent.expect("You said: ");
    agent.expect("133;D;0");
    agent.quit();
}

#[test]
fn kitty_keys_work_and_the_mode_is_taken_back() {
    let mut agent = Agent::start(&["--kitty"]);
    agent.expect("\x1b[>1u");
    agent.expect("133;B");
    agent.send("x\x1b[27u\x1b[99;5u\x1b[99;5u");
    let (code, all) = agent.finish();
    assert_eq!(code, 0);
    assert!(all.contains("\x1b[<u"));
}

#[test]
fn a_script_ends_with_its_code() {
    let script = "otherwise\n raw \\e[31mred\\e[m\\r\\n\n title T\n notify N\n bell\n exit 3\n";
    let (agent, _dir) = Agent::with_script(script, &["go"]);
    let (code, all) = agent.finish();
    assert_eq!(code, 3);
    for part in ["\x1b[31mred\x1b[m\r\n", "\x1b]0;⠂ T\x07", "\x1b]9;N\x07"] {
        assert!(all.contains(part), "{part:?} in {all:?}");
    }
}

#[test]
fn sigterm_and_a_lost_terminal_end_it() {
    let mut agent = Agent::start(&[]);
    agent.expect("133;B");
    kill_process(Pid::from_child(&agent.child), Signal::TERM).unwrap();
    assert_eq!(agent.finish().0, 143);
}

#[test]
fn a_wrong_script_is_named_by_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.agent");
    std::fs::write(&path, "on x\n thnik 5\n").unwrap();
    let out = output(&["--script", path.to_str().unwrap()], "");
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(out.stderr).unwrap(),
        format!(
            "fake-agent: {}:2: unknown directive \"thnik\" (did you mean \"think\"?)\n",
            path.display()
        )
    );
    let out = output(&["--script", Path::new("/nowhere/x.agent").to_str().unwrap()], "");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8(out.stderr).unwrap().contains("cannot read script /nowhere/x.agent"));
}

#[test]
fn wrong_options_and_no_terminal_are_refused() {
    let check = |args: &[&str], message: &str| {
        let out = output(args, "");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert_eq!(String::from_utf8(out.stderr).unwrap(), format!("fake-agent: {message}\n"));
    };
    check(
        &[],
        "standard input and output must be a terminal (for pipes there is --no-tty, plain lines)",
    );
    check(&["--scrpt"], r#"unknown option "--scrpt" (did you mean "--script"?)"#);
    check(&["--flood"], "option --flood needs a value");
    check(&["--flood", "x"], r#"option --flood cannot be "x": a whole number is wanted"#);
    check(&["--pace", "-1"], r#"option --pace cannot be "-1": a factor 0 to 1000 is wanted"#);
    check(&["a", "b"], r#"only one prompt is taken, but "b" is a second one"#);
}

#[test]
fn plain_lines_without_a_terminal() {
    let out = output(&["--no-tty"], "remove it\n3\nremove it\n2\nremove it\nlist files\n");
    assert_eq!(out.status.code(), Some(0));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    assert_eq!(text.matches("1. Yes").count(), 2, "{text}");
    assert_eq!(text.matches("Interrupted").count(), 1);
    assert_eq!(text.matches("(no output)").count(), 2);
    assert!(text.ends_with("⏺ There are three entries; src/ holds the code.\n"), "{text}");
    let out = output(&["--no-tty", "crash now"], "");
    assert_eq!(out.status.code(), Some(70));
}

#[test]
fn numbered_lines() {
    let out = output(&["--flood", "5000"], "");
    assert_eq!(out.status.code(), Some(0));
    let text = String::from_utf8(out.stdout).unwrap();
    let numbers: Vec<u64> =
        text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1..=5000).collect::<Vec<u64>>());
}

#[test]
fn endless_lines_end_with_their_reader() {
    let mut child = Command::new(BINARY).arg("--numbered").stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = vec![0; 200_000];
    std::io::Read::read_exact(&mut stdout, &mut first).unwrap();
    assert!(first.starts_with(b"0000000001 the quick"));
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_built_in_script_can_be_printed_and_read_again() {
    let printed = String::from_utf8(output(&["--print-script"], "").stdout).unwrap();
    let (mut agent, _dir) = Agent::with_script(&printed, &["--pace", "0", "wide"]);
    agent.expect("世界 こんにちは");
    agent.expect("133;D;0");
    agent.quit();
}
