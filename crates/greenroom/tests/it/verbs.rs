//! Each verb does what its line in the table says.

use crate::support::Home;

#[test]
fn new_prints_the_id_and_only_it() {
    let home = Home::new();
    let said = home.run(&["new", "--", "sh", "-c", "echo hello"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "s1\n", ""));
    assert_eq!(home.ok(&["wait", "s1", "--until", "exit"]), "exited: status 0");
    assert_eq!(home.screen("s1"), "hello");
}

#[test]
fn new_passes_directory_environment_size_and_labels() {
    let home = Home::new();
    let dir = home.path().join("work");
    std::fs::create_dir(&dir).unwrap();
    // Values of this home's own: every process of the machine is looked at below.
    let own = home.path().file_name().unwrap().to_str().unwrap();
    let (from_caller, from_file) = (format!("caller{own}"), format!("file{own}"));
    std::fs::write(home.path().join("x.env"), format!("FROM_FILE='a b'\nMORE={from_file}\n"))
        .unwrap();
    let script = "pwd; echo $FROM_CALLER-$FROM_FLAG-$FROM_FILE; stty size; echo end; read x";
    let mut command = home.command(&[
        "new",
        "--name",
        "job",
        "--cwd",
        "work",
        "--size",
        "100x30",
        "--env",
        "FROM_FLAG=flag",
        "--env-file",
        "x.env",
        "--label",
        "team=core",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let id = command.env("FROM_CALLER", &from_caller).output().unwrap();
    assert!(id.status.success(), "{id:?}");
    home.wait_text("job", "end");
    let screen = home.screen("job");
    let cwd = dir.canonicalize().unwrap();
    let wanted = format!("{}\n{from_caller}-flag-a b\n30 100\nend", cwd.display());
    assert_eq!(screen, wanted);
    let info = home.json(&["info", "job", "--json"]);
    assert_eq!(info["labels"]["team"], "core");
    assert_eq!(
        home.json(&["ls", "--json", "--label", "team=core"])["sessions"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        home.json(&["ls", "--json", "--label", "team=other"])["sessions"].as_array().unwrap().len(),
        0
    );
    // Nothing of the environment in anybody's arguments.
    for value in [&from_caller, &from_file] {
        assert_eq!(test_kit::process::mentioning(value), [] as [i32; 0]);
    }
}

#[test]
fn ls_obeys_no_color() {
    let home = Home::new();
    home.ok(&[
        "new",
        "--name",
        &"n".repeat(40),
        "--",
        "sh",
        "-c",
        &format!("echo {}; read x", "x".repeat(100)),
    ]);
    home.shell("exit 3");
    home.ok(&["wait", "s2", "--until", "exit"]);
    let text = home.ok(&["ls"]);
    assert!(text.contains("✗ exited 3") && text.contains("▶ running"), "{text}");
    assert!(!text.contains('\x1b'), "colours without a terminal: {text:?}");
    let forced = home.command(&["ls"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&forced.stdout).contains("\x1b[31m"));
    let both =
        home.command(&["ls"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!String::from_utf8_lossy(&both.stdout).contains('\x1b'));
}

#[test]
fn a_session_is_named_by_id_name_or_prefix() {
    let home = Home::new();
    home.ok(&["new", "--name", "alpha", "--", "sh", "-c", "echo one; read x"]);
    home.ok(&["new", "--name", "alpine", "--", "sh", "-c", "echo two; read x"]);
    home.wait_text("s1", "one");
    assert_eq!(home.screen("alph"), "one");
    assert_eq!(home.screen("s2"), home.screen("alpine"));
    let said = home.run(&["read", "alp"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_eq!(home.ok(&["rename", "s1", "beta"]), "s1 is now beta");
    assert_eq!(home.screen("beta"), "one");
    assert_eq!(home.run(&["rename", "s1", "alpine"]).code, 1);
}

#[test]
fn send_key_read_and_wait() {
    let home = Home::new();
    let id = home.shell("cat");
    home.ok(&["send", &id, "hello there", "--enter"]);
    home.wait_text(&id, "hello there\\nhello there");
    home.ok(&["key", &id, "a", "b", "enter"]);
    home.wait_text(&id, "ab\\nab");
    let said = home.run_with_input(&["send", &id, "-", "--enter"], "from stdin\n");
    assert_eq!(said.code, 0, "{said:?}");
    home.wait_text(&id, "from stdin\\nfrom stdin");
    assert_eq!(home.ok(&["wait", &id, "--until", "stable=50"]), "stable for 50 ms");
    home.ok(&["key", &id, "ctrl-d"]);
    assert_eq!(home.ok(&["wait", &id, "--until", "exit"]), "exited: status 0");
    assert_eq!(home.ok(&["wait", &id, "--until", "state=exited"]), "exited");
}

#[test]
fn read_pages_through_the_output() {
    let home = Home::new();
    let id = home.shell("seq 1 500; read x");
    home.wait_text(&id, "500");
    let (mut text, mut since, mut pages) = (String::new(), 0, 0);
    loop {
        let page = home.json(&[
            "read",
            &id,
            "--since",
            &since.to_string(),
            "--max-bytes",
            "300",
            "--json",
        ]);
        for member in ["text", "seq", "next_seq", "has_more", "dropped"] {
            assert!(page.get(member).is_some(), "{member} is missing: {page}");
        }
        text.push_str(page["text"].as_str().unwrap());
        since = page["next_seq"].as_u64().unwrap();
        pages += 1;
        if page["has_more"] == false {
            break;
        }
    }
    assert!(pages > 3, "{pages} pages");
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let wanted: Vec<String> = (1..=500).map(|n: u32| n.to_string()).collect();
    assert_eq!(lines, wanted);
    assert_eq!(home.ok(&["read", &id, "--transcript"]).lines().count(), 500);
    assert!(home.screen(&id).ends_with("500"));
}

#[test]
fn colours_only_when_asked_for() {
    let home = Home::new();
    let id = home.shell("printf '\\033[31mred\\033[0m\\n'; read x");
    home.wait_text(&id, "red");
    assert_eq!(home.screen(&id), "red");
    assert!(home.ok(&["read", &id, "--ansi"]).contains("\x1b["));
    assert!(home.ok(&["read", &id, "--transcript", "--ansi"]).contains("\x1b[31mred"));
    assert!(!home.ok(&["read", &id, "--transcript", "--text"]).contains('\x1b'));
}

#[test]
fn kill_ends_the_whole_tree() {
    let home = Home::new();
    let id = home.shell("trap '' HUP TERM; sleep 1000 & echo child $!; wait");
    home.wait_text(&id, "child \\d+");
    let screen = home.screen(&id);
    let child: i32 = screen.split_whitespace().last().unwrap().parse().unwrap();
    let text = home.ok(&["kill", &id, "--grace", "200ms"]);
    assert_eq!(text, format!("{id} ended: killed by SIGKILL"));
    let child = rustix::process::Pid::from_raw(child).unwrap();
    assert!(
        crate::support::gone_within(child, std::time::Duration::from_secs(5)),
        "a child survived"
    );
    let said = home.run(&["kill", &id]);
    assert_eq!(said.code, 6, "{said:?}");
    assert_eq!(home.ok(&["rm", &id]), id);
    assert_eq!(home.run(&["info", &id]).code, 6);
}

#[test]
fn kill_with_a_signal_of_choice() {
    let home = Home::new();
    let id = home.shell("trap 'echo got int; exit 5' INT; echo set; while :; do sleep 0.05; done");
    home.wait_text(&id, "set");
    assert_eq!(
        home.ok(&["kill", &id, "--signal", "INT", "--grace", "10s"]),
        format!("{id} ended: status 5")
    );
}

#[test]
fn rm_takes_ended_sessions_only() {
    let home = Home::new();
    let ended = home.shell("exit 0");
    let running = home.shell("read x");
    home.ok(&["wait", &ended, "--until", "exit"]);
    let said = home.run(&["rm", &running]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.err.contains(&format!("hint: end it first with greenroom kill {running}")),
        "{said:?}"
    );
    assert_eq!(home.ok(&["rm", "--ended"]), ended);
    assert_eq!(home.json(&["ls", "--json"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn events_replay_and_follow() {
    let home = Home::new();
    let first = home.shell("exit 0");
    home.ok(&["wait", &first, "--until", "exit"]);
    let kinds = |text: &str| -> Vec<String> {
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(|text| line(text)["kind"].as_str().unwrap().to_owned()).collect()
    };
    let all = crate::support::eventually("the exit is logged", || {
        let text = home.ok(&["events"]);
        text.contains("session.exited").then_some(text)
    });
    let kinds = kinds(&all);
    let place = |kind: &str| {
        kinds.iter().position(|other| other == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"))
    };
    assert!(
        place("session.created") < place("session.started")
            && place("session.started") < place("session.exited")
    );
    let last: serde_json::Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();

    // Following from there sees what comes, and only of the session asked for.
    let second = home.shell("read x");
    let third = home.shell("read x");
    let since = last["id"].to_string();
    let mut follow = home.command(&["events", "--follow", "--since", &since, "--session", &third]);
    let mut follow = follow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(follow.stdout.take().unwrap()));
    home.ok(&["kill", &second]);
    home.ok(&["kill", &third]);
    let seen = lines
        .by_ref()
        .map(Result::unwrap)
        .inspect(|line| assert!(line.contains(&format!("\"{third}\"")), "{line}"));
    assert!(seen.into_iter().any(|line| line.contains("session.exited")));
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn info_describes_and_logs_speak() {
    let home = Home::new();
    let id = home.ok(&["new", "--name", "job", "--", "sh", "-c", "echo x; read y"]);
    home.wait_text(&id, "x");
    let text = home.ok(&["info", "job"]);
    for word in ["running", "sh -c", "80x24", "recording"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!home.ok(&["logs"]).is_empty());
    for line in home.ok(&["logs", "--json", "-n", "3"]).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    assert!(doctor.out.contains("host") && doctor.out.contains("splice"), "{doctor:?}");
}
