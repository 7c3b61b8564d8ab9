//! The escape suite through the product: what the sandbox's own tests try on the crate is tried in
//! sessions that the real binary started, for root and for an ordinary user, besides what only a
//! whole host has to attack. That each attempt works where nothing is in its way is shown there, by
//! the same program.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

#[path = "../../../../greenroom-sandbox/tests/it/rows.rs"]
#[expect(dead_code, reason = "its other users need more of it")]
mod rows;
mod site;
mod work;

use std::path::Path;

use serde_json::Value;

use self::rows::{ROWS, Row, Want, Who};
use self::site::{Site, User};
use crate::support::eventually;

/// Makes every attempt of a list. The terminal stays where it is, and nothing of ours is open for
/// them.
const RUNNER: &str = r#"while read -r -u 9 id where rest; do
    mkdir -p "$where"
    said=$("$1" try $rest 9<&- 2>&1); code=$?
    echo "$id $code ${said##*$'\n'}"
done 9< attempts > results; echo over"#;

/// What only a whole host has. Those on processes come for the keeper and for the daemon.
const ON_THE_HOST: &[(&str, &[&str])] = &[
    ("host.socket", &["net.unix", "{state}/run/greenroom.sock"]),
    ("host.http", &["net.tcp", "{http}"]),
    ("host.token", &["fs.read", "{state}/run/token"]),
    ("host.database", &["fs.read", "{state}/state/greenroom.db"]),
    ("host.journal", &["fs.read", "{journal}"]),
    ("host.secret", &["fs.read", "{state}/secrets/api-key"]),
    ("host.settings", &["fs.read", "{state}/config.toml"]),
    ("host.chains", &["fs.create", "{state}/state/chains/planted"]),
    ("host.config", &["fs.overwrite", "{state}/config.toml"]),
    ("host.plugins", &["fs.mkdir", "{state}/plugins"]),
    ("host.move_socket", &["fs.rename", "{state}/run/greenroom.sock", "{work}/door"]),
    ("host.unlink", &["fs.unlink", "{state}/run/greenroom.lock"]),
];
const ON_A_PROCESS: &[(&str, &[&str])] = &[
    ("ptrace", &["proc.ptrace", "{it}"]),
    ("steal_fd", &["proc.steal_fd", "{it}"]),
    ("kill", &["proc.kill", "{it}"]),
    ("prlimit", &["proc.prlimit", "{it}"]),
    ("setpriority", &["proc.setpriority", "{it}"]),
    ("setaffinity", &["proc.setaffinity", "{it}"]),
    ("oom_score", &["proc.oom_score", "{it}"]),
    ("mem", &["proc.open_proc", "{it}", "mem"]),
    ("maps", &["proc.open_proc", "{it}", "maps"]),
    ("fd", &["proc.read_link", "{it}", "fd/0"]),
    ("cwd", &["proc.open_proc", "{it}", "cwd"]),
    ("root", &["proc.enter_root", "{it}"]),
    ("environ", &["proc.read_environ", "{it}"]),
];

/// Asks the host for something, by the ways a program inside has. Each must fail.
const COMMANDS: &str = r#"try() { timeout 20 "$@" > said 2>&1 < /dev/null; echo "$? $* $(tr '\n' ' ' < said)" >> answers; }
for home in "$GIVEN" "$GIVEN/state" /nowhere; do
    export GREENROOM_HOME=$home
    for more in --no-start ""; do
        try greenroom ls $more; try greenroom new $more -- touch "$MARK"; try greenroom send $more s1 typed-from-inside --enter
        try greenroom read $more s1; try greenroom kill $more s1; try greenroom shutdown $more
    done
done
export GREENROOM_SOCKET=$GIVEN/run/greenroom.sock; try greenroom ls; try greenroom new -- touch "$MARK"
try greenroom new --sandbox -- true; try greenroom serve; echo over"#;

/// Whether this machine can do it; what cannot be tried is said.
fn able(site: &Site, level: &str) -> bool {
    let found: Value =
        serde_json::from_str(&site.ok(&site.path("work"), &["sandbox", "doctor", "--json"]))
            .unwrap();
    let able = found[level] == true;
    if !able {
        eprintln!("NOT RUN: level {level} cannot be enforced here: {found}");
    }
    able
}

