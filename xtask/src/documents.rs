//! Documents match the tree: paths named in ARCHITECTURE.md exist, relative links resolve, the map
//! stays a map.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::tree::Tree;

pub const MAP: &str = "ARCHITECTURE.md";
/// A longer map is a manual; manuals live in `docs/`.
const MAP_MAX_LINES: usize = 400;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in tree.with_suffix(".md") {
        let Some(text) = tree.text(path)? else { continue };
        faults.extend(broken_links(tree, path, &text)?);
    }
    if !tree.has(MAP) {
        faults.push(format!("{MAP} is missing"));
    } else if let Some(text) = tree.text(MAP)? {
        faults.extend(missing_paths(tree, &text));
        let lines = text.lines().count();
        if lines > MAP_MAX_LINES {
            faults.push(format!("{MAP}: {lines} lines, at most {MAP_MAX_LINES}"));
        }
    }
    Ok(faults)
}

/// Paths in backticks in the map that are not in the tree. `a/{b,c}.rs` names two; in the section
/// of a crate, `x.rs` may be a file of its `src`.
fn missing_paths(tree: &Tree, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut sources: Vec<String> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with('#') {
            sources = crates_of(tree, line).map(|name| format!("{name}/src/")).collect();
        }
        for path in paths(line) {
            let inside = sources.iter().any(|source| tree.has(&format!("{source}{path}")));
            if !inside && !tree.has(&path) {
                faults.push(format!("{MAP}:{number}: `{path}` does not exist"));
            }
        }
    }
    faults
}

/// The folders of crates that a heading names.
pub fn crates_of(tree: &Tree, heading: &str) -> impl Iterator<Item = String> {
    paths(heading).into_iter().filter(|path| tree.has(&format!("{path}/Cargo.toml")))
}

/// The paths in backticks of a line.
pub fn paths(line: &str) -> Vec<String> {
    let tokens = line.split('`').skip(1).step_by(2);
    tokens.filter(|token| looks_like_path(token)).flat_map(expand).collect()
}

/// A path of the repository: has a slash or a file ending, and is not absolute, a home path, a
/// variable, a method name or a URL.
fn looks_like_path(token: &str) -> bool {
    let plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "._-/{},".contains(c));
    let ending = [".rs", ".md", ".toml", ".lua", ".sh"].iter().any(|end| token.ends_with(end));
    plain && (token.contains('/') || ending) && !token.starts_with('/')
}

/// Shell-like expansion of one brace group after the other.
fn expand(token: &str) -> Vec<String> {
    let (Some(open), Some(close)) = (token.find('{'), token.find('}')) else {
        return vec![token.to_owned()];
    };
    let (head, tail) = (&token[..open], &token[close + 1..]);
    token[open + 1..close]
        .split(',')
        .flat_map(|middle| expand(&format!("{head}{middle}{tail}")))
        .collect()
}

fn broken_links(tree: &Tree, path: &str, text: &str) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (number, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let resolved = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
        if !tree.has(&resolved) {
            faults.push(format!("{path}:{number}: link to {target}: no such file"));
        } else if !anchor.is_empty() && resolved.ends_with(".md") {
            let linked = tree.text(&resolved)?.unwrap_or_default();
            if !anchors(&linked).contains(anchor) {
                faults.push(format!("{path}:{number}: link to {target}: no such heading"));
            }
        }
    }
    Ok(faults)
}

/// Targets of `[text](target)` outside code, with their line numbers.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for piece in line.split('`').step_by(2) {
            for rest in piece.split("](").skip(1) {
                if let Some(target) = rest.split(')').next() {
                    found.push((number, target.split(' ').next().unwrap_or(target)));
                }
            }
        }
    }
    found
}

/// Numbered lines outside fenced code and hidden shell blocks (`<!-- sh`).
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut fenced, mut hidden) = (false, false);
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let bare = line.trim();
        hidden |= !fenced && bare == "<!-- sh";
        let fence = !hidden && bare.starts_with("```");
        fenced ^= fence;
        let shown = !fenced && !fence && !hidden;
        hidden &= bare != "-->";
        shown
    })
}

/// The anchors a forge makes of headings: lower case, punctuation gone, spaces to dashes.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// `link` as seen from the document `from`, relative to the root of the repository.
fn resolve(from: &str, link: &str) -> String {
    let mut path = Path::new(from).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::RootDir => path = PathBuf::new(),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    #[test]
    fn paths_are_told_from_other_words() {
        for path in ["crates/a/src/lib.rs", "Makefile.toml", "docs/", "crates/{a,b}/src"] {
            assert!(looks_like_path(path), "{path}");
        }
        for word in ["session.create", "$GREENROOM_HOME/run", "/proc/self", "~/.config", "kill -9"]
        {
            assert!(!looks_like_path(word), "{word}");
        }
    }

    #[test]
    fn braces_expand() {
        assert_eq!(expand("a/{b,c}/{d,e}.rs"), ["a/b/d.rs", "a/b/e.rs", "a/c/d.rs", "a/c/e.rs"]);
    }

    #[test]
    fn a_path_that_is_gone_is_caught() {
        let (_dir, tree) = fake(&[
            ("ARCHITECTURE.md", "See `src/{here,gone}.rs` and `src/`.\n"),
            ("src/here.rs", ""),
        ]);
        assert_eq!(check(&tree).unwrap(), ["ARCHITECTURE.md:1: `src/gone.rs` does not exist"]);
    }

    #[test]
    fn in_the_section_of_a_crate_paths_are_of_its_sources() {
        let text = "# M\n\n## `crates/a`: it\n\n| `here.rs`, `gone.rs` |\n\n## Next\n\n`here.rs`\n";
        let (_dir, tree) = fake(&[
            ("ARCHITECTURE.md", text),
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/here.rs", ""),
        ]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "ARCHITECTURE.md:5: `gone.rs` does not exist",
                "ARCHITECTURE.md:9: `here.rs` does not exist",
            ]
        );
    }

    #[test]
    fn a_map_that_became_a_manual_is_caught() {
        let (_dir, tree) = fake(&[("ARCHITECTURE.md", &"x\n".repeat(401))]);
        assert_eq!(check(&tree).unwrap(), ["ARCHITECTURE.md: 401 lines, at most 400"]);
    }

    #[test]
    fn links_to_files_and_headings_are_checked_and_code_is_not() {
        let text = "# Two Words!\n[a](docs/a.md#part-one) [b](docs/b.md) [c](#two-words) [d](#gone)\n\
                    [e](https://example.org/x) `[f](gone.md)`\n```\n[g](gone.md)\n```\n[h](docs/a.md#gone)\n";
        let (_dir, tree) = fake(&[
            ("ARCHITECTURE.md", ""),
            ("README.md", text),
            ("docs/a.md", "## Part one\n[up](../README.md) [side](b.md)\n"),
        ]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "README.md:2: link to docs/b.md: no such file",
                "README.md:2: link to #gone: no such heading",
                "README.md:7: link to docs/a.md#gone: no such heading",
                "docs/a.md:2: link to b.md: no such file",
            ]
        );
    }
}
