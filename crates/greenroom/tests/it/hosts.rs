//! One state directory, one host: whatever the environment, the login and the files on the way do.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_kit::{git, place, process};

use crate::support::{BIN, Said, eventually, gone_within};

/// A user with a home, as several logins, a cron job and a link see it.
struct User {
    dir: tempfile::TempDir,
}

/// How the user comes.
#[derive(Clone, Copy, Debug)]
enum From {
    /// `su -`, cron: no runtime directory.
    Bare,
    /// A login with a runtime directory of its own.
    Login(u8),
    /// `HOME` is a link.
    Link,
    /// The state directory is named, and not in its shortest form.
    Named,
}

const WAYS: [From; 5] = [From::Bare, From::Login(1), From::Login(2), From::Link, From::Named];

impl User {
    fn new() -> User {
        let dir = place::private();
        std::fs::create_dir(dir.path().join("home")).unwrap();
        symlink(dir.path().join("home"), dir.path().join("link")).unwrap();
        let user = User { dir };
        user.log_in(1);
        user.log_in(2);
        user
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn state(&self) -> PathBuf {
        self.path("home/.local/state/greenroom")
    }

    fn socket(&self) -> PathBuf {
        self.state().join("run/greenroom.sock")
    }

    fn runtime(&self, login: u8) -> PathBuf {
        self.path(&format!("login{login}"))
    }

    fn log_in(&self, login: u8) {
        let dir = self.runtime(login);
        std::fs::create_dir_all(&dir).unwrap();
        place::set_mode(&dir, 0o700);
    }

    fn command(&self, from: From, args: &[&str]) -> Command {
        let mut command = test_kit::run::plain(BIN, &self.path("home"));
        command.args(args).current_dir(self.dir.path());
        match from {
            From::Bare => {}
            From::Login(login) => drop(command.env("XDG_RUNTIME_DIR", self.runtime(login))),
            From::Link => drop(command.env("HOME", self.path("link"))),
            From::Named => {
                command.env("XDG_STATE_HOME", self.path("link/.local/../.local/state/"));
            }
        }
        command
    }

    fn run(&self, from: From, args: &[&str]) -> Said {
        Said::of(self.command(from, args).output().unwrap())
    }

    #[track_caller]
    fn ok(&self, from: From, args: &[&str]) -> String {
        let said = self.run(from, args);
        assert_eq!(said.code, 0, "{from:?} {args:?}: {said:?}");
        said.out
    }

    #[track_caller]
    fn json(&self, from: From, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(from, args)).unwrap()
    }

    fn daemon(&self) -> i32 {
        let doctor = self.run(From::Bare, &["doctor", "--json"]).out;
        let word = doctor.split("pid ").nth(1).and_then(|rest| rest.split(',').next());
        word.unwrap_or_else(|| panic!("{doctor}")).parse().unwrap()
    }

    /// Every keeper that has something of this user in its environment.
    fn keepers(&self) -> Vec<i32> {
        let mark = self.dir.path().to_str().unwrap().as_bytes().to_vec();
        let ours = |pid: &i32| {
            process::about(*pid, "environ").windows(mark.len()).any(|part| part == mark)
        };
        process::with_argument("keeper").into_iter().filter(ours).collect()
    }

    /// The one keeper; others may be on their way out.
    fn keeper(&self) -> i32 {
        eventually("one keeper", || match self.keepers()[..] {
            [one] => Some(one),
            _ => None,
        })
    }
}

