//! Who may write to the user's terminal: text of others must not reach it unescaped, so there is
//! one way out.
//!
//! The binary's `output` escapes what it prints; nobody else writes to stdout or stderr, but for
//! those named here.

use anyhow::Result;

use crate::sizes::{is_test_file, without_tests};
use crate::tree::Tree;

const FOLDER: &str = "crates/greenroom/src/";

/// Files that write by themselves, and why.
const VOICES: &[(&str, &str)] = &[
    ("output.rs", "the one way out"),
    ("player.rs", "a recording is played as it is"),
    ("attach/", "a session is shown as it is"),
    ("commands/plugin/template.rs", "text of programs to be"),
];

/// What looks at a stream and writes nothing.
const HARMLESS: &[&str] =
    &[".is_terminal()", ".as_fd()", "hangup::closed(", "tcgetwinsize(", "use_stderr()"];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let allowed =
        |path: &str| VOICES.iter().any(|(voice, _)| path[FOLDER.len()..].starts_with(voice));
    let of_the_binary = |path: &&str| path.starts_with(FOLDER) && !is_test_file(path);
    for path in tree.with_suffix(".rs").filter(of_the_binary).filter(|path| !allowed(path)) {
        let Some(text) = tree.text(path)? else { continue };
        for (number, line) in without_tests(&text) {
            let code = line.split("//").next().unwrap_or_default();
            let speaks = ["stdout()", "stderr()"].iter().any(|word| code.contains(word));
            if speaks && !HARMLESS.iter().any(|word| code.contains(word)) {
                faults.push(format!("{path}:{number}: speak through `output`, which escapes"));
            }
        }
    }
    Ok(faults)
}
