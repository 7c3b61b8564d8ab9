//! Two rooms of a crate that need each other are one room: counts pairs of top-level modules that
//! use each other.
//!
//! In: the sources of each crate, without tests. Out: crates with more pairs than the table allows,
//! or fewer: a pair that was taken apart lowers the number, so that it cannot come back.
//! Deliberately absent: cycles of three and more.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::sizes::{is_test_file, without_tests};
use crate::tree::Tree;

/// Crates that have such pairs, and how many. All others have none.
const PAIRS: &[(&str, usize)] = &[
    ("fake-agent", 1),
    ("greenroom", 3),
    ("greenroom-client", 2),
    ("greenroom-daemon", 1),
    ("greenroom-engine", 3),
    ("greenroom-keeper", 3),
    ("greenroom-plugin-api", 1),
    ("greenroom-sandbox", 2),
    ("greenroom-term", 1),
];

/// A module and those it uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    check_with(tree, PAIRS)
}

fn check_with(tree: &Tree, allowed: &[(&str, usize)]) -> Result<Vec<String>> {
    let crates = uses(tree)?;
    let mut faults = Vec::new();
    for (name, uses) in &crates {
        let pairs = pairs(uses);
        let limit = allowed.iter().find(|(allowed, _)| allowed == name).map_or(0, |(_, n)| *n);
        if pairs.len() > limit {
            let shown: Vec<String> = pairs.iter().map(|(a, b)| format!("{a} ↔ {b}")).collect();
            let (count, shown) = (pairs.len(), shown.join(", "));
            faults.push(format!("{name}: {count} module cycles, at most {limit}: {shown}"));
        }
        if pairs.len() < limit {
            let count = pairs.len();
            faults.push(format!("{name}: {count} module cycles; lower its {limit} in the table"));
        }
    }
    for (name, _) in allowed.iter().filter(|(name, _)| !crates.contains_key(name)) {
        faults.push(format!("{name}: is in the table of module cycles and does not exist"));
    }
    Ok(faults)
}

/// The top-level modules of each crate, and the names that each of them uses.
pub fn uses(tree: &Tree) -> Result<BTreeMap<&str, Uses>> {
    let mut crates: BTreeMap<&str, Uses> = BTreeMap::new();
    for path in tree.with_suffix(".rs").filter(|path| !is_test_file(path)) {
        let Some((name, inside)) = in_crate(path) else { continue };
        let Some(text) = tree.text(path)? else { continue };
        let module = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
        let uses = crates.entry(name).or_default().entry(module.to_owned()).or_default();
        uses.extend(used(&text, depth(inside)));
    }
    Ok(crates)
}

/// `crates/NAME/src/INSIDE`, for files of modules: the root is above all of them.
fn in_crate(path: &str) -> Option<(&str, &str)> {
    let (name, inside) = match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once("/src/")?,
        None => ("xtask", path.strip_prefix("xtask/src/")?),
    };
    let root = matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/");
    (!root).then_some((name, inside))
}

/// How many modules a file is below the root: `a.rs` and `a/mod.rs` one, `a/b.rs` two.
fn depth(inside: &str) -> usize {
    let parts = inside.split('/').count();
    if inside.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The top-level names a source file uses: `crate::a`, `crate::{a, b::C}`, or `super::a` from as
/// deep as it is.
fn used(text: &str, depth: usize) -> BTreeSet<String> {
    let lines = without_tests(text).map(|(_, line)| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || matches!(before, '_' | ':') {
                continue;
            }
            match code[at + root.len()..].strip_prefix('{') {
                Some(group) => names.extend(in_group(group)),
                None => names.extend(first_name(&code[at + root.len()..])),
            }
        }
    }
    names
}

/// The first names of the members of `a, b::{C, D}}`.
fn in_group(group: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut open, mut member) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open > 0 => open -= 1,
            ',' | '}' if open == 0 => {
                names.extend(first_name(&group[member..at]));
                member = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn first_name(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Modules that use each other, each pair once.
fn pairs(uses: &Uses) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    for (one, used) in uses {
        for other in used.iter().filter(|other| *other > one) {
            if uses.get(other).is_some_and(|back| back.contains(one)) {
                pairs.push((one.as_str(), other.as_str()));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    fn names(text: &str, depth: usize) -> Vec<String> {
        used(text, depth).into_iter().collect()
    }

    #[test]
    fn every_way_to_name_a_module_counts() {
        assert_eq!(names("use crate::a::B;\nfn f(x: crate::c::D) {}\n", 1), ["a", "c"]);
        assert_eq!(
            names("use crate::{\n    a, b::{C, d::E},\n    f as g,\n};\n", 1),
            ["a", "b", "f"]
        );
        assert_eq!(names("use super::a;\n", 1), ["a"]);
        assert_eq!(names("use super::a;\nuse super::super::b;\n", 2), ["b"]);
        assert_eq!(names("use my_crate::a;\n", 1), [""; 0]);
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        let text = "//! See [`crate::a`].\nfn f() {} // crate::b\n#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n";
        assert_eq!(names(text, 1), [""; 0]);
    }

    #[test]
    fn a_pair_is_counted_once_and_must_stand_in_the_table() {
        let files = [
            ("crates/k/src/lib.rs", "mod a;\nuse crate::a;\n"),
            ("crates/k/src/a.rs", "use crate::b;\n"),
            ("crates/k/src/b/mod.rs", "mod c;\n"),
            ("crates/k/src/b/c.rs", "use crate::a::A;\nuse crate::b::B;\n"),
            ("crates/k/src/d.rs", "use crate::a;\n"),
            ("crates/k/src/a/tests.rs", "use crate::d;\n"),
            ("crates/k/tests/it/main.rs", "use crate::d;\n"),
        ];
        let (_dir, tree) = fake(&files);
        assert_eq!(check_with(&tree, &[]).unwrap(), ["k: 1 module cycles, at most 0: a ↔ b"]);
        assert_eq!(check_with(&tree, &[("k", 1)]).unwrap(), [""; 0]);
        let generous = check_with(&tree, &[("k", 2)]).unwrap();
        assert_eq!(generous, ["k: 1 module cycles; lower its 2 in the table"]);
        let gone = check_with(&tree, &[("k", 1), ("gone", 0)]).unwrap();
        assert_eq!(gone, ["gone: is in the table of module cycles and does not exist"]);
    }
}
