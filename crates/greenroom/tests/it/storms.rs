//! The daemon is killed again and again, at any moment of any chain: while sessions are prepared,
//! run, end and are cleaned up after, and while the next daemon finishes what was open. Afterwards
//! nothing is left of what is gone, and all work is still there. A series: `make soak` kills more
//! often.
#![expect(clippy::print_stderr, reason = "how hard it was belongs to the output")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_kit::process;
use test_kit::series::Dice;

use crate::support::{Home, eventually};

/// What a session does, and leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Commits,
    Writes,
    Stays,
}

impl Does {
    /// Its last word is in the shared directory: then the work is done, and must be found.
    fn script(self, number: u64) -> String {
        match self {
            Does::Nothing => "true".to_owned(),
            Does::Commits => format!(
                "echo {number} > made; git add made; git -c user.name=t -c user.email=t@example.org commit -qm work-{number} \
                 2>/dev/null; echo commits > scratchpad/done-{number}"
            ),
            Does::Writes => {
                format!("echo {number} > made; echo writes > scratchpad/done-{number}")
            }
            Does::Stays => "exec cat".to_owned(),
        }
    }
}

struct Storm {
    home: Home,
    dir: tempfile::TempDir,
    dice: Dice,
    confined: bool,
}

impl Storm {
    fn new(dice: Dice) -> Storm {
        let dir = test_kit::place::public();
        let storm = Storm { home: Home::new(), dir, dice, confined: false };
        test_kit::git::repository(&storm.repo());
        let found = storm.home.json(&["sandbox", "doctor", "--json"]);
        let confined = found["full"] == true;
        if !confined {
            eprintln!("NOT RUN with a sandbox: {found}");
        }
        Storm { confined, ..storm }
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn git(&self, args: &[&str]) -> String {
        test_kit::git::git(&self.repo(), args)
    }

    fn keeper(&self) -> i32 {
        let lock = std::fs::read_to_string(self.home.path().join("run/greenroom.lock")).unwrap();
        lock.trim().parse().unwrap()
    }

    /// The one that runs now, however young; none if it is just being replaced.
    fn daemon(&self) -> Option<i32> {
        let daemon = |pid: &i32| process::arguments(*pid).get(1).is_some_and(|it| it == "daemon");
        process::children(self.keeper()).into_iter().find(daemon)
    }

    /// Waits a random time, and kills whichever daemon there is.
    fn blow(&mut self, within: Duration) {
        let micros = self.dice.below(u64::try_from(within.as_micros()).unwrap());
        let at = Instant::now() + Duration::from_micros(micros);
        while let Some(left) = at.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(left);
        }
        if let Some(daemon) = self.daemon() {
            let _ = kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL);
        }
    }

    fn begin(&self, number: u64, does: Does) -> Child {
        let slug = format!("w{number}");
        let mut args = vec!["new", "--worktree", &slug, "--scratchpad=team", "--env", "K=value-of"];
        args.extend(["--timeout", "300"]);
        if self.confined {
            args.extend(["--sandbox", "--allow-host", "api.example.com"]);
        }
        let script = does.script(number);
        args.extend(["--", "sh", "-c", &script]);
        self.spawn(&args)
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.home.command(args);
        command.current_dir(self.repo()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// One session, and a blow at some moment of its life.
    fn round(&mut self, number: u64) {
        let does = [Does::Nothing, Does::Commits, Does::Writes, Does::Stays];
        let does = *self.dice.pick(&does);
        let when = self.dice.below(4);
        let started = self.begin(number, does);
        if when == 0 {
            self.blow(Duration::from_millis(120));
        }
        let said = started.wait_with_output().unwrap();
        let id = String::from_utf8(said.stdout).unwrap().trim().to_owned();
        if when == 1 {
            self.blow(Duration::from_millis(30));
        }
        if !id.is_empty() && when >= 2 {
            let ending = match does {
                Does::Stays => self.spawn(&["kill", &id, "--grace", "100ms"]),
                _ => self.spawn(&["rm", &id]),
            };
            self.blow(Duration::from_millis(100));
            drop(ending.wait_with_output().unwrap());
        }
        if self.dice.below(3) == 0 {
            // The one that cleans up for it is killed, too.
            self.blow(Duration::from_millis(80));
        }
        if self.dice.below(4) == 0 {
            let cleaning = self.spawn(&["worktree", "clean"]);
            self.blow(Duration::from_millis(60));
            drop(cleaning.wait_with_output().unwrap());
        }
    }

    /// Ends what runs, and waits for all clean-ups.
    fn settle(&self) {
        eventually("a daemon answers", || (self.home.run(&["ls"]).code == 0).then_some(()));
        let sessions = self.home.json(&["ls", "--json"]);
        for session in sessions["sessions"].as_array().unwrap() {
            let id = session["id"].as_str().unwrap();
            drop(self.home.run(&["kill", id, "--grace", "100ms"]));
            let said = self.home.run(&["rm", id]);
            assert_eq!(said.code, 0, "{said:?}");
        }
        let chains = self.home.path().join("state/chains");
        eventually("all is cleaned up", || names(&chains).is_empty().then_some(()));
    }

    fn check(&self) {
        let done = self.home.path().join("state/scratchpads/team");
        let done: BTreeSet<String> =
            names(&done).into_iter().filter(|name| name.starts_with("done-")).collect();
        let listed = self.home.json(&["worktree", "ls", "--json"]);
        let kept: Vec<&Value> = listed["worktrees"].as_array().unwrap().iter().collect();
        for name in &done {
            let number = name.strip_prefix("done-").unwrap();
            let tree = kept.iter().find(|tree| tree["slug"] == format!("w{number}").as_str());
            let tree = tree.unwrap_or_else(|| panic!("the work of {number} is lost: {listed}"));
            let file = Path::new(tree["path"].as_str().unwrap()).join("made");
            assert_eq!(std::fs::read_to_string(file).unwrap(), format!("{number}\n"));
            if std::fs::read_to_string(self.home.path().join("state/scratchpads/team").join(name))
                .unwrap()
                == "commits\n"
            {
                let log = self.git(&["log", "--format=%s", tree["branch"].as_str().unwrap()]);
                assert!(log.contains(&format!("work-{number}")), "{log}");
            }
        }
        eprintln!("{} sessions finished their work, {} worktrees are kept", done.len(), kept.len());
        for tree in &kept {
            assert_eq!(tree["live"], false, "{tree}");
            assert!(!tree["why"].as_array().unwrap().is_empty(), "kept for nothing: {tree}");
        }
        let branches = self.git(&["branch", "--list", "greenroom/*", "--format=%(refname:short)"]);
        assert_eq!(branches.lines().count(), kept.len(), "{branches}\n{listed}");
        let trees = self.git(&["worktree", "list", "--porcelain"]);
        assert_eq!(trees.matches("worktree ").count(), 1 + kept.len(), "{trees}\n{listed}");
        for dir in ["tmp", "excludes", "chains"] {
            assert_eq!(below(self.home.path(), dir), Vec::<String>::new(), "{dir}");
        }
        let leases: Vec<String> = below(self.home.path(), "ports")
            .into_iter()
            .filter(|name| name.ends_with(".json"))
            .collect();
        assert_eq!(leases, Vec::<String>::new());
        let pads = below(self.home.path(), "scratchpads");
        assert!(pads.iter().all(|name| name == "team" || name == ".uses"), "{pads:?}");
        let uses = names(&self.home.path().join("state/scratchpads/.uses"));
        assert!(uses.is_empty(), "{uses:?}");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.home.path().to_str().unwrap()), "{mounts}");
        assert_eq!(process::children(self.keeper()).len(), 1, "only the daemon");
        for dir in [self.dir.path(), &self.home.path().join("state/worktrees")] {
            assert_eq!(process::working_below(dir), [] as [i32; 0], "{}", dir.display());
        }
    }

    fn open_files(&self) -> (usize, usize) {
        (process::open_files(self.keeper()), process::open_files(self.home.daemon_pid()))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().display().to_string()).collect()
}

/// The names below a directory of the host's state.
fn below(home: &Path, dir: &str) -> Vec<String> {
    names(&home.join("state").join(dir))
}

#[test]
fn storm_of_kills_leaves_nothing_and_loses_nothing() {
    let series = test_kit::series::series("kills of the daemon in chains", 12, 100);
    let mut storm = Storm::new(series.dice(0));
    let before = storm.open_files();
    for number in 1..=series.cases {
        storm.round(number);
    }
    storm.settle();
    storm.check();
    // Terminals, listeners of proxies, keepsakes of sessions: nothing stays open but a few of the
    // daemon's own.
    let after = storm.open_files();
    assert!(after.0 <= before.0 + 1 && after.1 <= before.1 + 6, "{before:?} {after:?}");
}
