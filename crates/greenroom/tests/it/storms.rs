//! The daemon is killed again and again, at any moment of any chain: while sessions are prepared, run, end and are cleaned
//! up after, and while the next daemon finishes what was open. Afterwards nothing is left of what is gone, and all work
//! is still there. A series: `make soak` kills more often.
#![expect(clippy::print_stderr, reason = "how hard it was belongs to the output")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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
    random: u64,
    confined: bool,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        // Not below `/tmp`: a sandbox has one of its own there.
        let dir = tempfile::Builder::new().prefix("gr-storm-").tempdir_in("/var/tmp").unwrap();
        let storm = Storm { home: Home::new(), dir, random: seed | 1, confined: false };
        std::fs::create_dir(storm.repo()).unwrap();
        std::fs::write(storm.repo().join("a"), "a\n").unwrap();
        storm.git(&["init", "-qb", "main"]);
        storm.git(&["add", "a"]);
        storm.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"]);
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
        let mut command = Command::new("git");
        command.args(args).current_dir(self.repo()).env_clear().env("HOME", self.dir.path());
        let output = command.env("PATH", "/usr/local/bin:/usr/bin:/bin").output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Below `most`.
    fn any(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    fn keeper(&self) -> String {
        let lock = std::fs::read_to_string(self.home.path().join("run/greenroom.lock")).unwrap();
        lock.trim().to_owned()
    }

    fn children_of_the_keeper(&self) -> Vec<i32> {
        let keeper = self.keeper();
        let path = format!("/proc/{keeper}/task/{keeper}/children");
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// The one that runs now, however young; none if it is just being replaced.
    fn daemon(&self) -> Option<i32> {
        self.children_of_the_keeper().into_iter().find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"daemon")
        })
    }

    /// Waits a random time, and kills whichever daemon there is.
    fn blow(&mut self, within: Duration) {
        let micros = self.any(u64::try_from(within.as_micros()).unwrap());
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
        let does = does[usize::try_from(self.any(4)).unwrap()];
        let when = self.any(4);
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
        if self.any(3) == 0 {
            // The one that cleans up for it is killed, too.
            self.blow(Duration::from_millis(80));
        }
        if self.any(4) == 0 {
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
        let deadline = Instant::now() + Duration::from_secs(30);
        while !names(&chains).is_empty() {
            let left =
                names(&chains).into_iter().map(|name| std::fs::read_to_string(chains.join(name)));
            let late = Instant::now() > deadline;
            assert!(!late, "left: {:?}", left.collect::<Vec<_>>());
            std::thread::park_timeout(Duration::from_millis(10));
        }
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
        assert_eq!(self.children_of_the_keeper().len(), 1, "only the daemon");
        let at_work = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| {
                cwd.starts_with(self.dir.path())
                    || cwd.starts_with(self.home.path().join("state/worktrees"))
            })
        });
        let at_work: Vec<_> = at_work.map(|entry| entry.file_name()).collect();
        assert!(at_work.is_empty(), "{at_work:?}");
    }

    fn open_files(&self) -> (usize, usize) {
        let count = |pid: &str| names(Path::new(&format!("/proc/{pid}/fd"))).len();
        (count(&self.keeper()), count(&self.home.daemon_pid().to_string()))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().display().to_string()).collect()
}

/// Of the host's state.
fn below(home: &Path, dir: &str) -> Vec<String> {
    names(&home.join("state").join(dir))
}

#[test]
fn storm_of_kills_leaves_nothing_and_loses_nothing() {
    let series = test_series::series("kills of the daemon in chains", 12, 100);
    let mut storm = Storm::new(series.seed);
    let before = storm.open_files();
    for number in 1..=series.cases {
        storm.round(number);
    }
    storm.settle();
    storm.check();
    // Terminals, listeners of proxies, keepsakes of sessions: nothing stays open but a few of the daemon's own.
    let after = storm.open_files();
    assert!(after.0 <= before.0 + 1 && after.1 <= before.1 + 6, "{before:?} {after:?}");
}
