//! The interactive terminal. The outer terminal is a session of another host: its screen can be
//! read, and its modes asked for. One test has tmux there instead, to have a second opinion.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{BIN, Home, eventually};

/// A shell on a terminal of an outer host, from which the inner host is used.
pub struct Outer {
    pub home: Home,
    pub shell: String,
}

impl Outer {
    pub fn new(inner: &Home) -> Outer {
        let home = Home::new();
        let inner_home = format!("GREENROOM_HOME={}", inner.path().display());
        let shell = home.ok(&[
            "new",
            "--size",
            "100x30",
            "--env",
            &inner_home,
            "--env",
            "PS1=outer> ",
            "--",
            // A session knows the socket of its own host; this shell is to use the inner one.
            "env",
            "-u",
            "GREENROOM_SOCKET",
            "sh",
            "-i",
        ]);
        home.wait_text(&shell, "outer>\\s*$");
        Outer { home, shell }
    }

    /// Types a command line into the outer shell.
    pub fn type_line(&self, line: &str) {
        self.home.ok(&["send", &self.shell, line, "--enter"]);
    }

    /// Types bytes as the user's keyboard would send them.
    pub fn type_bytes(&self, text: &str) {
        self.home.ok(&["send", &self.shell, text]);
    }

    pub fn sees(&self, pattern: &str) {
        self.home.wait_text(&self.shell, pattern);
    }

    pub fn screen(&self) -> String {
        self.home.screen(&self.shell)
    }

    /// The modes of the outer terminal.
    pub fn modes(&self) -> Value {
        self.home.call("session.snapshot", json!({"session": self.shell, "format": "text"}))
    }

    pub fn detach(&self) {
        self.type_bytes("\x02d");
        self.sees("\\[detached from s\\d+\\]\\s+outer>\\s*$");
    }

    #[track_caller]
    pub fn is_clean(&self) {
        let modes = self.modes();
        for mode in ["alternate_screen", "application_cursor", "application_keypad"] {
            assert_eq!(modes[mode], false, "{mode}: {modes}");
        }
        for mode in ["mouse", "bracketed_paste"] {
            assert_ne!(modes[mode], true, "{mode}: {modes}");
        }
        assert_eq!(modes["cursor"]["visible"], true, "{modes}");
        // The terminal's own settings are back: the shell edits a line and reports a command.
        self.type_line("stty -a | grep -c ' icanon.* echo '");
        self.sees("\\n1\\s+outer>\\s*$");
    }
}

fn two() -> (Home, Outer) {
    let inner = Home::new();
    let outer = Outer::new(&inner);
    (inner, outer)
}

#[test]
fn typing_detaching_and_coming_back() {
    let (inner, outer) = two();
    inner.ok(&["new", "--name", "job", "--env", "PS1=inner> ", "--", "sh", "-i"]);
    outer.type_line("echo before; greenroom attach job");
    outer.sees("^inner>");
    outer.type_line("echo $((20+22)); stty size");
    outer.sees("42\\n30 100\\ninner>\\s*$");
    outer.detach();
    outer.is_clean();
    // What was on the screen before went up into the scrollback, not away.
    let all = outer.home.call(
        "session.snapshot",
        json!({
        "session": outer.shell, "format": "text", "scrollback": {"from": 0, "count": 200}}),
    );
    assert!(all["scrollback"]["lines"].to_string().contains("before"), "{all}");
    outer.type_line("greenroom attach job");
    outer.sees("42\\n30 100\\ninner>\\s*$");
    outer.type_line("exit 7");
    outer.sees("\\[s1 exited: status 7\\]\\s+outer>\\s*$");
    outer.is_clean();
}

#[test]
fn the_prefix_twice_reaches_the_program() {
    let (inner, outer) = two();
    inner.ok(&["new", "--", "sh", "-c", "stty raw -echo; echo go; od -An -tx1 -N3 -v; read x"]);
    outer.type_line("greenroom attach s1");
    outer.sees("go");
    outer.type_bytes("\x02\x02ab");
    outer.sees("02 61 62");
    outer.detach();
}

