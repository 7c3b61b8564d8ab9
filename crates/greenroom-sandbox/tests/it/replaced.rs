//! What somebody outside replaces or makes while a session runs: `docker login`, `git config`, an
//! editor that saves.
//!
//! A mount on a file ends when the file is replaced from outside. So what is hidden is hidden by
//! name, and what is fixed is fixed again.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use greenroom_sandbox::policy::{GitRules, Level, Policy, Protected};

use crate::cage::{Caged, PATIENCE, User, World, readable};

impl World {
    /// As most programs save: a new file takes the old one's place.
    fn replace(&self, name: &str, text: &str) {
        let beside = self.path("out/new");
        std::fs::write(&beside, text).unwrap();
        std::os::unix::fs::chown(&beside, Some(self.user.uid()), None).unwrap();
        std::fs::rename(beside, self.path(name)).unwrap();
    }

    fn make(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        self.write(name, text);
        self.own();
    }
}

/// Runs `before`, then makes the change outside, then runs `after`. What both said.
pub fn sees(
    world: &World,
    policy: &Policy,
    [before, after]: [&str; 2],
    change: impl FnOnce(),
) -> [String; 2] {
    let script = format!("{before}; echo waiting; read go; {after}; echo end");
    let caged = Caged::start(world, policy, &["sh", "-c", &script]);
    let ready = caged.ready().unwrap();
    let mut terminal = std::fs::File::from(ready.master.try_clone().unwrap());
    let mut said = String::new();
    while !said.ends_with("waiting\r\n") {
        assert!(readable(terminal.as_fd(), PATIENCE), "{said}");
        let mut bytes = [0; 4096];
        let read = terminal.read(&mut bytes).unwrap();
        said.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    change();
    terminal.write_all(b"go\n").unwrap();
    let then = caged.end_after(ready.master);
    assert!(then.ok().ends_with("end"), "{then:?}");
    [said.replace('\r', ""), then.text]
}

const HIDDEN: [&str; 6] =
    [".netrc", ".npmrc", ".aws/key", ".config/gh/token", ".cargo/token", ".local/share/keys/k"];

fn hiding(world: &World, level: Level) -> Policy {
    let names = [".netrc", ".npmrc", ".aws", ".config/gh", ".cargo/token", ".local/share/keys"];
    let mut policy = world.policy(level);
    policy.hidden.extend(names.map(|name| world.path("home").join(name)));
    policy
}

#[test]
fn hidden_names_stay_hidden_whoever_makes_them() {
    let look = "for name in .netrc .npmrc .aws/key .config/gh/token .cargo/token .local/share/keys/k; \
                do cat ~/$name && echo SEEN $name; done";
    for user in User::all() {
        for level in [Level::Full, Level::Reduced] {
            if level == Level::Reduced && user == User::Root {
                continue;
            }
            let world = World::new(user);
            world.make("home/.netrc", "old secret");
            world.make("home/.cargo/token", "old secret");
            world.make("home/.config/other", "x");
            world.make("home/.local/bin/other", "x");
            let said = sees(&world, &hiding(&world, level), [look, look], || {
                for name in HIDDEN {
                    world.make(&format!("home/{name}"), "");
                    world.replace(&format!("home/{name}"), "new secret");
                }
            });
            let said = said.concat();
            assert!(!said.contains("secret") && !said.contains("SEEN"), "{level:?}: {said}");
        }
    }
}

/// Files where directories are expected, links that lead nowhere, directories that cannot be read,
/// sockets.
#[test]
fn a_home_may_be_untidy() {
    for user in User::all() {
        let world = World::new(user);
        world.make("home/.cargo", "a file");
        world.make("home/.config/x", "x");
        let config = world.path("home/.config");
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o000)).unwrap();
        std::os::unix::fs::symlink("/nowhere", world.path("home/dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(world.path("home/socket")).unwrap();
        let script = "cat ~/.cargo; echo; echo $(ls -A ~); readlink ~/dangling";
        let outcome = world.run(&hiding(&world, Level::Full), &["sh", "-c", script]);
        assert_eq!(outcome.ok(), "a file\n.bashrc .cargo .config dangling\n/nowhere");
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_home_with_too_many_entries_is_refused_by_name() {
    let world = World::new(User::Ordinary);
    for number in 0..4097 {
        std::fs::create_dir(world.path(&format!("home/{number}"))).unwrap();
    }
    let outcome = world.run(&hiding(&world, Level::Full), &["true"]);
    let fault = outcome.fault.unwrap().to_string();
    assert!(fault.contains("home, which has more than 4096 entries"), "{fault}");
}

/// The rest of a home is there: directories as they are at any time, files at least as they were.
#[test]
fn what_is_not_hidden_stays_readable() {
    let before = "cat ~/.bashrc ~/link";
    let after = "cat ~/.bashrc ~/live/a ~/link; echo $(ls -A ~); echo no > ~/.bashrc; \
                 touch ~/x; rm -f ~/live/a; mkdir ~/.ssh ~/.netrc";
    for user in User::all() {
        let world = World::new(user);
        world.make("home/live/a", "a1\n");
        std::os::unix::fs::symlink("live/a", world.path("home/link")).unwrap();
        let policy = hiding(&world, Level::Full);
        let [said, then] = sees(&world, &policy, [before, after], || {
            world.replace("home/.bashrc", "# new\n");
            world.replace("home/live/a", "a2\n");
        });
        assert_eq!(said, "# mine\na1\nwaiting\n");
        assert!(then.contains("# mine\na2\na2\n.bashrc link live\n"), "{then}");
        assert_eq!(then.matches("Read-only file system").count(), 5, "{then}");
        assert_eq!(world.read("home/.bashrc"), "# new\n");
    }
}

/// As `git config`, `git push -u` and most editors do.
#[test]
fn what_is_fixed_is_fixed_again() {
    let try_all = "for name in .git/config .mcp.json deep/er/file secret; do \
                   echo evil > $name && echo WROTE $name; done; cat secret";
    for user in User::all() {
        let world = World::new(user);
        for (name, text) in [
            ("work/.git/config", "[core]\n"),
            ("work/.mcp.json", "{}"),
            ("work/deep/er/file", "x"),
            ("work/secret", "hidden"),
        ] {
            world.make(name, text);
        }
        let policy = Policy {
            git: Some(GitRules::Checkout { git_dir: world.path("work/.git"), modules: vec![] }),
            protected: vec![
                Protected::existing(world.path("work/.mcp.json")),
                Protected::existing(world.path("work/deep/er/file")),
            ],
            hidden: vec![world.path("work/secret")],
            ..world.policy(Level::Full)
        };
        // Long enough for whoever puts the pins back; no session waits for that.
        let after = format!("sleep 0.3; {try_all}");
        let [said, then] = sees(&world, &policy, [try_all, &after], || {
            for round in 0..3 {
                world.replace("work/.git/config", &format!("[core]\n# {round}\n"));
                world.replace("work/.mcp.json", "{ }");
                world.replace("work/secret", "new hidden");
            }
            // Also taken away and made anew.
            std::fs::remove_file(world.path("work/deep/er/file")).unwrap();
            world.make("work/deep/er/file", "y");
        });
        for said in [&said, &then] {
            assert!(!said.contains("WROTE") && !said.contains("hidden"), "{said}");
            assert_eq!(said.matches("Read-only file system").count(), 4, "{said}");
        }
        assert_eq!(world.read("work/.git/config"), "[core]\n# 2\n");
    }
}

/// Idle, it costs nothing: the kernel tells.
#[test]
fn whoever_watches_the_pins_sleeps() {
    let world = World::new(User::Ordinary);
    world.make("work/.mcp.json", "{}");
    let mut policy = world.policy(Level::Full);
    policy.protected.push(Protected::existing(world.path("work/.mcp.json")));
    let count = "grep -h ctxt /proc/1/status";
    let [said, then] = sees(&world, &policy, [count, &format!("sleep 1; {count}")], || {});
    let switches = |text: &str| -> u64 {
        let numbers = text.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
        numbers.sum()
    };
    // `sleep` and `grep` are the shell's children, not its own.
    assert!(switches(&then) - switches(&said) <= 1, "{said} {then}");
}
