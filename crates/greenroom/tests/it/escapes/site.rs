//! Where the attempts are made: a home with a host in it, directories to keep safe, and somebody
//! worth attacking.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use test_kit::place::{self, example};
pub use test_kit::user::User;

use crate::support::{Home, Said, link_or_copy};

/// Inside, processes count from 1. A victim above that is nobody's namesake in there.
const PIDS_INSIDE: u32 = 2000;

/// `work` to write in, `out` to keep safe, `home`, and `state`, the host's own. Not below `/tmp`:
/// inside there is another.
pub struct Site {
    pub home: Home,
    pub user: User,
    victim: Child,
    /// Its end is the victim's.
    ask: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
    /// What attempts name in braces.
    pub names: Vec<(&'static str, String)>,
    in_tmp: PathBuf,
}

impl Site {
    pub fn new(user: User) -> Site {
        let dir = place::public();
        user.owns(dir.path());
        let in_tmp = std::env::temp_dir().join(dir.path().file_name().unwrap());
        let home = Home::of(user.uid(), dir, "state");
        furnish(&home, user, &in_tmp);
        let (mut victim, line) = victim(&home, user);
        let ask = victim.0.stdin.take();
        let keys = ["pid", "tcp", "tcp6", "udp", "abstract", "terminal", "key", "queue", "address"];
        let mut names: Vec<_> =
            keys.into_iter().zip(line.split_whitespace().map(str::to_owned)).collect();
        assert_eq!(names[0].1, victim.0.id().to_string(), "a victim said {line:?}");
        for name in ["out", "home", "state", "suid"] {
            names.push((name, home.around().join(name).display().to_string()));
        }
        names.push(("in_tmp", in_tmp.display().to_string()));
        names.push(("disk", test_kit::disk::node()));
        Site { home, user, victim: victim.0, ask, hear: victim.1, names, in_tmp }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.around().join(name)
    }

    pub fn prisoner(&self) -> PathBuf {
        self.path("bin/prisoner")
    }

    /// The attempt of this row, told what to attack. Each has a directory of its own to write in.
    pub fn filled(&self, work: &str, attempt: &[&str]) -> String {
        let fill = |arg: &&str| {
            let arg = arg.replace("{work}", work);
            self.names
                .iter()
                .fold(arg, |arg, (name, value)| arg.replace(&format!("{{{name}}}"), value))
        };
        attempt.iter().map(fill).collect::<Vec<_>>().join(" ")
    }

    /// The binary, in a directory of this site.
    pub fn command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.current_dir(dir).env("HOME", self.path("home"));
        command
    }

    /// As `greenroom`, by somebody who forgot to close a file (77) and a directory (78).
    pub fn careless(&self, dir: &Path, args: &[&str]) -> Said {
        let plain = self.command(dir, args);
        let script = "exec 77>>\"$1\" 78<\"$2\"; shift 2; exec \"$@\"";
        let mut bash = self.user.command("bash");
        bash.args(["-c", script, "bash"]).arg(self.path("out/file")).arg(self.path("out"));
        bash.arg(plain.get_program()).args(plain.get_args());
        bash.env_clear().current_dir(dir).stdin(Stdio::null());
        for (name, value) in plain.get_envs() {
            bash.env(name, value.unwrap());
        }
        Said::of(bash.env("VICTIMS_SECRET", "a secret").output().unwrap())
    }

    #[track_caller]
    pub fn ok(&self, dir: &Path, args: &[&str]) -> String {
        let said = Said::of(self.command(dir, args).output().unwrap());
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end().to_owned()
    }

    /// A file of the user's.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
        self.user.owns(&self.path(name));
    }

    /// What would differ if an attempt had an effect.
    pub fn state(&mut self) -> String {
        let mut state = String::new();
        for dir in ["out", "out/dir", "home", "home/.ssh"] {
            let entries = std::fs::read_dir(self.path(dir)).unwrap();
            let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            state.extend(entries.iter().map(|path| describe(path)));
        }
        state.push_str(&describe(&self.in_tmp));
        // Until everything that came before has been written down.
        self.ask.as_mut().unwrap().write_all(b"?").unwrap();
        self.hear.read_line(&mut String::new()).unwrap();
        state.push_str(&std::fs::read_to_string(self.path("touched")).unwrap_or_default());
        let pids = self.names.iter().filter(|(name, _)| ["pid", "keeper", "daemon"].contains(name));
        for (name, pid) in pids {
            state.push_str(&format!("{name} {}\n", process(pid)));
        }
        state
    }
}

/// What others can do to a process: kill it, limit it, slow it down, trace it.
fn process(pid: &str) -> String {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = read("status");
    let lines =
        status.lines().filter(|it| it.starts_with("TracerPid") || it.starts_with("Cpus_allowed:"));
    let stat = read("stat");
    let nice = stat.rsplit(") ").next().unwrap_or_default().split(' ').nth(16).unwrap_or("gone");
    format!("{nice}\n{}{}{}", read("limits"), read("oom_score_adj"), lines.collect::<String>())
}

fn furnish(home: &Home, user: User, in_tmp: &Path) {
    let path = |name: &str| home.around().join(name);
    let built = example("prisoner");
    link_or_copy(&built, &path("bin/prisoner"));
    // A victim's door, as if it were one of the host's.
    for name in ["work", "out", "out/empty", "out/dir", "home", "home/.ssh"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("home/.ssh/id"), "a key").unwrap();
    std::fs::write(path("home/.bashrc"), "# mine\n").unwrap();
    std::fs::write(path("home/.gitconfig"), "[user]\nname = x\nemail = x@example.org\n").unwrap();
    std::fs::write(path("out/file"), "untouched").unwrap();
    std::fs::write(path("state/token"), "a token").unwrap();
    std::fs::write(in_tmp, "untouched").unwrap();
    user.owns(in_tmp);
    let made = Command::new("mkfifo").arg(path("out/pipe")).status().unwrap();
    assert!(made.success());
    if user == User::Ordinary && rustix::process::geteuid().is_root() {
        // Root's, that becomes its owner when it is run.
        std::fs::copy(&built, path("suid")).unwrap();
        place::set_mode(&path("suid"), 0o4755);
    }
    for name in ["work", "out", "home", "state"] {
        user.owns(&path(name));
    }
}

type Victim = (Child, BufReader<ChildStdout>);

/// Somebody of the same user, and what it says of itself.
fn victim(home: &Home, user: User) -> (Victim, String) {
    loop {
        let mut command = user.command(home.around().join("bin/prisoner"));
        command.arg("victim").arg(home.around()).env("VICTIMS_SECRET", "a secret");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut hear = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        hear.read_line(&mut line).unwrap();
        if child.id() > PIDS_INSIDE {
            return ((child, hear), line);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        for name in ["out/public.sock", "out/datagram.sock", "state/door.sock"] {
            std::fs::remove_file(home.around().join(name)).unwrap();
        }
    }
}

fn describe(path: &Path) -> String {
    let meta = path.symlink_metadata().unwrap();
    let text = if meta.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
    let (mode, links) = (meta.mode(), meta.nlink());
    let text = String::from_utf8_lossy(&text).into_owned();
    format!("{} {mode:o} {} {} {links} {text}\n", path.display(), meta.uid(), meta.mtime())
}

impl Drop for Site {
    fn drop(&mut self) {
        // By itself, so that it takes its shared memory along.
        drop(self.ask.take());
        let _ = self.victim.wait();
        let _ = std::fs::remove_file(&self.in_tmp);
    }
}