#[test]
fn another_prefix_by_flag_and_by_configuration() {
    let (inner, outer) = two();
    std::fs::write(inner.path().join("config.toml"), "[attach]\nprefix = \"ctrl-a\"\n").unwrap();
    inner.shell("echo here; cat");
    outer.type_line("greenroom attach s1");
    outer.sees("here");
    outer.type_bytes("\x01d");
    outer.sees("\\[detached from s1\\]");
    outer.type_line("clear; greenroom attach s1 --prefix ctrl-g");
    outer.sees("^here");
    outer.type_bytes("\x07q");
    outer.sees("\\[detached from s1\\]");
}

#[test]
fn every_mode_is_taken_back_on_detach() {
    let (inner, outer) = two();
    let modes = "\\033[?1049h\\033[?1h\\033=\\033[?1000h\\033[?1006h\\033[?1004h\\033[?2004h\\033[?25l\\033[5;10r\\033[4 q\\033[>5u\\033[>4;2m\\033(0\\033[31;4mon\\033]2;mine\\007";
    inner.shell(&format!("printf '{modes}'; echo; read x"));
    outer.type_line("greenroom attach s1");
    eventually("the modes are on", || {
        let modes = outer.modes();
        (modes["alternate_screen"] == true
            && modes["mouse"] == true
            && modes["bracketed_paste"] == true)
            .then_some(())
    });
    let before = outer.modes()["sequence"].as_u64().unwrap();
    // With the kitty protocol on, this is how the outer terminal would send the prefix.
    outer.type_bytes("\x1b[98;5ud");
    outer.sees("\\[detached from s1\\]");
    outer.is_clean();
    let since = before.to_string();
    let bytes = outer.home.ok(&["read", &outer.shell, "--since", &since, "--ansi"]);
    for reset in [
        "\x1b[?1000l",
        "\x1b[?1004l",
        "\x1b[?1006l",
        "\x1b[?2004l",
        "\x1b[<64u",
        "\x1b[>4m",
        "\x1b[?1l",
        "\x1b>",
        "\x1b[0m",
        "\x1b[0 q",
        "\x1b[?25h",
        "\x1b[r",
        "\x1b(B",
        "\x1b[?1049l",
        "\x1b[23;0t",
    ] {
        assert!(
            bytes.contains(reset),
            "{} is missing: {}",
            reset.escape_debug(),
            bytes.escape_debug()
        );
    }
}

#[test]
fn a_signal_leaves_a_clean_terminal_and_the_session() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let (inner, outer) = two();
        inner.shell("printf '\\033[?1049h\\033[?1000hfull'; read x");
        outer.type_line("sh -c 'echo $$ > pid; exec greenroom attach s1'; echo status $?");
        outer.sees("full");
        let pid: i32 =
            std::fs::read_to_string(outer.home.path().join("pid")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        outer.sees(&format!("status {status}\\s+outer>\\s*$"));
        outer.is_clean();
        assert!(inner.ok(&["ls"]).contains("running"));
    }
}

#[test]
fn read_only_types_nothing() {
    let (inner, outer) = two();
    inner.shell("echo watch; cat");
    outer.type_line("greenroom attach s1 --read-only");
    outer.sees("watch");
    outer.type_bytes("hello\r");
    inner.ok(&["send", "s1", "from elsewhere", "--enter"]);
    outer.sees("from elsewhere");
    assert!(!inner.screen("s1").contains("hello"), "{}", inner.screen("s1"));
    outer.type_bytes("\x03");
    outer.sees("\\[detached from s1\\]");
}

#[test]
fn answers_of_the_outer_terminal_are_not_typed() {
    let (inner, outer) = two();
    // The program asks everything and shows every byte it gets: the host's answers, once each.
    let ask = "printf '\\033[c\\033[>c\\033[6n\\033[?2026$p\\033[>q\\033]11;?\\007'";
    inner.shell(&format!("echo start; read x; stty raw -echo; {ask}; cat -v"));
    outer.type_line("greenroom attach s1");
    outer.sees("start");
    outer.type_bytes("\r");
    outer.sees("rgb:");
    outer.type_bytes("typed");
    outer.sees("typed");
    let screen = inner.screen("s1");
    for answer in ["[?62", "[>0", "rgb:", "2026", "P>|", "typed"] {
        assert_eq!(screen.matches(answer).count(), 1, "{answer}: {screen:?}");
    }
    assert!(screen.trim_end().ends_with("typed"), "{screen:?}");
    outer.detach();
}

