//! A caged program's life: it starts, has what it needs, ends as it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;

use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::policy::{
    Allow, HostPattern, Level, Limits, Network, Policy, Protected, Reads,
};

use crate::cage::{Caged, PATIENCE, User, World, plan, read_all, readable};

#[test]
fn it_knows_its_terminal_its_place_and_its_level() {
    for user in User::all() {
        let world = World::new(user);
        let text =
            world.sh(Level::Full, "tty; id -u; pwd; stty size; echo $GREENROOM_SANDBOX $TMPDIR");
        let expected = format!(
            "/dev/pts/0\n{}\n{}\n24 80\nfull /tmp",
            user.uid(),
            world.path("work").display()
        );
        assert_eq!(text.ok(), expected);
    }
}

#[test]
fn it_has_no_privileges_and_sees_only_itself() {
    for user in User::all() {
        let world = World::new(user);
        let outcome = world.sh(
            Level::Full,
            "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ls -d /proc/[0-9]* | wc -l; ls /run; ls /proc/self/fd",
        );
        let text = outcome.ok().replace(['\t', ' '], "");
        for part in
            ["CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The first process, the shell, and at most two of its children.
        let processes: u32 = text.lines().nth(7).unwrap().parse().unwrap();
        assert!(processes <= 4, "{text}");
        // 3 is ls's own.
        assert!(text.ends_with("0\n1\n2\n3") || text.ends_with("0123"), "{text}");
    }
}

#[test]
fn what_should_work_works() {
    let script = "set -e
        echo x > here; mkdir d; mv here d/; ln -s d/here l; cat l
        echo x > /tmp/t; cat /tmp/t
        echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c
        echo x > /dev/tty
        printf '#!/bin/sh\\necho run\\n' > prog; chmod 755 prog; ./prog
        echo all well";
    for (level, user) in [(Level::Full, User::all()), (Level::Reduced, vec![User::Ordinary])] {
        for user in user {
            let world = World::new(user);
            let outcome = world.sh(level, script);
            assert!(outcome.ok().ends_with("all well"), "{level}: {outcome:?}");
            if level == Level::Full {
                assert_eq!(world.read("tmp/t"), "x\n", "its /tmp is the session's own directory");
            }
        }
    }
    let world = World::new(User::Ordinary);
    assert_eq!(world.sh(Level::Full, "echo x > /dev/shm/s && cat /dev/shm/s").ok(), "x");
    assert!(!Path::new("/dev/shm/s").exists());
}

#[test]
fn its_end_is_told_as_it_was() {
    for level in [Level::Full, Level::Reduced] {
        let world = World::new(User::Ordinary);
        assert_eq!(world.sh(level, "exit 7").code, Some(7));
        for signal in [1, 9, 11, 15] {
            let outcome = world.sh(level, &format!("kill -{signal} $$"));
            assert_eq!((outcome.code, outcome.signal), (None, Some(signal)), "{level}");
        }
    }
}

#[test]
fn nobody_is_left_behind() {
    let world = World::new(User::Ordinary);
    // Each holds the pipe's other end as long as it lives, but only outside could read it.
    let script = "for i in 1 2 3; do (setsid sh -c 'trap \"\" HUP TERM; exec sleep 1000' &); done; echo started";
    let caged = Caged::start(&world, &world.policy(Level::Full), &["sh", "-c", script]);
    let mut caged = caged;
    let ready = caged.ready().unwrap();
    assert!(read_all(ready.master).contains("started"));
    caged.wait();
    // The stage ends after the first process, and that one after all others.
    assert_eq!(test_kit::process::working_below(&world.path("work")), [] as [i32; 0]);
}

#[test]
fn a_killed_stage_takes_everything_along() {
    let world = World::new(User::Ordinary);
    let script =
        "(setsid sh -c 'trap \"\" HUP TERM; echo hidden; exec sleep 1000' &); exec sleep 1000";
    let mut caged = Caged::start(&world, &world.policy(Level::Full), &["sh", "-c", script]);
    let ready = caged.ready().unwrap();
    let inner = ready.inner.unwrap();
    caged.child.kill().unwrap();
    caged.wait();
    assert!(readable(inner.as_fd(), PATIENCE), "the program lives on");
    // Ends when the last one that has the terminal is gone.
    read_all(ready.master);
}

#[test]
fn its_own_loopback_works_and_is_nobody_elses() {
    let world = World::new(User::Ordinary);
    let server = "import socket,threading
s=socket.create_server(('127.0.0.1',18777))
threading.Thread(target=lambda: s.accept()[0].sendall(b'mine'),daemon=True).start()
c=socket.create_connection(('127.0.0.1',18777)); print('got', c.recv(9).decode())
print('waiting', flush=True); input()";
    let Some(python) = which("python3") else {
        eprintln!("NOT RUN: no python3 here");
        return;
    };
    let caged = Caged::start(&world, &world.policy(Level::Full), &[&python, "-c", server]);
    let ready = caged.ready().unwrap();
    let mut text = String::new();
    let mut master = std::fs::File::from(ready.master);
    while !text.contains("waiting") && !text.contains("Error") {
        assert!(readable(master.as_fd(), PATIENCE), "{text}");
        let mut bytes = [0; 512];
        match master.read(&mut bytes) {
            Ok(read) => text.push_str(&String::from_utf8_lossy(&bytes[..read])),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}: {text}"),
        }
    }
    assert!(text.contains("got mine"), "{text}");
    assert!(TcpStream::connect("127.0.0.1:18777").is_err(), "seen from outside");
    master.write_all(b"\n").unwrap();
    assert_eq!(caged.end_after(master.into()).code, Some(0));
}

