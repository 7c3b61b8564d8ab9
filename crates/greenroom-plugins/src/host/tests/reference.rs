//! `docs/hooks-reference.md` says what the tables say.

use std::path::Path;

use greenroom_formats::manifest::{Class, HOOKS, OnFailure};

use crate::host::shape::Shape;

fn recorded() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks-reference.md");
    std::fs::read_to_string(file).unwrap()
}

/// The rows of the table below a hook's heading.
fn section<'a>(recorded: &'a str, name: &str) -> &'a str {
    let heading = format!("### `{name}`\n");
    let (_, after) = recorded.split_once(&heading).unwrap_or_else(|| panic!("no section {name}"));
    after.split("\n### ").next().unwrap_or(after)
}

fn row<'a>(section: &'a str, name: &str) -> &'a str {
    let begin = format!("| {name} | ");
    let row = section.lines().find_map(|line| line.strip_prefix(&begin));
    row.unwrap_or_else(|| panic!("no row {name} in {section}")).trim_end_matches(" |")
}

fn words(row: &str) -> Vec<&str> {
    row.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_reference_says_what_the_tables_say() {
    let recorded = recorded();
    let headings = recorded.lines().filter(|line| line.starts_with("### `")).count();
    assert_eq!(headings, HOOKS.len());
    for hook in HOOKS {
        let shape = Shape::of(hook.hook);
        let section = section(&recorded, hook.name);
        assert_eq!(row(section, "class"), hook.class.word(), "{}", hook.name);
        let deadline = match hook.deadline.as_millis() {
            ms if ms >= 1000 => format!("{} s", ms as f64 / 1000.0),
            ms => format!("{ms} ms"),
        };
        let rest = row(section, "deadline").strip_prefix(&deadline);
        let whole = rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        assert!(whole, "{}", hook.name);
        let mut policies = vec![hook.on_failure.word()];
        policies.extend(
            hook.datawatch
                .iter()
                .flat_map(|datawatch| [datawatch.name, datawatch.on_failure.word()]),
        );
        assert_eq!(words(row(section, "on failure")), policies, "{}", hook.name);
        assert_eq!(words(row(section, "payload")), shape.payload, "{}", hook.name);
        if hook.class != Class::Observe {
            assert_eq!(words(row(section, "verdicts")), shape.verdicts, "{}", hook.name);
        }
        let fields: Vec<&str> = shape.fields.iter().map(|(name, _)| *name).collect();
        if !fields.is_empty() {
            assert_eq!(words(row(section, "may change")), fields, "{}", hook.name);
        }
        if let Some(datawatch) = hook.datawatch {
            let mut expected = vec![datawatch.name];
            expected.extend(shape.datawatch);
            assert_eq!(words(row(section, "datawatch")), expected, "{}", hook.name);
        }
    }
}

#[test]
fn every_policy_is_explained() {
    use OnFailure::{Ask, Block, Drop, Hold, Mask, Pass, Seal};
    let recorded = recorded();
    for policy in [Pass, Block, Ask, Mask, Hold, Drop, Seal] {
        assert!(recorded.contains(&format!("| `{policy}` |")), "{policy}");
    }
}
