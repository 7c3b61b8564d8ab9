//! The name of a method or of an event stands in its table and nowhere else: everybody goes by its
//! type (`method::SessionList`, `SessionRenamed::KIND`).
//!
//! In: the tables and our sources. Out: string literals that are such a name, and events that
//! nobody makes. Tests and documents may use names, since they speak as clients do.

use anyhow::Result;
use greenroom_protocol::events;
use greenroom_protocol::methods::METHODS;

use crate::sizes::{is_test_file, without_tests};
use crate::tree::Tree;

/// The tables themselves.
const TABLES: [&str; 2] =
    ["crates/greenroom-protocol/src/methods.rs", "crates/greenroom-protocol/src/events.rs"];

/// Where such a word is something else, and what.
const OTHERS: &[(&str, &str)] = &[
    ("crates/greenroom-plugin-api/src/", "the name of a capability or a hook"),
    ("crates/greenroom-formats/src/manifest/", "the name of a capability"),
];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut unsent: Vec<(String, &str)> =
        events::EVENTS.iter().map(|event| (made(event.kind), event.kind)).collect();
    let other = |path: &str| OTHERS.iter().any(|(place, _)| path.starts_with(place));
    let ours = |path: &&str| {
        path.contains("/src/") && !TABLES.contains(path) && !other(path) && !is_test_file(path)
    };
    for path in tree.with_suffix(".rs").filter(ours) {
        let Some(text) = tree.text(path)? else { continue };
        for (number, line) in without_tests(&text) {
            let code = line.split("//").next().unwrap_or_default();
            unsent.retain(|(made, _)| !code.contains(made));
            // Every second piece is inside of quotes.
            for name in code.split('"').skip(1).step_by(2).filter(|word| is_name(word)) {
                let what = "stands in the table; use its type";
                faults.push(format!("{path}:{number}: \"{name}\" {what}"));
            }
        }
    }
    let unsent =
        unsent.iter().map(|(_, kind)| format!("the event {kind} has a row and nobody makes it"));
    faults.extend(unsent);
    Ok(faults)
}

/// How the type of an event looks where one is made: `SessionRenamed {`.
fn made(kind: &str) -> String {
    let parts = kind.split(['.', '_']);
    parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect::<String>() + " {"
}

fn is_name(word: &str) -> bool {
    METHODS.iter().any(|method| method.name == word)
        || events::all().any(|event| event.kind == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    #[test]
    fn names_of_methods_are_found_outside_of_the_table_and_tests() {
        let code = "call(\"session.list\");\n// \"session.list\"\nlog(\"session.titled\");\n";
        let (_dir, tree) = fake(&[
            ("crates/a/src/b.rs", code),
            ("crates/a/tests/it/b.rs", code),
            (TABLES[0], code),
        ]);
        let found = check(&tree).unwrap();
        assert_eq!(
            found[0],
            "crates/a/src/b.rs:1: \"session.list\" stands in the table; use its type"
        );
        assert!(!found[1].contains("\"session.list\""), "{found:?}");
    }

    #[test]
    fn an_event_that_nobody_makes_is_found() {
        let code = "storage.log(about(id, SessionRenamed { name }));\n// SessionBell {}\n";
        let (_dir, tree) = fake(&[("crates/a/src/b.rs", code)]);
        let found = check(&tree).unwrap();
        assert!(found.iter().any(|fault| fault.contains("session.bell")), "{found:?}");
        assert!(!found.iter().any(|fault| fault.contains("session.renamed")), "{found:?}");
    }
}