fn which(name: &str) -> Option<String> {
    let places = ["/usr/bin", "/usr/local/bin", "/bin"];
    places.into_iter().map(|dir| format!("{dir}/{name}")).find(|path| Path::new(path).exists())
}

#[test]
fn allowed_hosts_bring_a_door_that_leads_out() {
    for user in User::all() {
        let world = World::new(user);
        let hosts = vec![HostPattern::parse("example.com").unwrap()];
        let policy = Policy { network: Network::Hosts(hosts), ..world.policy(Level::Full) };
        let escapee = world.escapee().display().to_string();
        let argv = [&escapee, "try", "net.tcp", "127.0.0.1:3128"];
        let caged = Caged::start(&world, &policy, &argv);
        let ready = caged.ready().unwrap();
        let listener = TcpListener::from(ready.listener.unwrap());
        // Accepted out here, though it was connected in there.
        assert!(readable(listener.as_fd(), PATIENCE));
        let (_, peer) = listener.accept().unwrap();
        assert!(peer.ip().is_loopback());
        assert!(caged.end_after(ready.master).text.contains("DONE"));
    }
}

#[test]
fn nested_terminals_and_jobs_work() {
    let world = World::new(User::Ordinary);
    if which("script").is_none() {
        eprintln!("NOT RUN: no script(1) here");
        return;
    }
    let nested = world.sh(Level::Full, "script -qec 'tty' /dev/null");
    assert_eq!(nested.ok(), "/dev/pts/1");
    let jobs = world
        .sh(Level::Full, "set -m; sleep 100 & kill -STOP %1; jobs; kill -KILL %1; wait; echo end");
    assert!(jobs.ok().ends_with("end"), "{jobs:?}");
}

#[test]
fn compilers_work() {
    let world = World::new(User::Ordinary);
    let Some(cc) = which("cc") else {
        eprintln!("NOT RUN: no cc here");
        return;
    };
    world.write("work/a.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); }\n");
    for level in [Level::Full, Level::Reduced] {
        let outcome = world.sh(level, &format!("{cc} -O2 -o a a.c && ./a && rm a"));
        assert_eq!(outcome.ok(), "compiled", "{level}");
    }
}

#[test]
fn a_directory_in_tmp_is_still_there() {
    for user in User::all() {
        let world = World::below(user, &std::env::temp_dir());
        world.write("work/file", "seen");
        let outcome = world
            .sh(Level::Full, "cat file && echo && echo new > made && ls /tmp && cat ../out/file");
        assert!(outcome.text.starts_with("seen\ngreenroom-cage-"), "{outcome:?}");
        assert!(!outcome.text.contains("untouched"), "{outcome:?}");
        assert_eq!(world.read("work/made"), "new\n");
    }
}