impl Drop for User {
    fn drop(&mut self) {
        for keeper in self.keepers() {
            let Some(pid) = Pid::from_raw(keeper) else { continue };
            // Twice: at once, without grace.
            let _ = kill_process(pid, Signal::CONT);
            let _ = kill_process(pid, Signal::TERM);
            let _ = kill_process(pid, Signal::TERM);
            if !gone_within(pid, Duration::from_secs(10)) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A session with a worktree in a repository, and a plain one that has printed something.
struct Work {
    worktree: PathBuf,
    repo: PathBuf,
    pids: [Value; 2],
}

impl Work {
    fn start(user: &User, from: From) -> Work {
        let repo = user.path("repo");
        git::repository(&repo);
        let args =
            ["new", "--name", "wt", "--worktree=w1", "--cwd", repo.to_str().unwrap(), "--", "cat"];
        user.ok(from, &args);
        user.ok(from, &["new", "--name", "talk", "--", "sh", "-c", "echo said-once; cat"]);
        user.ok(from, &["wait", "talk", "--until", "text=said-once", "--timeout", "30s"]);
        let info = |name: &str| user.json(from, &["info", name, "--json"]);
        let worktree = PathBuf::from(info("wt")["cwd"].as_str().unwrap());
        assert!(worktree.join(".git").exists(), "{}", worktree.display());
        Work { worktree, repo, pids: ["wt", "talk"].map(|name| info(name)["pid"].clone()) }
    }

    #[track_caller]
    fn is_whole(&self, user: &User, from: From) {
        for (name, pid) in ["wt", "talk"].into_iter().zip(&self.pids) {
            let info = user.json(from, &["info", name, "--json"]);
            assert_eq!((&info["state"], &info["pid"]), (&"running".into(), pid), "{from:?} {name}");
        }
        assert!(self.worktree.join(".git").exists(), "{from:?}: the live worktree is gone");
        let branches = git::git(&self.repo, &["branch", "-a"]);
        assert!(branches.contains("w1"), "{from:?}: the branch is gone: {branches}");
        let said = user.ok(from, &["read", "talk", "--since", "0"]);
        assert!(said.contains("said-once"), "{from:?}: the recording is gone: {said}");
    }
}

#[test]
fn every_environment_of_a_user_finds_the_same_host() {
    let user = User::new();
    let work = Work::start(&user, From::Login(1));
    for from in WAYS {
        work.is_whole(&user, from);
        user.ok(from, &["rm", "--ended"]);
    }
    work.is_whole(&user, From::Login(1));
    assert_eq!(user.keepers().len(), 1);
    // Also for whoever knows only the runtime directory, of a login that began after the host.
    for login in [1, 2] {
        let alias = user.runtime(login).join("greenroom/greenroom.sock");
        let seen = user.command(From::Bare, &["ls"]).env("GREENROOM_SOCKET", &alias).output();
        assert!(String::from_utf8_lossy(&seen.unwrap().stdout).contains("talk"));
    }
}

#[test]
fn a_runtime_directory_that_is_taken_away_is_led_to_again() {
    let user = User::new();
    let work = Work::start(&user, From::Login(1));
    let alias = user.runtime(1).join("greenroom/greenroom.sock");
    assert!(alias.exists());
    std::fs::remove_dir_all(user.runtime(1)).unwrap();
    // By the host itself: nobody calls.
    eventually("the way from the login", || alias.exists().then_some(()));
    std::fs::remove_file(&alias).unwrap();
    eventually("the way from the login", || alias.exists().then_some(()));
    work.is_whole(&user, From::Login(1));
    assert_eq!(user.keepers().len(), 1);
}

#[test]
fn a_vanished_socket_is_made_again() {
    let user = User::new();
    let work = Work::start(&user, From::Bare);
    let keeper = user.keeper();
    std::fs::remove_file(user.socket()).unwrap();
    work.is_whole(&user, From::Bare);
    std::fs::remove_dir_all(user.state().join("run")).unwrap();
    work.is_whole(&user, From::Login(2));
    std::fs::remove_file(user.socket()).unwrap();
    std::fs::write(user.socket(), "a plain file").unwrap();
    work.is_whole(&user, From::Link);
    assert_eq!(user.keeper(), keeper);
    let aside = user.state().join("run/greenroom.sock.aside");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "a plain file");
}

#[test]
fn lost_locks_and_notes_do_not_make_room_for_a_second_host() {
    let user = User::new();
    let work = Work::start(&user, From::Login(1));
    let keeper = user.keeper();
    // Nobody can make the socket again meanwhile.
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::STOP).unwrap();
    for file in ["run/greenroom.lock", "run/greenroom.sock", "keepers"] {
        std::fs::remove_file(user.state().join(file)).unwrap();
    }
    let said = user.run(From::Bare, &["ls"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains("holds") && said.err.contains("nobody listens"), "{said:?}");
    assert_eq!(user.keeper(), keeper);
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::CONT).unwrap();
    work.is_whole(&user, From::Bare);
    assert_eq!(user.keeper(), keeper);
}

#[test]
fn a_copy_of_the_state_is_not_cleaned_while_the_host_lives() {
    let user = User::new();
    let work = Work::start(&user, From::Bare);
    let copy = user.path("copy");
    std::fs::create_dir(&copy).unwrap();
    let copied = Command::new("cp").arg("-a").arg(user.state()).arg(&copy).output().unwrap();
    assert!(copied.status.success() || copy.join("greenroom/keepers").exists(), "{copied:?}");
    std::fs::remove_dir_all(copy.join("greenroom/run")).unwrap();
    let said = user.command(From::Bare, &["ls"]).env("XDG_STATE_HOME", &copy).output().unwrap();
    let said = Said::of(said);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains(&format!("pid {}", user.keeper())), "{said:?}");
    work.is_whole(&user, From::Bare);
}

#[test]
fn what_a_dead_host_left_is_taken_over() {
    let user = User::new();
    user.ok(From::Bare, &["new", "--name", "gone", "--", "cat"]);
    let keeper = Pid::from_raw(user.keeper()).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    assert!(gone_within(keeper, Duration::from_secs(10)));
    assert!(user.ok(From::Login(1), &["ls", "--json"]).contains("\"gone\""));
    // A pid of another boot and one that was given to somebody else are nobody.
    assert_ne!(user.keeper(), keeper.as_raw_nonzero().get());
}

