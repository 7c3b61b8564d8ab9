//! Completion scripts, and the live names they complete.

use std::process::Command;

use crate::support::{BIN, Home};

#[test]
fn scripts_for_three_shells() {
    let home = Home::new();
    for (shell, word) in
        [("bash", "complete "), ("zsh", "#compdef greenroom"), ("fish", "complete ")]
    {
        let script = home.ok(&["completions", shell]);
        assert!(script.contains(word) && script.contains("greenroom"), "{shell}: {script}");
    }
    assert!(!home.socket().exists());
}

/// What bash offers for these words.
fn bash(home: &Home, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <(greenroom completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; \
         f=$(complete -p greenroom | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f greenroom \"${{COMP_WORDS[COMP_CWORD]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let bin_dir = std::path::Path::new(BIN).parent().unwrap().display().to_string();
    let output = Command::new("bash")
        .args(["--norc", "-c", &script])
        .env_clear()
        .env("PATH", format!("{bin_dir}:/usr/bin:/bin"))
        .env("GREENROOM_HOME", home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_verbs_and_live_sessions() {
    let home = Home::new();
    assert_eq!(bash(&home, &["greenroom", "att"]), ["attach"]);
    assert_eq!(
        bash(&home, &["greenroom", "attach", ""])
            .iter()
            .filter(|word| !word.starts_with('-'))
            .count(),
        0
    );
    assert!(!home.socket().exists(), "completing must not start the host");
    home.ok(&["new", "--name", "alpha", "--", "sh", "-c", "read x"]);
    home.ok(&["new", "--name", "beta", "--", "sh", "-c", "read x"]);
    let offered = bash(&home, &["greenroom", "attach", ""]);
    for name in ["s1", "s2", "alpha", "beta"] {
        assert!(offered.iter().any(|word| word == name), "{name}: {offered:?}");
    }
    assert_eq!(bash(&home, &["greenroom", "kill", "al"]), ["alpha"]);
}