#[test]
fn what_is_writable_may_lie_in_what_is_hidden() {
    let world = World::new(User::Ordinary);
    std::fs::create_dir_all(world.path("state/worktrees/w")).unwrap();
    std::fs::create_dir_all(world.path("state/worktrees/other")).unwrap();
    world.own();
    let mut policy = world.policy(Level::Full);
    policy.writable.push(world.path("state/worktrees/w"));
    let outcome = world.run(
        &policy,
        &[
            "sh",
            "-c",
            "find ../state; echo x > ../state/worktrees/w/f; touch ../state/x ../state/worktrees/x",
        ],
    );
    assert!(
        outcome.text.starts_with("../state\n../state/worktrees\n../state/worktrees/w\n"),
        "{outcome:?}"
    );
    assert!(!outcome.text.contains("other") && !outcome.text.contains("token"), "{outcome:?}");
    assert_eq!(
        std::fs::read_to_string(world.path("state/worktrees/w/f")).ok().as_deref(),
        Some("x\n"),
        "{outcome:?}"
    );
    assert!(!world.path("state/worktrees/x").exists() && !world.path("state/x").exists());
}

#[test]
fn protected_paths_stay_and_so_do_their_parents() {
    for user in User::all() {
        let world = World::new(user);
        std::fs::create_dir_all(world.path("work/a/b/keep")).unwrap();
        world.write("work/a/b/keep/file", "kept");
        world.own();
        let mut policy = world.policy(Level::Full);
        policy.protected = vec![
            Protected::existing(world.path("work/a/b/keep")),
            Protected::file(world.path("work/conf/made")),
        ];
        let script = "echo evil > a/b/keep/file; rm -r a/b/keep; mv a/b a/c; mv a z; mv conf y; echo evil > conf/made
            echo fine > a/b/beside; echo fine > conf/beside; echo over";
        let outcome = world.run(&policy, &["sh", "-c", script]);
        assert!(outcome.text.ends_with("over\n"), "{outcome:?}");
        assert_eq!(world.read("work/a/b/keep/file"), "kept");
        assert_eq!(world.read("work/conf/made"), "");
        assert_eq!(world.read("work/a/b/beside") + &world.read("work/conf/beside"), "fine\nfine\n");
    }
}

#[test]
fn a_single_file_can_be_writable() {
    let world = World::new(User::Ordinary);
    for level in [Level::Full, Level::Reduced] {
        let mut policy = world.policy(level);
        policy.writable.push(world.path("home/.bashrc"));
        let outcome = world.run(
            &policy,
            &["sh", "-c", "echo more >> ../home/.bashrc; touch ../home/x; rm ../home/.bashrc"],
        );
        assert!(outcome.text.contains("touch") && outcome.text.contains("rm"), "{outcome:?}");
    }
    assert_eq!(world.read("home/.bashrc"), "# mine\nmore\nmore\n");
    assert!(!world.path("home/x").exists());
}

#[test]
fn a_mask_in_what_is_writable_cannot_be_moved_away() {
    let world = World::new(User::Ordinary);
    std::fs::create_dir_all(world.path("work/x/secret")).unwrap();
    world.write("work/x/secret/file", "hidden");
    world.own();
    let mut policy = world.policy(Level::Full);
    policy.hidden.push(world.path("work/x/secret"));
    let outcome = world.run(
        &policy,
        &["sh", "-c", "cat x/secret/file; mv x y; mv x/secret z; ls x/secret; echo over"],
    );
    assert!(outcome.text.ends_with("over\n") && !outcome.text.contains("hidden"), "{outcome:?}");
    assert_eq!(world.read("work/x/secret/file"), "hidden");
}

#[test]
fn a_symlink_where_a_path_should_be_is_refused() {
    let swap = |world: &World, from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(world.path(from));
        std::os::unix::fs::symlink(world.path(to), world.path(from)).unwrap();
    };
    for user in User::all() {
        // The writable root itself, a directory above it, and what becomes /tmp.
        for case in ["root", "above", "tmp", "protected"] {
            let world = World::new(user);
            std::fs::create_dir_all(world.path("work/sub/deep")).unwrap();
            world.own();
            let mut policy = world.policy(Level::Full);
            match case {
                "root" => {
                    policy.writable.push(world.path("work/sub"));
                    policy.writable.remove(0);
                    swap(&world, "work/sub", "out");
                }
                "above" => {
                    policy.writable = vec![world.path("work/sub/deep")];
                    swap(&world, "work/sub", "out");
                    std::fs::create_dir(world.path("out/deep")).unwrap();
                }
                "tmp" => swap(&world, "tmp", "out"),
                _ => {
                    policy.protected.push(Protected::file(world.path("work/sub/made")));
                    swap(&world, "work/sub", "out");
                }
            }
            let outcome = world.run(&policy, &["touch", "ran"]);
            let fault = outcome.fault.expect(case);
            assert_eq!(fault.layer, Layer::Paths, "{case}: {fault}");
            assert!(!world.path("work/ran").exists() && !world.path("out/made").exists());
        }
    }
}