#[test]
fn homes_that_are_not_ours_are_refused_with_a_sentence() {
    let user = User::new();
    let refused = |command: &mut Command, why: &str| {
        let said = Said::of(command.output().unwrap());
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(why) && said.err.contains("hint: "), "{said:?}");
    };
    for args in [&["ls"][..], &["info", "x"], &["mcp"], &["kill", "x"], &["serve"]] {
        refused(user.command(From::Bare, args).env("GREENROOM_HOME", "rel"), "relative");
    }
    assert!(!user.path("rel").exists());
    let theirs = user.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("config.toml"), "[worktree]\nsetup = \"touch /tmp/never\"\n")
        .unwrap();
    place::set_mode(&theirs, 0o777);
    refused(user.command(From::Bare, &["ls"]).env("GREENROOM_HOME", &theirs), "others may write");
    if rustix::process::geteuid().is_root() {
        place::set_mode(&theirs, 0o755);
        std::os::unix::fs::chown(&theirs, Some(4711), Some(4711)).unwrap();
        let why = "belongs to user 4711";
        refused(user.command(From::Bare, &["ls"]).env("GREENROOM_HOME", &theirs), why);
        refused(user.command(From::Bare, &["ls"]).env("HOME", &theirs), why);
        assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 1, "nothing was made there");
    }
    assert_eq!(user.keepers(), [0; 0]);
}

/// A stranger with a socket where the host's should be learns nothing.
#[test]
fn nothing_is_sent_to_somebody_elses_socket() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let user = User::new();
    let trap = user.path("trap");
    std::fs::create_dir(&trap).unwrap();
    std::os::unix::fs::chown(&trap, Some(4711), Some(4711)).unwrap();
    place::set_mode(user.dir.path(), 0o755);
    let socket = trap.join("greenroom.sock");
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(8)\nprint('up',flush=True)\n\
                  while True:\n c,_=s.accept()\n print('got',len(c.recv(65536)),flush=True)";
    let mut fake = Command::new("setpriv");
    fake.args(["--reuid", "4711", "--regid", "4711", "--clear-groups", "python3", "-c", script]);
    let mut fake =
        fake.arg(&socket).env("PATH", "/usr/bin:/bin").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(fake.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let verbs: [&[&str]; 5] =
        [&["new", "--", "true"], &["ls"], &["events"], &["mcp"], &["serve", "--stdio", "--shared"]];
    for args in verbs {
        let output = user.command(From::Bare, args).env("GREENROOM_SOCKET", &socket).output();
        let said = Said::of(output.unwrap());
        assert_ne!(said.code, 0, "{args:?}: {said:?}");
        assert!(said.err.contains("belongs to user 4711"), "{args:?}: {said:?}");
        assert_eq!(lines.next().unwrap().unwrap(), "got 0", "{args:?}");
    }
    fake.kill().unwrap();
    fake.wait().unwrap();
}

#[test]
fn a_runtime_directory_of_somebody_else_changes_nothing() {
    let user = User::new();
    let runtime = user.runtime(1).join("greenroom");
    std::fs::create_dir(&runtime).unwrap();
    let other = UnixListener::bind(runtime.join("greenroom.sock")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&runtime, Some(4711), Some(4711)).unwrap();
    }
    drop(other);
    let work = Work::start(&user, From::Login(1));
    work.is_whole(&user, From::Bare);
    assert_eq!(user.keepers().len(), 1);
}

/// Logins come and go, files vanish, daemons die, several clients call at once: in any order the
/// sessions go on.
#[test]
fn soak_orders_of_logins_and_losses_leave_one_host() {
    let series = test_kit::series::series("orders of logins and losses", 2, 50);
    let remove = |path: &Path| {
        let _ = std::fs::remove_dir_all(path);
        let _ = std::fs::remove_file(path);
    };
    for case in 0..series.cases {
        let mut dice = series.dice(case);
        let user = User::new();
        let work = Work::start(&user, *dice.pick(&WAYS));
        for _ in 0..6 {
            match dice.below(8) {
                0 => remove(&user.runtime(1)),
                1 => remove(&user.runtime(2).join("greenroom")),
                2 => user.log_in(1),
                3 => remove(&user.socket()),
                4 => remove(&user.state().join("run")),
                5 => remove(&user.state().join("keepers")),
                6 => drop(kill_process(Pid::from_raw(user.daemon()).unwrap(), Signal::KILL)),
                _ => {
                    let start = |from: &From| user.command(*from, &["rm", "--ended"]).spawn();
                    let clients: Vec<_> = WAYS[..3].iter().map(start).collect();
                    clients.into_iter().for_each(|client| drop(client.unwrap().wait()));
                }
            }
            user.ok(*dice.pick(&WAYS), &["ls"]);
        }
        for from in [From::Bare, From::Login(1), From::Login(2)] {
            work.is_whole(&user, from);
        }
        assert_eq!(user.keepers().len(), 1, "case {case}");
    }
}
