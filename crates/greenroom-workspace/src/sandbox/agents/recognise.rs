//! Which agents a command line starts: by the program's name, where it is installed, or what a
//! wrapper is told to run.
//!
//! Only words in the place of a program count: `grep claude` starts no agent. What is not
//! recognised gets nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{AGENTS, Agent};

/// Programs that run the program they are given, after options and assignments.
const WRAPPERS: &[&str] = &[
    "env",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "time",
    "timeout",
    "command",
    "exec",
    "caffeinate",
    "unbuffer",
    "dumb-init",
    "tini",
];
/// Programs that run a file or a package: the first word that is no option is it.
const RUNNERS: &[&str] =
    &["node", "nodejs", "bun", "deno", "npx", "bunx", "pnpx", "uvx", "python", "python3"];
/// With a word in between.
const INSTALLERS: &[&str] = &["npm", "pnpm", "yarn", "bun", "uv", "pipx"];
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh", "fish", "busybox", "ash"];
/// Wrappers in wrappers; beyond this it is no command line a person wrote.
const DEPTH_MAX: usize = 8;

/// The agents that `argv` starts, and the one that the adapter is called after. `path` is the
/// session's `PATH`.
pub fn among(
    argv: &[OsString],
    backend: Option<&str>,
    path: Option<&OsStr>,
) -> Vec<&'static Agent> {
    let words: Vec<&str> = argv.iter().filter_map(|word| word.to_str()).collect();
    let mut found = Vec::new();
    if let Some(backend) = backend {
        found.extend(AGENTS.iter().find(|agent| agent.name == backend));
    }
    command(&words, path, 0, &mut found);
    found.sort_by_key(|agent| agent.name);
    found.dedup_by_key(|agent| agent.name);
    found
}

fn command(words: &[&str], path: Option<&OsStr>, depth: usize, found: &mut Vec<&'static Agent>) {
    let Some((program, rest)) = words.split_first().filter(|_| depth < DEPTH_MAX) else { return };
    if let Some(agent) = named(program).or_else(|| installed(program, path)) {
        found.push(agent);
        return;
    }
    let name = base(program);
    if SHELLS.contains(&name) {
        // `-c TEXT`, also in `-lc TEXT`; or a script.
        let text = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
        match text.and_then(|at| rest.get(at + 1)) {
            Some(text) => shell(text, path, depth + 1, found),
            None => script(rest, path, found),
        }
    } else if WRAPPERS.contains(&name) {
        let assigned = |word: &&&str| word.starts_with('-') || word.contains('=') || number(word);
        let skip = rest.iter().take_while(assigned).count();
        command(&rest[skip..], path, depth + 1, found);
    } else if RUNNERS.contains(&name) {
        script(rest, path, found);
    }
    if INSTALLERS.contains(&name) {
        script(rest.get(1..).unwrap_or_default(), path, found);
    }
}

/// The first word that is a file or a package; of the options some name it too (`--package=x`).
fn script(words: &[&str], path: Option<&OsStr>, found: &mut Vec<&'static Agent>) {
    for word in words {
        let word = word.rsplit('=').next().unwrap_or_default();
        if let Some(agent) = package(word).or_else(|| named(word)).or_else(|| installed(word, path))
        {
            found.push(agent);
            return;
        }
        if !word.starts_with('-') && word.contains(['/', '.']) {
            return;
        }
    }
}

/// A line for a shell: each word at the beginning of a command.
fn shell(text: &str, path: Option<&OsStr>, depth: usize, found: &mut Vec<&'static Agent>) {
    for part in text.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`']) {
        let words = part.split_whitespace().map(|word| word.trim_matches(['"', '\'', '$']));
        let words: Vec<&str> = words
            .skip_while(|word| {
                let keyword = ["if", "then", "else", "do", "while", "until", "!", "elif"];
                word.contains('=') || keyword.contains(word)
            })
            .collect();
        command(&words, path, depth, found);
    }
}

fn number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

fn named(program: &str) -> Option<&'static Agent> {
    let name = base(program);
    AGENTS.iter().find(|agent| agent.programs.contains(&name))
}

/// `@scope/name`, with a version behind it or not.
fn package(word: &str) -> Option<&'static Agent> {
    let versioned = |package: &str| {
        word.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
    };
    AGENTS.iter().find(|agent| agent.packages.iter().any(|package| versioned(package)))
}

/// By where the file lies, or what it is a link to.
fn installed(program: &str, path: Option<&OsStr>) -> Option<&'static Agent> {
    let found = match program.contains('/') {
        true => Path::new(program).canonicalize().ok()?,
        false => {
            let place = |dir: std::path::PathBuf| dir.join(program).canonicalize().ok();
            std::env::split_paths(path?).find_map(place)?
        }
    };
    let found = found.to_str()?;
    let inside = |package: &&str| found.contains(&format!("/{package}/"));
    let by_place = AGENTS.iter().find(|agent| agent.packages.iter().any(inside));
    by_place.or_else(|| named(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> Vec<&'static str> {
        let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
        among(&argv, None, None).into_iter().map(|agent| agent.name).collect()
    }

    #[test]
    fn an_agent_is_known_however_it_is_started() {
        for line in [
            &["claude"][..],
            &["/opt/x/bin/claude", "--continue"],
            &["npx", "-y", "@anthropic-ai/claude-code@latest"],
            &["npm", "exec", "@anthropic-ai/claude-code"],
            &["node", "--no-warnings", "/opt/claude"],
            &["bash", "-lc", "cd /x && claude --continue"],
            &["sh", "-c", "A=1 exec claude"],
            &["env", "-i", "A=1", "claude"],
            &["timeout", "-k", "5", "60", "nice", "-n", "5", "claude"],
            &["bash", "-c", "if true; then claude; fi"],
        ] {
            assert_eq!(of(line), ["claude"], "{line:?}");
        }
        assert_eq!(of(&["sh", "-c", "claude -p x | codex exec -"]), ["claude", "codex"]);
        assert_eq!(of(&["gemini"]), ["gemini"]);
    }

    #[test]
    fn a_word_elsewhere_is_no_program() {
        for line in [
            &["grep", "claude", "x"][..],
            &["bash", "-c", "echo claude"],
            &["sh", "-c", "cat codex"],
            &["vim", "claude"],
            &["bash"],
            &[],
        ] {
            assert!(of(line).is_empty(), "{line:?}");
        }
    }

    #[test]
    fn an_adapter_names_its_agent() {
        let found = among(&["my-wrapper".into()], Some("codex"), None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "codex");
    }

    #[test]
    fn a_link_is_known_by_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("node_modules/@openai/codex/bin");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("cli.js"), "").unwrap();
        std::os::unix::fs::symlink(package.join("cli.js"), dir.path().join("cx")).unwrap();
        let found = among(&["cx".into()], None, Some(dir.path().as_os_str()));
        assert_eq!(found.first().map(|agent| agent.name), Some("codex"));
        let direct = among(&["node".into(), package.join("cli.js").into()], None, None);
        assert_eq!(direct.first().map(|agent| agent.name), Some("codex"));
    }
}
