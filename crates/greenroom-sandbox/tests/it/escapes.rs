//! The escape suite. Each row is tried twice: free, where it must succeed, or it would prove
//! nothing; and caged, where it must have no effect. What cannot be tried here is said, and is no
//! pass.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use greenroom_sandbox::policy::Level;

use crate::cage::{Caged, User, World, plan, readable};
use crate::rows::{ROWS, Row, Want, Who};

/// A world with somebody in it worth attacking.
struct Scene {
    world: World,
    victim: Child,
    /// Its end is the victim's.
    ask: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
    /// What rows name in braces.
    names: Vec<(&'static str, String)>,
    /// In the machine's `/tmp`.
    in_tmp: std::path::PathBuf,
}

impl Scene {
    fn new(user: User, row: &Row) -> Scene {
        let world = World::new(user);
        world.write("home/.gitconfig", "[user]\n");
        std::fs::create_dir(world.path("out/empty")).unwrap();
        std::fs::create_dir(world.path("out/dir")).unwrap();
        std::fs::hard_link(world.path("out/file"), world.path("work/linked")).unwrap();
        let pipe = std::ffi::CString::new(world.path("out/pipe").to_str().unwrap()).unwrap();
        // SAFETY: reads a string that lives here.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let in_tmp = std::env::temp_dir().join(world.path("").file_name().unwrap());
        std::fs::write(&in_tmp, "untouched").unwrap();
        user.owns(&in_tmp);
        if row.id == "fs.suid_run" && user.uid() != rustix::process::geteuid().as_raw() {
            // Somebody else's, that becomes its owner when it is run.
            let suid = world.path("suid");
            std::fs::copy(world.escapee(), &suid).unwrap();
            test_kit::place::set_mode(&suid, 0o4755);
        }
        world.own();
        let mut victim = user
            .command(world.escapee())
            .arg("victim")
            .arg(world.path(""))
            .env("VICTIMS_SECRET", "a secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = victim.stdin.take();
        let mut hear = BufReader::new(victim.stdout.take().unwrap());
        let mut line = String::new();
        hear.read_line(&mut line).unwrap();
        let keys = ["pid", "tcp", "tcp6", "udp", "abstract", "terminal", "key", "queue", "address"];
        let mut names: Vec<_> =
            keys.into_iter().zip(line.split_whitespace().map(str::to_owned)).collect();
        // What the controls are done to, unconfined: nobody but the victim itself.
        let its_own = ("pid", victim.id().to_string());
        assert!(victim.id() > 1 && names.first() == Some(&its_own), "a victim said {line:?}");
        for name in ["work", "out", "home", "state", "suid"] {
            names.push((name, world.path(name).display().to_string()));
        }
        names.push(("in_tmp", in_tmp.display().to_string()));
        names.push(("disk", test_kit::disk::node()));
        Scene { world, victim, ask, hear, names, in_tmp }
    }

    fn argv(&self, row: &Row) -> Vec<String> {
        let fill = |arg: &&str| {
            self.names.iter().fold((*arg).to_owned(), |arg, (name, value)| {
                arg.replace(&format!("{{{name}}}"), value)
            })
        };
        let program = self.world.escapee().display().to_string();
        [program, "try".to_owned()].into_iter().chain(row.attempt.iter().map(fill)).collect()
    }

    /// What would differ if an attempt had an effect.
    fn state(&mut self) -> String {
        let mut state = String::new();
        for dir in ["out", "out/dir", "home", "home/.ssh", "state"] {
            let entries = std::fs::read_dir(self.world.path(dir)).unwrap();
            let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            for path in entries {
                state.push_str(&describe(&path));
            }
        }
        state.push_str(&describe(&self.in_tmp));
        // Until everything that came before has been written down.
        if self.ask.as_mut().is_some_and(|ask| ask.write_all(b"?").is_ok()) {
            let mut line = String::new();
            let _ = self.hear.read_line(&mut line);
        }
        state.push_str(&std::fs::read_to_string(self.world.path("touched")).unwrap_or_default());
        let proc = format!("/proc/{}", self.victim.id());
        for file in ["limits", "oom_score_adj"] {
            state.push_str(&std::fs::read_to_string(format!("{proc}/{file}")).unwrap_or_default());
        }
        let status = std::fs::read_to_string(format!("{proc}/status")).unwrap_or_default();
        let lines = status
            .lines()
            .filter(|it| it.starts_with("TracerPid") || it.starts_with("Cpus_allowed:"));
        state.extend(lines);
        // Nice value; gone if it was killed.
        let stat = std::fs::read_to_string(format!("{proc}/stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        state.push_str(fields.clone().nth(16).unwrap_or("gone"));
        state
    }
}

fn describe(path: &std::path::Path) -> String {
    let meta = path.symlink_metadata().unwrap();
    let text = if meta.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
    let (mode, links) = (meta.mode(), meta.nlink());
    format!(
        "{} {mode:o} {} {} {links} {}\n",
        path.display(),
        meta.uid(),
        meta.mtime(),
        String::from_utf8_lossy(&text)
    )
}

impl Drop for Scene {
    fn drop(&mut self) {
        // By itself, so that it takes its shared memory along; by force if an attempt has stopped
        // it.
        drop(self.ask.take());
        let mut rest = String::new();
        let fd = self.hear.get_ref().as_fd();
        if !readable(fd, Duration::from_secs(5)) || self.hear.read_line(&mut rest).is_err() {
            let _ = self.victim.kill();
        }
        let _ = self.victim.wait();
        let key = self.names.iter().find(|(name, _)| *name == "key");
        if let Some(key) = key.and_then(|(_, key)| key.parse::<i32>().ok()) {
            // SAFETY: names a segment by number; there is no memory of ours.
            unsafe { libc::shmctl(libc::shmget(key, 0, 0), libc::IPC_RMID, std::ptr::null_mut()) };
        }
        let _ = std::fs::remove_file(&self.in_tmp);
    }
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Went {
    said: String,
    /// It said so, or something changed.
    escaped: bool,
}

fn judge(row: &Row, said: String, changed: bool) -> Went {
    let done = said.contains("DONE");
    let escaped = match row.by_effect {
        true => changed,
        false => done || changed,
    };
    Went { said, escaped }
}

fn free(row: &Row, user: User) -> Went {
    let mut scene = Scene::new(user, row);
    let before = scene.state();
    let argv = scene.argv(row);
    let mut command = user.command(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
    inherit(&mut command, &scene.world);
    let terminal = row.on_terminal.then(|| on_terminal(&mut command));
    let output = command.output().unwrap();
    drop(terminal);
    let said = format!("{}{:?}", String::from_utf8_lossy(&output.stdout), output.status.signal());
    let changed = scene.state() != before;
    judge(row, said, changed)
}

fn caged(row: &Row, user: User, level: Level) -> Went {
    let mut scene = Scene::new(user, row);
    let before = scene.state();
    let argv = scene.argv(row);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut command = user.command(scene.world.escapee());
    inherit(&mut command, &scene.world);
    let plan = plan(&scene.world, &scene.world.policy(level));
    let outcome = Caged::start_with(&scene.world, &plan, &argv, command).end();
    assert!(outcome.fault.is_none(), "{}: {outcome:?}", row.id);
    let changed = scene.state() != before;
    judge(row, format!("{} {:?}", outcome.text.trim(), outcome.signal), changed)
}

/// Fds that somebody forgot to close: a file as 77, a directory as 78.
fn inherit(command: &mut Command, world: &World) {
    let file = std::fs::OpenOptions::new().write(true).open(world.path("out/file")).unwrap();
    let dir = std::fs::File::open(world.path("out")).unwrap();
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::dup2(file.as_raw_fd(), 77);
            libc::dup2(dir.as_raw_fd(), 78);
            Ok(())
        });
    }
}

/// stdin is a terminal that controls the process.
fn on_terminal(command: &mut Command) -> std::os::fd::OwnedFd {
    let (master, slave) = test_kit::terminal::open(80, 24);
    command.stdin(slave);
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    master
}

fn suite(user: User, level: Level) {
    let (mut failed, mut proven, mut not_run) = (Vec::new(), 0, Vec::new());
    for row in ROWS {
        let want = match level {
            Level::Full => row.full,
            Level::Reduced | Level::Bare => row.reduced,
        };
        if row.who == Who::Root && user != User::Root
            || row.who == Who::Ordinary && user == User::Root
        {
            continue;
        }
        let control = free(row, user);
        if !control.escaped {
            // Even so it must not work inside.
            not_run.push(format!("{} (free: {})", row.id, control.said.trim()));
        }
        let went = caged(row, user, level);
        match want {
            Want::Denied if went.escaped => {
                failed.push(format!("{} GOT OUT: {}", row.id, went.said))
            }
            Want::Killed if went.escaped || !went.said.contains("Some(31)") => {
                failed.push(format!("{} was not killed: {}", row.id, went.said));
            }
            // Pinned, so that closing a gap shows up here and in the documents.
            Want::Gap if control.escaped && !went.escaped => {
                failed.push(format!("{} is a documented gap, but was held: {}", row.id, went.said));
            }
            _ if control.escaped => proven += 1,
            _ => {}
        }
    }
    for row in &not_run {
        eprintln!("NOT RUN: {row}: does not work outside either, so it proves nothing");
    }
    eprintln!("{level} as {user:?}: {proven} proven, {} inconclusive", not_run.len());
    assert!(failed.is_empty(), "{level} as {user:?}:\n{}", failed.join("\n"));
    assert!(proven > ROWS.len() / 2, "{proven} rows prove something; inconclusive: {not_run:#?}");
}

#[test]
fn nothing_gets_out_of_full_as_an_ordinary_user() {
    suite(User::Ordinary, Level::Full);
}

#[test]
fn nothing_gets_out_of_full_as_root() {
    if User::all().contains(&User::Root) {
        suite(User::Root, Level::Full);
    }
}

#[test]
fn reduced_holds_what_it_says_it_holds() {
    suite(User::Ordinary, Level::Reduced);
}
