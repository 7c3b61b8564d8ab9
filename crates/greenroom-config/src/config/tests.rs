use std::path::Path;
use std::time::Duration;

use greenroom_formats::manifest::OnFailure;

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

/// A file with every key, its meaning and its default, all commented out.
fn documented() -> String {
    let mut out = String::new();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            out.push_str(&format!("\n[{section}]\n"));
        }
        let default = key.default.unwrap_or("");
        out.push_str(&format!("# {}\n# {} = \"{default}\"\n", key.about, key.name));
    }
    out
}

fn yaml(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("c.yaml"), text).map_err(|error| error.to_string())
}

#[test]
fn datawatch_wrote_these_four() {
    let text = "plugins:\n  enabled:     true   # on\n  dir:         ~/.greenroom/plugins\n  timeout_ms:  1500\n  disabled:    [loud]\nlog:\n  level: debug\nsessions:\n";
    let config = yaml(text).unwrap();
    assert!(config.plugins.enabled);
    assert_eq!(config.plugins.dir.as_deref(), Some("~/.greenroom/plugins"));
    assert_eq!(config.plugins.timeout_ms.as_millis(), 1500);
    assert_eq!(config.plugins.disabled, ["loud"]);
    assert_eq!(config.log.level, "debug");
    assert_eq!(yaml("").unwrap(), Config::default());
    assert_eq!(yaml("plugins:\n  disabled: []\n").unwrap().plugins.disabled.len(), 0);
    assert_eq!(yaml("plugins:\n  timeout_ms: 0\n").unwrap().plugins.timeout_ms.as_millis(), 2000);
}

#[test]
fn both_syntaxes_say_the_same() {
    let text = "plugins:\n  policy:\n    output.filter: mask\n    a/session.before: block\n";
    let toml =
        "[plugins]\npolicy = { \"output.filter\" = \"mask\", \"a/session.before\" = \"block\" }\n";
    let config = yaml(text).unwrap();
    assert_eq!(config, Config::parse(Path::new("c.toml"), toml).unwrap());
    assert_eq!(config.plugins.policy["output.filter"], OnFailure::Mask);
}

#[test]
fn mistakes_in_yaml_have_their_line() {
    let check = |text: &str, expected: &str| assert_eq!(yaml(text).unwrap_err(), expected);
    check(
        "plugins:\n  enabeld: true\n",
        "c.yaml:2: unknown key `enabeld`, did you mean `enabled`?",
    );
    check(
        "plugin:\n  enabled: true\n",
        "c.yaml:1: unknown section `plugin`, did you mean `plugins`?",
    );
    check("plugins: 3\n", "c.yaml:1: `plugins` is a section: indent its keys below `plugins:`");
    check("plugins:\n  enabled: 3\n", "c.yaml:2: `enabled` must be true or false, not 3");
    check(
        "plugins:\n  policy:\n    output.filter: block\n",
        "c.yaml:3: `policy` must say one of pass, mask, hold, drop, seal for output.filter, not \"block\"",
    );
    assert!(yaml("a: &x 1\nb: *x\n").is_err());
}

#[test]
fn two_files_are_one_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let toml = dir.path().join("config.toml");
    let yaml = dir.path().join("config.yaml");
    std::fs::write(&yaml, "plugins:\n  enabled: true\n").unwrap();
    assert!(Config::load(&toml).unwrap().plugins.enabled);
    std::fs::write(&toml, "").unwrap();
    let error = Config::load(&toml).unwrap_err().to_string();
    assert!(error.contains("config.yaml is there, too: keep one of the two"), "{error}");
}
