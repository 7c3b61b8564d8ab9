//! Nothing of the machine it was written on: no absolute home or workplace paths, no private
//! registries.

use anyhow::Result;

use crate::tree::Tree;

/// Texts that must not be tracked. Split in two so that this file does not contain them.
const FORBIDDEN: &[(&str, &str)] = &[
    ("/work/", "main"),
    ("/work/", "shared"),
    ("/work/", "outline"),
    ("/tmp/", "t-"),
    ("/ro", "ot/."),
    ("/ro", "ot/work"),
    ("artifac", "tory"),
    ("CARGO_REGISTRIES", "_"),
];

/// The only registry a lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in &tree.files {
        let Some(text) = tree.text(path)? else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(found) = leak(line) {
                faults.push(format!("{path}:{number}: contains {found}"));
            }
            if path.ends_with("Cargo.lock")
                && line.starts_with("source = ")
                && !line.contains(REGISTRY)
            {
                faults.push(format!("{path}:{number}: not from crates.io: {line}"));
            }
        }
    }
    Ok(faults)
}

fn leak(line: &str) -> Option<String> {
    FORBIDDEN.iter().map(|(head, tail)| format!("{head}{tail}")).find(|text| line.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    #[test]
    fn every_forbidden_text_is_caught() {
        for (head, tail) in FORBIDDEN {
            let line = format!("see {head}{tail} there");
            let (_dir, tree) = fake(&[("notes.md", &line)]);
            assert_eq!(check(&tree).unwrap(), [format!("notes.md:1: contains {head}{tail}")]);
        }
    }

    #[test]
    fn a_foreign_source_in_a_lock_file_is_caught() {
        let good = format!("source = \"{REGISTRY}\"\n");
        let (_dir, tree) = fake(&[
            ("Cargo.lock", &good),
            ("fuzz/Cargo.lock", "source = \"sparse+https://example.org/index/\"\n"),
        ]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "fuzz/Cargo.lock:1: not from crates.io: source = \"sparse+https://example.org/index/\""
            ]
        );
    }
}
