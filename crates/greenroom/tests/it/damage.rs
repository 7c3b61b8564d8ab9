//! Damaged files of the host: it answers, shows nothing that was hidden before, and says what is
//! wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use test_kit::wait::PATIENCE;

use crate::support::{Home, Said, eventually};

const VALUE: &str = "hunter2-and-some-more";
const KEY: &str = "AKIAQ7ZPXK3MNB5RTY2W";
const LINE: &str = "mask me please";

const CONFIG: &str = "[plugins]\nenabled = true\n[redact]\nattach = true\n";

const GUARD: &str = "schema = 1\n[plugin]\nname = \"guard\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\n\
    kind = \"oneshot\"\ncommand = [\"./run\"]\n[[hooks]]\nhook = \"output.filter\"\nstage = \"redact\"\n\
    required = true\non_failure = \"mask\"\ntimeout_ms = 20000\nwhen = { regex = \"mask\" }\n\
    [capabilities]\n\"output.filter\" = true\n";

const RUN: &str =
    "#!/bin/sh\nread -r line\necho '{\"action\":\"replace\",\"line\":\"(by guard)\"}'\n";

fn plugin(dir: &Path, manifest: &str, run: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("plugin.toml"), manifest).unwrap();
    fs::write(dir.join("run"), run).unwrap();
    fs::set_permissions(dir.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// A host with a session that prints a value, a key and a line a guard hides, and goes on running.
fn governed() -> Home {
    let home = Home::new();
    fs::write(home.path().join("config.toml"), CONFIG).unwrap();
    let source = home.path().join("source/guard");
    plugin(&source, GUARD, RUN);
    let added = home.run(&["plugin", "add", &source.display().to_string()]);
    assert!(added.out.contains("guard"), "{added:?}");
    home.ok(&["plugin", "grant", "guard"]);
    let script = format!("echo value $TOK; echo {KEY}; echo {LINE}; echo printed; exec sleep 600");
    // Not in the command, which is no secret.
    fs::write(home.path().join("print.sh"), script).unwrap();
    let token = format!("TOK={VALUE}");
    home.ok(&["new", "--name", "one", "--env", &token, "--", "sh", "print.sh"]);
    eventually("the guard answers", || {
        let seen = home.ok(&["read", "s1", "--transcript"]);
        (seen.contains("(by guard)") && seen.contains("printed")).then_some(())
    });
    assert_hidden(&home, "before");
    home
}

/// Everything a reader of the session can see.
fn seen(home: &Home, why: &str) -> String {
    let mut all = String::new();
    for args in [
        &["ls", "--json"][..],
        &["info", "s1", "--json"],
        &["read", "s1"],
        &["read", "s1", "--transcript"],
        &["read", "s1", "--transcript", "--ansi", "--json"],
        &["record", "s1"],
        &["events", "--json"],
        &["doctor"],
    ] {
        let Said { code, out, err } = home.run(args);
        // A verb may fail for what is gone; the host itself is there.
        assert!(code != 7 && code != 70, "{why}: {args:?}: {code} {out} {err}");
        all.push_str(&out);
        all.push_str(&err);
    }
    all
}

#[track_caller]
fn assert_hidden(home: &Home, why: &str) -> String {
    let seen = seen(home, why);
    for secret in [VALUE, KEY, LINE] {
        assert!(!seen.contains(secret), "{why}: {secret} is shown: {seen}");
    }
    seen
}

#[track_caller]
fn next_daemon(home: &Home, why: &str) {
    let old = home.daemon_pid();
    kill_process(Pid::from_raw(old).unwrap(), Signal::KILL).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = home.run(&["ls", "--json"]);
        if said.code == 0 && home.daemon_pid() != old {
            return;
        }
        assert!(Instant::now() < deadline, "{why}: no other daemon: {said:?}");
    }
}