#[test]
fn limits_hold() {
    let world = World::new(User::Ordinary);
    let limits = Limits {
        open_files: Some(50),
        file_bytes: Some(4096),
        processes: Some(20),
        ..Limits::default()
    };
    let policy = Policy { limits, ..world.policy(Level::Full) };
    let script = "ulimit -n; ulimit -c; head -c 9999 /dev/zero > big; stat -c %s big
        i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done";
    let outcome = world.run(&policy, &["sh", "-c", script]);
    assert!(outcome.text.starts_with("50\n0\n"), "{outcome:?}");
    assert!(outcome.text.contains("4096"), "{outcome:?}");
    assert!(outcome.text.contains("fork"), "{outcome:?}");
}

#[test]
fn exceptions_open_what_they_say() {
    let world = World::new(User::Ordinary);
    let escapee = world.escapee().display().to_string();
    let attempt = |policy: &Policy, argv: &[&str]| {
        let argv: Vec<&str> =
            [escapee.as_str(), "try"].into_iter().chain(argv.iter().copied()).collect();
        world.run(policy, &argv).text.trim().to_owned()
    };
    let strict = world.policy(Level::Full);
    let socket = ["net.socket", "1", "1", "0"];
    assert_eq!(attempt(&strict, &socket), "FAILED 1");
    let unix = Policy { allow: Allow { unix: true, debug: false }, ..strict.clone() };
    assert_eq!(attempt(&unix, &socket), "DONE");
    let trace = ["proc.ptrace", "1"];
    assert_eq!(attempt(&strict, &trace), "FAILED 1");
    // Allowed, but the first process is not one of its own.
    let debug = Policy { allow: Allow { unix: false, debug: true }, ..strict.clone() };
    assert_eq!(attempt(&debug, &trace), "FAILED 1");
    assert_eq!(attempt(&debug, &["sys.raw", "312", "flags"]), "DONE");
}

#[test]
fn a_plugin_has_nothing_but_what_it_was_given() {
    for level in [Level::Full, Level::Reduced] {
        let world = World::new(User::Ordinary);
        let policy = Policy {
            reads: Reads::Only(vec![world.escapee()]),
            spawn: false,
            ..world.policy(level)
        };
        let escapee = world.escapee().display().to_string();
        let outside = world.path("out/file").display().to_string();
        let bashrc = world.path("home/.bashrc").display().to_string();
        for (attempt, expected) in [
            (vec!["fs.read", &outside], "FAILED 13"),
            (vec!["fs.read", &bashrc], "FAILED 13"),
            (vec!["fs.create", "own"], "DONE"),
            (vec!["sys.clone", "0"], "FAILED 1"),
            (vec!["fs.run_suid", "/bin/true"], "FAILED 1"),
            (vec!["net.socket", "1", "1", "0"], "FAILED 1"),
            (vec!["fs.symlink_race", "raced", "other"], "DONE"),
        ] {
            let argv: Vec<&str> =
                [escapee.as_str(), "try"].into_iter().chain(attempt.clone()).collect();
            let outcome = world.run(&policy, &argv);
            assert_eq!(outcome.text.trim(), expected, "{level} {attempt:?}: {outcome:?}");
        }
    }
}

#[test]
fn a_sandbox_in_a_sandbox_says_why_not() {
    let world = World::new(User::Ordinary);
    let escapee = world.escapee().display().to_string();
    let outcome = world.run(&world.policy(Level::Full), &[&escapee, "probe"]);
    let text = outcome.ok();
    assert!(text.contains("user namespace: cannot make one: Operation not permitted"), "{text}");
    assert!(text.contains("mounts: not tried: needs user namespace"), "{text}");
    assert!(text.contains("landlock: works") && text.contains("seccomp: works"), "{text}");
}

#[test]
fn a_plan_is_what_was_asked_or_nothing_runs() {
    let world = World::new(User::Ordinary);
    let mut plan = plan(&world, &world.policy(Level::Full));
    // A kernel that would enforce less than the plan says.
    plan.steps.filter = vec![0; 3];
    let caged =
        Caged::start_with(&world, &plan, &["touch", "ran"], world.user.command(world.escapee()));
    let outcome = caged.end();
    assert_eq!(outcome.fault.unwrap().layer, Layer::Seccomp);
    assert!(!world.path("work/ran").exists());
}