#[test]
fn the_daemon_dies_while_attached() {
    let (inner, outer) = two();
    inner.ok(&["new", "--env", "PS1=inner> ", "--", "sh", "-i"]);
    outer.type_line("greenroom attach s1");
    outer.sees("^inner>");
    for round in 0..5 {
        let pid = inner.daemon_pid();
        outer.type_line(&format!("echo before $(({round}+100))"));
        outer.sees(&format!("before {}", round + 100));
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        // The next daemon answers, so the old one is gone: keys that are in its socket when it dies
        // are lost, as documented; none typed from here on may be.
        assert_ne!(inner.daemon_pid(), pid);
        outer.type_line(&format!("echo after $(({round}+200))"));
        outer.sees(&format!("after {}\\s+inner>\\s*$", round + 200));
    }
    // Not garbled: the outer screen is the inner one.
    assert_eq!(outer.screen(), inner.screen("s1"));
    outer.detach();
    outer.is_clean();
}

#[test]
fn output_is_whole_across_a_dying_daemon() {
    let (inner, outer) = two();
    inner.shell("echo go; read x; exec greenroom fake-agent --flood 300000");
    outer.type_line("greenroom attach s1");
    outer.sees("go");
    let pid = Pid::from_raw(inner.daemon_pid()).unwrap();
    outer.type_bytes("\r");
    outer.sees("00000\\d+ the quick");
    kill_process(pid, Signal::KILL).unwrap();
    outer.sees("0000300000 the quick brown fox jumps over the lazy dog");
    outer.sees("outer>\\s*$");
    outer.is_clean();
}

#[test]
fn new_with_attach_and_json() {
    let (_inner, outer) = two();
    outer.type_line("greenroom new --attach --json -- sh -c 'echo inside; read x; exit 2'");
    outer.sees("inside");
    outer.type_bytes("\r");
    outer.sees("\"code\":2.*\\s+outer>\\s*$");
    let screen = outer.screen();
    let line = screen.lines().rev().find(|line| line.contains("\"end\"")).unwrap();
    let value: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!((value["end"].as_str(), value["exit"]["code"].as_i64()), (Some("exited"), Some(2)));
}

#[test]
fn attaching_to_an_ended_session_says_when_and_how() {
    let (inner, outer) = two();
    inner.shell("exit 1");
    inner.ok(&["wait", "s1", "--until", "exit"]);
    outer.type_line("greenroom attach s1; echo status $?");
    outer.sees("cannot attach to s1: it exited \\d+ m?s ago \\(status 1\\)");
    outer.sees("hint: read its last screen with greenroom read s1");
    outer.sees("status 6");
}

#[test]
fn a_session_does_not_attach_to_itself() {
    let home = Home::new();
    home.ok(&["new", "--", "sh", "-i"]);
    home.wait_text("s1", "ready>");
    home.ok(&["send", "s1", "greenroom attach s1", "--enter"]);
    home.wait_text("s1", "cannot attach to s1: this terminal is s1 itself");
}

#[test]
fn the_window_is_resized() {
    let (inner, outer) = two();
    inner.ok(&["new", "--env", "PS1=inner> ", "--", "sh", "-i"]);
    outer.type_line("greenroom attach s1");
    outer.sees("^inner>");
    outer.home.call("session.resize", json!({"session": outer.shell, "cols": 70, "rows": 20}));
    eventually("the session has the new size", || {
        (inner.json(&["info", "s1", "--json"])["size"]["cols"] == 70).then_some(())
    });
    outer.type_line("stty size");
    outer.sees("20 70\\s+inner>\\s*$");
    assert_eq!(outer.screen(), inner.screen("s1"));
    outer.detach();
}

/// tmux as the outer terminal.
struct Tmux {
    socket: String,
    home: Home,
}