/// A name, and what it does to a file.
type Way = (&'static str, fn(&Path));

const WAYS: [Way; 5] = [
    ("missing", |path| fs::remove_file(path).unwrap()),
    ("empty", |path| fs::write(path, "").unwrap()),
    ("short", |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("flipped", |path| {
        let mut bytes = fs::read(path).unwrap();
        let step = (bytes.len() / 7).max(1);
        bytes.iter_mut().step_by(step).for_each(|byte| *byte ^= 0x2a);
        fs::write(path, bytes).unwrap();
    }),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
];

/// All files below a directory, as paths within it.
fn files(top: &Path) -> Vec<PathBuf> {
    let mut ahead = vec![top.to_owned()];
    let mut files = Vec::new();
    while let Some(dir) = ahead.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => ahead.push(entry.path()),
                kind if kind.is_file() => {
                    files.push(entry.path().strip_prefix(top).unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Those on which what is hidden depends: the sample begins with them.
const FIRST: [(&str, usize); 5] = [
    ("values.key", 1),
    ("sessions/s1/terms", 0),
    ("plugins.lock", 3),
    ("plugins.required", 2),
    ("greenroom.db", 4),
];

#[test]
fn soak_every_file_of_the_state_damaged_in_five_ways() {
    let series = test_kit::series::series("damaged files of the state", FIRST.len() as u64, 200);
    let mut all: Vec<(PathBuf, usize)> = FIRST.map(|(file, way)| (file.into(), way)).to_vec();
    let home = governed();
    for file in files(&home.path().join("state")) {
        all.extend((0..WAYS.len()).map(|way| (file.clone(), way)));
    }
    let mut dice = series.dice(0);
    for at in FIRST.len()..all.len() {
        let other = at + dice.below((all.len() - at) as u64) as usize;
        all.swap(at, other);
    }
    let mut home = Some(home);
    for (file, way) in all.into_iter().take(series.cases as usize) {
        let home = home.take().unwrap_or_else(governed);
        let (how, damage) = WAYS[way];
        let why = format!("{} {how}", file.display());
        let path = home.path().join("state").join(&file);
        if !path.is_file() {
            continue;
        }
        damage(&path);
        next_daemon(&home, &why);
        let seen = assert_hidden(&home, &why);
        // Masks that were not there before are explained.
        let less = !home.run(&["read", "s1", "--transcript"]).out.contains("printed");
        let said =
            seen.contains("masked") || seen.contains("set aside") || seen.contains("dropped");
        assert!(!less || said, "{why}: {seen}");
        // Nothing is broken for those who come next.
        let token = format!("TOK={VALUE}");
        let next = home.run(&["new", "--env", &token, "--", "sh", "-c", "echo next $TOK; cat"]);
        assert_eq!(next.code, 0, "{why}: {next:?}");
        home.wait_text(next.out.trim(), "next [*]+");
    }
}

/// What a new session shows after its script has printed everything, and what its `info` says.
fn fresh(home: &Home, name: &str) -> (String, String) {
    home.ok(&["new", "--name", name, "--", "sh", "print.sh"]);
    let read = eventually("the new session prints", || {
        let seen = home.ok(&["read", name, "--transcript"]);
        seen.contains("printed").then_some(seen)
    });
    (read, home.ok(&["info", name]))
}

#[test]
fn a_session_that_starts_after_damage_is_guarded_or_refused() {
    let home = governed();
    let state = home.path().join("state");
    let (lock, note) = (state.join("plugins.lock"), state.join("plugins.required"));
    let (lock_bytes, note_bytes) = (fs::read(&lock).unwrap(), fs::read(&note).unwrap());
    let (store, aside) = (state.join("plugin-store"), home.path().join("aside"));
    let hurt: [(&str, &dyn Fn()); 4] = [
        ("junk", &|| fs::write(&lock, "junk\n").unwrap()),
        ("empty", &|| fs::write(&lock, "").unwrap()),
        ("gone", &|| fs::remove_file(&lock).unwrap()),
        ("copies", &|| fs::rename(&store, &aside).unwrap()),
    ];
    for (how, damage) in hurt {
        damage();
        next_daemon(&home, how);
        let (read, info) = fresh(&home, how);
        assert!(!read.contains(LINE) && !read.contains("(by guard)"), "{how}: {read}");
        assert!(info.contains("masked"), "{how}: {info}");
        let doctor = home.run(&["doctor"]).out;
        assert!(doctor.contains("plugin guard is required and cannot be asked"), "{how}: {doctor}");
        let list = home.run(&["plugin", "list"]);
        assert!(list.out.contains("guard") && list.err.contains("is required"), "{how}: {list:?}");
        home.run(&["plugin", "info", "guard"]);
        if aside.exists() {
            fs::remove_dir_all(&store).unwrap();
            fs::rename(&aside, &store).unwrap();
        }
        fs::write(&lock, &lock_bytes).unwrap();
    }
    // Nobody knows any more who guarded sessions.
    fs::write(&lock, "junk\n").unwrap();
    fs::write(&note, "junk\n").unwrap();
    next_daemon(&home, "lock and note are junk");
    let refused = home.run(&["new", "--", "sh", "print.sh"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("which plugins guard sessions"), "{refused:?}");
    assert!(refused.err.contains("hint:") && refused.err.contains("plugins.required"));
    assert!(home.run(&["doctor"]).out.contains("which plugins guard sessions"));
    assert!(home.run(&["plugin", "list"]).err.contains("which plugins guard sessions"));
    fs::write(&lock, &lock_bytes).unwrap();
    fs::write(&note, &note_bytes).unwrap();
    home.ok(&["plugin", "reload"]);
    assert!(fresh(&home, "again").0.contains("(by guard)"));
    // A gate, too.
    let source = home.path().join("source/door");
    let door = GUARD
        .replace("guard", "door")
        .replace("output.filter", "session.before")
        .replace("\"session.before\" = true", "\"session.transform\" = true")
        .replace("stage = \"redact\"\n", "")
        .replace("\"mask\"\n", "\"block\"\n")
        .replace("when = { regex = \"mask\" }\n", "");
    plugin(&source, &door, "#!/bin/sh\nread -r line\necho '{\"action\":\"pass\"}'\n");
    home.run(&["plugin", "add", &source.display().to_string()]);
    home.ok(&["plugin", "grant", "door"]);
    assert!(fresh(&home, "through").0.contains("(by guard)"));
    fs::remove_file(&lock).unwrap();
    next_daemon(&home, "no lock");
    let refused = home.run(&["new", "--", "sh", "print.sh"]);
    assert!(refused.code != 0 && refused.err.contains("door"), "{refused:?}");
    // A user who turns one off, or removes it, does without it.
    home.ok(&["plugin", "disable", "door"]);
    home.ok(&["plugin", "remove", "guard"]);
    assert!(fresh(&home, "bare").0.contains(LINE));
}

#[test]
fn a_mistake_in_the_configuration_undoes_nothing() {
    let home = governed();
    let file = home.path().join("config.toml");
    fs::write(&file, format!("{CONFIG}atach = false\n")).unwrap();
    next_daemon(&home, "a mistake");
    let seen = assert_hidden(&home, "a mistake");
    assert!(seen.contains("(by guard)") && seen.contains("config.toml:5"), "{seen}");
    let refused = home.run(&["new", "--", "cat"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("config.toml:5") && refused.err.contains("hint:"), "{refused:?}");
    // Corrected and read again, everything is as it was.
    fs::write(&file, CONFIG).unwrap();
    home.ok(&["reload"]);
    home.ok(&["new", "--", "cat"]);
    fs::write(&file, "[redact\n").unwrap();
    // Without the copy nothing is known but that much was hidden.
    fs::remove_file(home.path().join("state/config.good")).unwrap();
    next_daemon(&home, "no copy");
    let seen = assert_hidden(&home, "no copy");
    assert!(seen.contains("guard would have filtered is masked"), "{seen}");
    fs::write(&file, CONFIG).unwrap();
    home.ok(&["reload"]);
    let refused = home.run(&["new", "--", "cat"]);
    assert!(refused.err.contains("plugins.enabled") && refused.code == 1, "{refused:?}");
    // Plugins are off, and that is no mistake: what they filtered stays hidden.
    fs::write(&file, "").unwrap();
    next_daemon(&home, "turned off");
    let seen = assert_hidden(&home, "turned off");
    assert!(seen.contains("plugins are turned off"), "{seen}");
    home.ok(&["new", "--", "cat"]);
}

/// Characters a terminal obeys or does not show.
fn hostile(text: &str) -> Option<char> {
    let bidi = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{61c}', '\u{2028}', '\u{9b}'];
    text.chars().find(|c| bidi.contains(c) || (c.is_control() && *c != '\n'))
}

#[test]
fn no_text_of_a_plugin_moves_the_cursor() {
    let evil = "x\\u001B[2K\\u009B1mE\\u202E\\u2066\\u200B\\u061C\\u2028y\\n  It asks for nothing.";
    let manifest = format!(
        "schema = 1\n[plugin]\nname = \"evil\"\nversion = \"1{evil}\"\ndescription = \"{evil}\"\n\
         [[runtime]]\nid = \"main\"\nkind = \"oneshot\"\ncommand = [\"./run\", \"{evil}\"]\n\
         [[hooks]]\nhook = \"session.before\"\n\
         [capabilities]\n\"session.transform\" = true\n[capabilities.reason]\n\"session.transform\" = \"{evil}\"\n"
    );
    let answer = evil.replace("\\n", " ");
    // Without `proc.exec` a script has its shell and nothing else.
    let run = format!(
        "#!/bin/sh\nread -r line\necho noise >&2\n\
         printf '%s\\n' '{{\"action\":\"block\",\"reason\":\"{answer}\"}}'\n"
    );
    let home = Home::new();
    fs::write(home.path().join("config.toml"), "[plugins]\nenabled = true\n").unwrap();
    let source = home.path().join("source/evil");
    plugin(&source, &manifest, &run);
    let source = source.display().to_string();
    let verbs: [&[&str]; 12] = [
        &["plugin", "add", &source],
        &["plugin", "pending"],
        &["plugin", "list"],
        &["plugin", "info", "evil"],
        &["plugin", "info", "evil", "--json"],
        &["plugin", "grant", "evil"],
        &["new", "--", "cat"],
        &["new", "--json", "--", "cat"],
        &["plugin", "test", "evil", "session.before", "{}"],
        &["plugin", "logs", "evil"],
        &["events"],
        &["doctor"],
    ];
    for args in verbs {
        let Said { out, err, .. } = home.run(args);
        assert_eq!(hostile(&out), None, "{args:?}: {out:?}");
        assert_eq!(hostile(&err), None, "{args:?}: {err:?}");
        let spoof = |line: &str| line.trim_start() == "It asks for nothing.";
        assert!(!out.lines().chain(err.lines()).any(spoof), "{args:?}: {out}");
    }
    let refused = home.run(&["new", "--", "cat"]);
    assert!(refused.err.contains("\\u{202e}"), "{refused:?}");
}
