use std::path::Path;
use std::time::Duration;

use super::*;

fn check(text: &str, expected: &str) {
    let error = Config::parse(Path::new("c.toml"), text).unwrap_err().to_string();
    assert_eq!(error, expected, "{text}");
}

#[test]
fn an_absent_file_means_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Config::load(&dir.path().join("config.toml")).unwrap(), Config::default());
    let config = Config::default();
    assert_eq!(config.sessions.default_size, (80, 24));
    assert_eq!(config.sessions.shell, None);
    assert_eq!(config.sessions.kill_grace, Duration::from_secs(5));
    assert_eq!(config.sessions.limit_bytes, 64 << 20);
}

#[test]
fn values_in_the_forms_people_write() {
    let text = "[sessions]\ndefault_size = \"120x40\"\nlimit_bytes = 2097152\nkill_grace = 3\nmax = 7\nshell = \"fish\"\n[log]\nlevel = \"debug\"\n";
    let config = Config::parse(Path::new("c.toml"), text).unwrap();
    assert_eq!(config.sessions.default_size, (120, 40));
    assert_eq!(config.sessions.limit_bytes, 2 << 20);
    assert_eq!(config.sessions.kill_grace, Duration::from_secs(3));
    assert_eq!(config.sessions.max, 7);
    assert_eq!(config.sessions.shell.as_deref(), Some("fish"));
    assert_eq!(config.log.level, "debug");
}

#[test]
fn mistakes_have_their_line() {
    check(
        "[sessions]\n\ndefualt_size = \"80x24\"\n",
        "c.toml:3: unknown key `defualt_size`, did you mean `default_size`?",
    );
    check("# x\n[session]\n", "c.toml:2: unknown section `session`, did you mean `sessions`?");
    check("[zzz]\n", "c.toml:1: unknown section `zzz`");
    check("color = 1\n", "c.toml:1: unknown key `color`");
    check("log = 1\n", "c.toml:1: `log` is a section: write [log]");
    check(
        "[log]\nlevel = 3\n",
        "c.toml:2: `level` must be off, error, warn, info, debug or trace, not 3",
    );
    check(
        "[sessions]\ndefault_size = \"0x24\"\n",
        "c.toml:2: `default_size` must be a size such as \"120x40\", at most 1000x1000, not \"0x24\"",
    );
    check("[sessions]\nmax = -1\n", "c.toml:2: `max` must be a number from 1 to 10000, not -1");
    check(
        "[sessions]\nkill_grace = [1]\n",
        "c.toml:2: `kill_grace` must be a time such as \"5s\" or \"500ms\", not a list",
    );
}

#[test]
fn every_mistake_is_told_in_the_order_of_the_file() {
    let text = "[log]\nlevle = 1\n[sessions]\nmax = 0\n";
    let error = Config::parse(Path::new("c.toml"), text).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(lines[0].starts_with("c.toml:2: unknown key `levle`"), "{error}");
    assert!(lines[1].starts_with("c.toml:4: `max` must be"), "{error}");
}

#[test]
fn broken_toml_has_its_line_too() {
    let error = Config::parse(Path::new("c.toml"), "[log]\nlevel = \n").unwrap_err().to_string();
    assert!(error.starts_with("c.toml:2: "), "{error}");
}

#[test]
fn the_documented_file_is_valid_and_complete() {
    let text = documented();
    assert_eq!(Config::parse(Path::new("c.toml"), &text).unwrap(), Config::default());
    let active =
        text.replace("# sessions", "#").lines().map(uncommented).collect::<Vec<_>>().join("\n");
    let read = Config::parse(Path::new("c.toml"), &active).unwrap();
    assert_eq!(read, Config::default());
    for key in KEYS {
        assert!(text.contains(&format!("# {} = ", key.name)), "{}", key.name);
    }
}

fn uncommented(line: &str) -> String {
    let key = KEYS.iter().find(|key| line.starts_with(&format!("# {} = ", key.name)));
    match key {
        Some(key) if key.default.is_some() => line.trim_start_matches("# ").to_owned(),
        _ => line.to_owned(),
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_fall(text in "\\PC{0,200}") {
        let _ = Config::parse(Path::new("c.toml"), &text);
    }
}