impl Tmux {
    fn start(home: Home, command: &str) -> Tmux {
        let socket = home.path().join("tmux.sock").display().to_string();
        let tmux = Tmux { socket, home };
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "25", command]);
        tmux
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let bin_dir = std::path::Path::new(BIN).parent().unwrap().display().to_string();
        command.env_clear().env("PATH", format!("{bin_dir}:/usr/bin:/bin")).env("LANG", "C.UTF-8");
        command.env("GREENROOM_HOME", self.home.path()).env("PS1", "outer> ");
        let output =
            command.args(["-S", &self.socket]).args(args).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sees(&self, text: &str) {
        eventually(text, || self.run(&["capture-pane", "-p"]).contains(text).then_some(()));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn tmux_as_the_outer_terminal_agrees() {
    let home = Home::new();
    home.ok(&[
        "new",
        "--",
        "sh",
        "-c",
        "printf '\\033[?1049h\\033[?1003h\\033[?1h\\033=\\033[?25l\\033[31mfull screen'; read x",
    ]);
    let tmux = Tmux::start(home, "env PS1='outer> ' sh -i");
    tmux.sees("outer>");
    tmux.run(&["send-keys", "echo before; greenroom attach s1", "Enter"]);
    tmux.sees("full screen");
    let flags = "#{alternate_on}#{mouse_all_flag}#{keypad_cursor_flag}#{keypad_flag}#{cursor_flag}";
    assert_eq!(tmux.run(&["display", "-p", flags]).trim(), "11110");
    tmux.run(&["send-keys", "C-b", "d"]);
    tmux.sees("[detached from s1]");
    assert_eq!(tmux.run(&["display", "-p", flags]).trim(), "00001");
    let all = tmux.run(&["capture-pane", "-p", "-S", "-100"]);
    assert!(all.contains("echo before"), "the scrollback is gone: {all}");
}

#[test]
fn what_scrolled_away_is_in_the_terminals_own_scrollback() {
    let home = Home::new();
    // As large as the terminal: one picture.
    home.ok(&[
        "new",
        "--size",
        "90x25",
        "--",
        "sh",
        "-c",
        "seq -f 'line %g.' 1 300; read x; printf '\\033[?1049hfull'; read x",
    ]);
    home.wait_text("s1", "line 300\\.");
    let tmux = Tmux::start(home, "env PS1='outer> ' sh -i");
    tmux.sees("outer>");
    let attached = |flags: &str, sees: &str| {
        tmux.run(&["send-keys", &format!("clear; greenroom attach s1 {flags}"), "Enter"]);
        tmux.sees(sees);
        let all = tmux.run(&["capture-pane", "-p", "-S", "-2000"]);
        tmux.run(&["send-keys", "C-b", "d"]);
        tmux.sees("[detached from s1]");
        tmux.run(&["send-keys", "clear", "Enter"]);
        eventually("cleared", || {
            (!tmux.run(&["capture-pane", "-p"]).contains("detached")).then_some(())
        });
        tmux.run(&["clear-history"]);
        all.lines().filter(|line| line.starts_with("line ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let counted = |from: u32| (from..=300).map(|it| format!("line {it}.")).collect::<Vec<_>>();
    assert_eq!(attached("", "line 300."), counted(1), "each once, in order");
    let some = attached("--history 10", "line 300.");
    assert!((20..50).contains(&some.len()), "{some:?}");
    assert_eq!(some, counted(301 - u32::try_from(some.len()).unwrap()));
    let none = attached("--history 0", "line 300.");
    assert_eq!(some.len() - none.len(), 10);
    // The daemon's death is no second attach.
    tmux.run(&["send-keys", "greenroom attach s1", "Enter"]);
    tmux.sees("line 300.");
    let pid = tmux.home.ok(&["stats", "daemon_pid"]);
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    tmux.home.wait_text("s1", "line 300\\.");
    tmux.run(&["send-keys", "Enter"]);
    tmux.sees("full");
    tmux.run(&["send-keys", "C-b", "d"]);
    tmux.sees("[detached from s1]");
    let all = tmux.run(&["capture-pane", "-p", "-S", "-2000"]);
    assert_eq!(all.lines().filter(|line| *line == "line 5.").count(), 1, "{all}");
    tmux.run(&["send-keys", "clear", "Enter"]);
    tmux.run(&["clear-history"]);
    assert_eq!(attached("", "full"), [] as [String; 0], "none above an alternate screen");
}
