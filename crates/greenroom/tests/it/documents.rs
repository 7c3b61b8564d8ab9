//! Every shell block of README.md and docs/, as a reader would type it: an ordinary user, a home of
//! their own, a plain environment.
//!
//! The blocks of a page are one conversation: one shell, in order, in a directory `project` that is
//! a git repository with one commit. What a line may say about itself is in CONTRIBUTING.md:
//! `not run: WHY`, `until Ctrl-C`. Lines that use a terminal get one. A page may prepare what a
//! reader would have: a comment `<!-- sh … -->` is run and not shown.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use test_kit::user::give;
use test_kit::{place, process, run};

use crate::support::{BIN, link_or_copy};

/// Who reads the pages, where the tests are run by root. Limits on processes count all of a user's:
/// this is not the ordinary user of the other tests.
const READER: u32 = 61_234;

/// No line of a page takes a tenth of it, also on a busy machine.
const LINE_LIMIT: Duration = Duration::from_secs(60);

/// A line that never ends by itself is ended after this.
const FOREVER: &str = "2";

/// Before the first line of each page. Where a terminal is needed there is one, and Ctrl-b d is
/// typed until it detaches.
const PRELUDE: &str = r#"
exec 3>&1 >"$LOG" 2>&1
on_terminal() {
  { while sleep 0.2; do printf '\002d' || exit 0; done; } | script -qefc "$(printf '%q ' "$@")" /dev/null
  return "${PIPESTATUS[1]}"
}
greenroom() {
  echo "$*" >> "$typed"
  case "$1 $*" in
    attach*|new*' --attach'*|new*' -A'*) on_terminal "$(command -v greenroom)" "$@" ;;
    *) command greenroom "$@" ;;
  esac
}
git config --global user.name Reader && git config --global user.email reader@example.org
git init -q -b main && git commit -q --allow-empty -m 'first commit'
"#;

/// A command of a page.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// To the reader.
    shown: bool,
}

#[test]
fn every_line_of_every_page_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages = vec![root.join("README.md")];
    collect(&root.join("docs"), &mut pages);
    // Somebody who works on one page: GREENROOM_PAGE=rest.
    if let Ok(word) = std::env::var("GREENROOM_PAGE") {
        pages.retain(|page| page.to_str().unwrap().contains(&word));
    }
    let dir = place::public();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let bin = dir.path().join("bin/greenroom");
    link_or_copy(Path::new(BIN), &bin);
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        let run = |(at, page): (usize, &PathBuf)| {
            let name = page.strip_prefix(&root).unwrap().display().to_string();
            let lines = commands_of(&fs::read_to_string(page).unwrap(), &name);
            let home = dir.path().join(at.to_string());
            (!lines.is_empty()).then(|| scope.spawn(move || read_aloud(&name, &lines, &home)))
        };
        let threads: Vec<_> = pages.iter().enumerate().filter_map(run).collect();
        for thread in threads {
            failures.extend(thread.join().unwrap());
        }
    });
    end_all(&bin);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn collect(dir: &Path, pages: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|end| end == "md") {
            pages.push(path);
        }
    }
}

/// The commands of a page in order: those of its blocks, and of the comments that prepare them.
fn commands_of(page: &str, name: &str) -> Vec<Line> {
    let (mut lines, mut open, mut block, mut shown) = (Vec::new(), None, Vec::new(), true);
    for (at, line) in page.lines().enumerate() {
        let bare = line.trim_start();
        match open {
            None if bare.starts_with("```") || bare == "<!-- sh" => {
                let language = bare.trim_start_matches(['`', '<', '!', '-', ' ']);
                assert!(
                    !["bash", "shell", "console", "zsh"].contains(&language),
                    "{name}:{}: say `sh`, so that it is run",
                    at + 1
                );
                shown = bare.starts_with('`');
                let end = if shown { "```" } else { "-->" };
                open = Some((end, language == "sh", line.len() - bare.len()));
            }
            Some((end, shell, _)) if bare.starts_with(end) => {
                if shell {
                    lines.extend(commands(&std::mem::take(&mut block)));
                }
                open = None;
            }
            Some((_, true, indent)) => {
                let text = line.get(indent..).unwrap_or(bare);
                block.push(Line { number: at + 1, text: text.to_owned(), shown });
            }
            _ => {}
        }
    }
    assert!(open.is_none(), "{name}: a block does not end");
    lines
}

/// Puts the lines of a block together into commands: until the shell says that one is complete.
fn commands(block: &[Line]) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut begun: Option<Line> = None;
    for line in block {
        let whole = match begun.take() {
            Some(mut begun) => {
                begun.text = format!("{}\n{}", begun.text, line.text);
                begun
            }
            None if line.text.trim().is_empty() || line.text.trim_start().starts_with('#') => {
                // A remark of its own says it of all that follows.
                if line.text.contains("not run:") {
                    return found;
                }
                continue;
            }
            None => line.clone(),
        };
        let checked = Command::new("bash").args(["-n", "-c", &whole.text]).output().unwrap();
        let goes_on = whole.text.ends_with('\\');
        if checked.status.success() && checked.stderr.is_empty() && !goes_on {
            found.push(whole);
        } else {
            begun = Some(whole);
        }
    }
    found.extend(begun);
    found
}