/// A host with a session of its own, HTTP, a secret and settings.
fn occupied(site: &mut Site) {
    site.write("state/config.toml", "[sandbox]\nhide = [\"~/.notes\"]\n");
    std::fs::create_dir(site.path("state/secrets")).unwrap();
    site.write("state/secrets/api-key", "sk-a-secret-of-ours");
    let other = site.careless(&site.path("work"), &["new", "--", "sh", "-c", "echo mine; cat"]);
    assert_eq!(other.out, "s1\n", "{other:?}");
    site.home.wait_text("s1", "mine");
    let dir = site.path("state/state/sessions/s1");
    let journal = eventually("its journal is written", || {
        let files = std::fs::read_dir(&dir).ok()?.map(|entry| entry.unwrap().path());
        files.filter(|path| path.is_file()).find(|path| path.metadata().unwrap().len() > 0)
    });
    let web = site.home.json(&["web", "--json"]);
    let http = web["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let keeper = std::fs::read_to_string(site.path("state/run/greenroom.lock")).unwrap();
    let daemon = site.home.daemon_pid().to_string();
    site.names.push(("journal", journal.display().to_string()));
    site.names.extend([("http", http), ("keeper", keeper.trim().to_owned()), ("daemon", daemon)]);
}

/// One line for each attempt: its name, a directory, and what to do.
fn attempts(site: &Site, user: User, level: &str) -> (String, Vec<String>) {
    let mut lines = Vec::new();
    let wanted = |row: &&Row| {
        let want = if level == "full" { row.full } else { row.reduced };
        let who = match row.who {
            Who::Everybody => true,
            Who::Root => user == User::Root,
            Who::Ordinary => user == User::Ordinary && site.path("suid").exists(),
        };
        who && want != Want::Gap
    };
    let mut add = |id: String, attempt: &[&str]| {
        let work = site.path("work").join(&id).display().to_string();
        lines.push(format!("{id} {work} {}", site.filled(&work, attempt)));
    };
    for row in ROWS.iter().filter(wanted) {
        // The host's own directory is what is hidden here, and the door in it.
        add(row.id.to_owned(), row.attempt);
    }
    for (id, attempt) in ON_THE_HOST {
        add((*id).to_owned(), attempt);
    }
    for who in ["{keeper}", "{daemon}"] {
        for (id, attempt) in ON_A_PROCESS {
            let attempt: Vec<&str> =
                attempt.iter().map(|word| if *word == "{it}" { who } else { word }).collect();
            add(format!("{}.{id}", who.trim_matches(['{', '}'])), &attempt);
        }
    }
    let ids = lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    (lines.join("\n") + "\n", ids)
}

/// What is wrong with how an attempt went.
fn wrong(id: &str, line: &str) -> Option<String> {
    let row = ROWS.iter().find(|row| row.id == id);
    let (code, said) = line.split_once(' ').unwrap_or((line, ""));
    let fine = match row {
        Some(row) if row.full == Want::Killed => code == "159",
        // Its own word does not count; what it did is looked at afterwards.
        Some(row) if row.by_effect => true,
        // A machine without such addresses.
        Some(row) if row.id == "net.tcp6" && code == "101" => true,
        // It breaks over a file that is not open.
        Some(row) if row.id.starts_with("fd.") && code == "134" => true,
        _ => code == "1" && said.starts_with("FAILED"),
    };
    (!fine).then(|| format!("{id}: {line}"))
}

fn suite(user: User, level: &str) {
    let mut site = Site::new(user);
    if !able(&site, level) {
        return;
    }
    site.ok(&site.path("work"), &["shutdown"]);
    occupied(&mut site);
    let work = site.path("work");
    controls(&site);
    let (list, ids) = attempts(&site, user, level);
    site.write("work/attempts", &list);
    let before = site.state();
    let sandbox = format!("--sandbox={level}");
    let prisoner = site.prisoner().display().to_string();
    let args = ["new", &sandbox, "--", "bash", "-c", RUNNER, "runner", &prisoner];
    let said = site.careless(&work, &args);
    assert_eq!(said.code, 0, "{said:?}");
    let id = said.out.trim();
    site.ok(&work, &["wait", id, "--until", "exit", "--timeout", "120s"]);
    let results = std::fs::read_to_string(work.join("results")).unwrap();
    let went: Vec<(&str, &str)> =
        results.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(went.len(), ids.len(), "{}", site.home.screen(id));
    let failed: Vec<String> = went.iter().filter_map(|(id, line)| wrong(id, line)).collect();
    assert!(failed.is_empty(), "{level} as {user:?}:\n{}", failed.join("\n"));
    let after = site.state();
    let changes: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert!(after == before, "{level} as {user:?} changed:\n{}", changes.join("\n"));
    commands(&site, &work, &sandbox);
    // Everybody outside is served as before.
    assert_eq!(site.home.screen("s1").trim(), "mine");
    let daemon = site.names.iter().find(|(name, _)| *name == "daemon").unwrap();
    assert_eq!(site.home.daemon_pid().to_string(), daemon.1);
}

/// Without a sandbox the host is there for its user.
fn controls(site: &Site) {
    for id in ["host.socket", "host.http", "host.token", "host.database", "host.journal"] {
        let attempt = ON_THE_HOST.iter().find(|(name, _)| *name == id).unwrap().1;
        let attempt = site.filled("/nowhere", attempt);
        let mut command = site.user.command(site.prisoner());
        let output = command.arg("try").args(attempt.split(' ')).output().unwrap();
        assert!(output.status.success(), "{id} proves nothing: {output:?}");
    }
}

/// The command line from inside.
fn commands(site: &Site, work: &Path, sandbox: &str) {
    let mark = site.path("out/made-from-inside");
    let given = format!("GIVEN={}", site.path("state").display());
    let mark_is = format!("MARK={}", mark.display());
    let args =
        ["new", sandbox, "--env", &given, "--env", &mark_is, "--", "bash", "-c", COMMANDS, "x"];
    let id = site.ok(work, &args);
    site.ok(work, &["wait", &id, "--until", "exit", "--timeout", "120s"]);
    let answers = std::fs::read_to_string(work.join("answers")).unwrap();
    assert_eq!(answers.lines().count(), 40, "{answers}\n{}", site.home.screen(&id));
    for line in answers.lines() {
        let code: i32 = line.split(' ').next().unwrap().parse().unwrap();
        assert!(code != 0 && code < 124, "{line}");
        assert!(!line.contains("panicked"), "{line}");
    }
    assert!(!mark.exists());
    let sessions = site.home.json(&["ls", "--json"])["sessions"].as_array().unwrap().len();
    assert_eq!(sessions, 3, "ours, the attempts, the commands");
}

#[test]
fn nothing_gets_out_of_full_as_an_ordinary_user() {
    suite(User::Ordinary, "full");
}

#[test]
fn nothing_gets_out_of_full_as_root() {
    if rustix::process::geteuid().is_root() {
        suite(User::Root, "full");
    } else {
        eprintln!("NOT RUN as root: the tests run as an ordinary user");
    }
}

#[test]
fn reduced_holds_what_it_says_it_holds() {
    suite(User::Ordinary, "reduced");
}
