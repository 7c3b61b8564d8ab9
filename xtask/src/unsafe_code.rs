//! `unsafe` lives in few places, and the other crates say so in a way the compiler holds them to.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::sizes::is_test_file;
use crate::tree::Tree;

/// Where `unsafe` may stand (a folder or a file), and why it must.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/greenroom-keeper/", "clone, exec, fd passing: the calls std has no safe form for"),
    ("crates/greenroom-sandbox/", "the confinement calls"),
    ("crates/greenroom-term/src/", "scanning runs of plain bytes"),
    ("crates/greenroom-engine/src/journal/", "the shared memory ring"),
    ("crates/greenroom-engine/src/session/terminal.rs", "tokio's registration of an fd is unsafe"),
    ("crates/greenroom-engine/src/session/heap.rs", "giving freed memory back: a call of libc"),
    ("crates/greenroom-bench/src/sys.rs", "a child on a bare PTY, SCHED_IDLE; not shipped"),
];

const FORBID: &str = "#![forbid(unsafe_code)]";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    // A test may need a raw fork; clippy still wants its `SAFETY` comment.
    for path in tree.with_suffix(".rs").filter(|path| !is_test_file(path)) {
        let Some(text) = tree.text(path)? else { continue };
        let allowed = ALLOWED.iter().any(|(place, _)| path.starts_with(place));
        for (number, line) in (1..).zip(text.lines()) {
            if !allowed && has_unsafe(line) {
                faults.push(format!("{path}:{number}: unsafe is not allowed in this file"));
            }
        }
    }
    for (root, text) in crate_roots(tree)? {
        let folder = root.split("/src/").next().unwrap_or_default();
        let exempt = ALLOWED.iter().any(|(place, _)| place.starts_with(&format!("{folder}/")));
        if !exempt && !text.lines().any(|line| line.trim() == FORBID) {
            faults.push(format!("{root}: lacks {FORBID}"));
        }
    }
    Ok(faults)
}

/// The roots of our crates: a forbid there covers the whole crate.
fn crate_roots(tree: &Tree) -> Result<Vec<(String, String)>> {
    let manifests: BTreeSet<&str> = tree
        .with_suffix("/Cargo.toml")
        .filter_map(|path| path.strip_suffix("Cargo.toml"))
        .collect();
    let mut roots = Vec::new();
    for folder in manifests.into_iter().filter(|folder| !folder.starts_with("fuzz")) {
        for name in ["src/lib.rs", "src/main.rs"] {
            let path = format!("{folder}{name}");
            if tree.has(&path)
                && let Some(text) = tree.text(&path)?
            {
                roots.push((path, text));
            }
        }
    }
    Ok(roots)
}

/// An `unsafe` block, function, impl or attribute; not the word in a comment, a string or
/// `unsafe_code`.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe trait",
        "unsafe extern",
        "#[unsafe(",
        "#![allow(unsafe_code",
    ]
    .iter()
    .any(|form| code.find(form).is_some_and(|at| code[..at].matches('"').count().is_multiple_of(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    #[test]
    fn unsafe_forms_are_seen_and_words_are_not() {
        for line in ["let x = unsafe { y() };", "    unsafe fn z() {}", "unsafe impl Send for A {}"]
        {
            assert!(has_unsafe(line), "{line}");
        }
        for line in ["// unsafe { }", FORBID, "let s = \"unsafe { }\";", "/// an unsafe fn"] {
            assert!(!has_unsafe(line), "{line}");
        }
    }

    #[test]
    fn unsafe_outside_its_places_is_caught() {
        let (_dir, tree) = fake(&[
            ("crates/greenroom-client/Cargo.toml", ""),
            ("crates/greenroom-client/src/lib.rs", "#![forbid(unsafe_code)]\nunsafe fn a() {}\n"),
            ("crates/greenroom-engine/src/journal/ring.rs", "unsafe { b() }\n"),
            ("crates/greenroom-engine/src/actor.rs", "unsafe { c() }\n"),
        ]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "crates/greenroom-client/src/lib.rs:2: unsafe is not allowed in this file",
                "crates/greenroom-engine/src/actor.rs:1: unsafe is not allowed in this file",
            ]
        );
    }

    #[test]
    fn a_crate_root_without_forbid_is_caught() {
        let (_dir, tree) = fake(&[
            ("crates/greenroom-client/Cargo.toml", ""),
            ("crates/greenroom-client/src/lib.rs", "//! Client.\n"),
            ("crates/greenroom-keeper/Cargo.toml", ""),
            ("crates/greenroom-keeper/src/lib.rs", "//! Keeper.\n"),
        ]);
        assert_eq!(
            check(&tree).unwrap(),
            ["crates/greenroom-client/src/lib.rs: lacks #![forbid(unsafe_code)]"]
        );
    }
}