/// Types a page's commands, and tells which did not do what they should.
fn read_aloud(name: &str, lines: &[Line], home: &Path) -> Vec<String> {
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    let (script, log) = (home.join(".page"), home.join(".log"));
    fs::write(&script, script_of(lines)).unwrap();
    fs::write(&log, "").unwrap();
    let mut bash = run::plain("bash", home);
    let bin = home.parent().unwrap().join("bin");
    bash.arg(&script).current_dir(&project);
    bash.env("PATH", format!("{}:{}", bin.display(), run::PATH));
    bash.env("TERM", "xterm").env("SHELL", "/bin/bash").env("LOG", &log);
    if rustix::process::geteuid().is_root() {
        give(home, READER);
        bash.uid(READER).gid(READER);
    }
    let mut child = bash.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let said = child.stdout.take().unwrap();
    let (tell, hear) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let (mut failures, mut at, mut done) = (Vec::new(), 0, false);
    let failed = |at: usize, how: &str| {
        let line = lines.iter().find(|line| line.number == at);
        let text = line.map_or("", |line| line.text.as_str());
        format!("{name}:{at}: {how}\n  {}\n{}", text.replace('\n', "\n  "), tail(&log, at))
    };
    while !done {
        match hear.recv_timeout(LINE_LIMIT) {
            Ok(word) => match word.split_once(' ') {
                Some(("at", number)) => at = number.parse().unwrap(),
                Some(("failed", status)) => {
                    failures.push(failed(at, &format!("exit code {status}")));
                }
                _ => done = true,
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                failures.push(failed(at, &format!("no end within {LINE_LIMIT:?}")));
                break;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                failures.push(failed(at, "the shell ended here"));
                break;
            }
        }
    }
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait().unwrap();
    failures.extend(count_the_day(name, lines, home));
    failures
}

/// What the shell runs: each command, its number before and its failure after.
fn script_of(lines: &[Line]) -> String {
    let mut script = String::from(PRELUDE);
    for Line { number, text, shown } in lines {
        let comment = text.lines().last().and_then(|line| line.split_once(" #")).map(|(_, c)| c);
        if comment.is_some_and(|comment| comment.contains("not run:")) {
            continue;
        }
        script.push_str(&format!("echo 'at {number}' >&3; echo '@@ {number}'\n"));
        // What prepares a page is not typed by anybody.
        script.push_str(if *shown { "typed=~/.typed\n" } else { "typed=/dev/null\n" });
        if comment.is_some_and(|comment| comment.contains("until Ctrl-C")) {
            let command = text.split(" #").next().unwrap_or(text);
            script.push_str(&format!("timeout -s INT {FOREVER} {command}\nstatus=$?\n"));
            script.push_str("[ $status = 124 ] && status=0\n");
        } else {
            script.push_str(&format!("{{ {text}\n}} 3>&-\nstatus=$?\n"));
        }
        script.push_str("[ $status = 0 ] || echo \"failed $status\" >&3\n");
    }
    script.push_str("cd ~ && command greenroom shutdown --no-start\necho done >&3\n");
    script
}

/// What was printed at a line.
fn tail(log: &Path, at: usize) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let part = text.split(&format!("@@ {at}\n")).nth(1).unwrap_or_default();
    let part = part.split("@@ ").next().unwrap_or_default();
    part.lines().take(12).map(|line| format!("    | {line}\n")).collect()
}

/// Ends what runs our copy of the binary; nobody else has it.
fn end_all(bin: &Path) {
    let ours = |pid: &i32| {
        let exe = process::link(*pid, "exe").unwrap_or_default();
        exe.to_str().unwrap_or_default().trim_end_matches(" (deleted)") == bin.to_str().unwrap()
    };
    for pid in process::all().into_iter().filter(ours).filter_map(Pid::from_raw) {
        if !process::gone_within(pid, Duration::from_secs(10)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The day with twenty agents is short: each turn of a loop counts, and so does what is not ours.
fn count_the_day(name: &str, lines: &[Line], home: &Path) -> Option<String> {
    if !name.contains("twenty-agents") {
        return None;
    }
    let shown = lines.iter().filter(|line| line.shown);
    let others = shown.filter(|line| !line.text.contains("greenroom")).count();
    let typed = fs::read_to_string(home.join(".typed")).unwrap_or_default();
    let count = typed.lines().count() + others;
    (!(20..=30).contains(&count)).then(|| format!("{name}: {count} commands\n{typed}"))
}

/// A test that cannot fail proves nothing: lines that fail, hang up or end the shell are told, each
/// with its place.
#[test]
fn a_false_line_is_told() {
    let dir = place::public();
    let page = "```sh\ntrue\n! true\nx=1; test \"$x\" = 2\nsleep 60 # until Ctrl-C\nfalse # until Ctrl-C\nexit 3\n```\n";
    let told = read_aloud("page", &commands_of(page, "page"), &dir.path().join("0"));
    let places: Vec<&str> = told.iter().map(|one| one.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["page:3", "page:4", "page:6", "page:7"], "{told:?}");
}

#[test]
fn commands_are_put_together_and_remarks_are_heard() {
    let page = "a\n```sh\none\ncat <<'X'\n# not a remark\nX\ntwo \\\n  three # not run: never\n# a remark\nfour\n# not run: from here\nfive\n```\n<!-- sh\nsix\n-->\n- x\n\n  ```sh\n  seven\n  ```\n```json\n{}\n```\n";
    let lines = commands_of(page, "page");
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let here = "cat <<'X'\n# not a remark\nX";
    assert_eq!(texts, ["one", here, "two \\\n  three # not run: never", "four", "six", "seven"]);
    assert_eq!(lines[1].number, 4);
    let script = script_of(&lines);
    assert!(!script.contains("three") && script.contains("seven"), "{script}");
}
