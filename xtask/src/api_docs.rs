//! `docs/api.md`, written from the method table so that it cannot disagree with the code.
//!
//! In: `greenroom_protocol::methods::document` (the table with JSON Schemas) and a hand-written
//! introduction. Out: one Markdown page. `check` fails when the tracked page is not what would be
//! written now.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use greenroom_protocol::methods::document;
use serde_json::Value;

use crate::tree::Tree;

const PAGE: &str = "docs/api.md";
const INTRODUCTION: &str = include_str!("api_docs.md");

pub fn write() -> Result<()> {
    let tree = Tree::open()?;
    std::fs::write(tree.root.join(PAGE), page()?).with_context(|| format!("cannot write {PAGE}"))
}

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let found = if tree.has(PAGE) { tree.text(PAGE)?.unwrap_or_default() } else { String::new() };
    let current = found == page()?;
    Ok(if current { Vec::new() } else { vec![format!("{PAGE} is out of date: run make docs")] })
}

fn page() -> Result<String> {
    let table = document(None).context("the table has no document")?;
    let mut out = format!("{}\n", INTRODUCTION.trim_end());
    methods(&table, &mut out);
    events(&table, &mut out);
    faults(&table, &mut out);
    types(&table, &mut out);
    Ok(out)
}

fn methods(table: &Value, out: &mut String) {
    out.push_str("\n## Methods\n");
    for method in list(&table["methods"]) {
        let _ = write!(out, "\n### {}\n\n", text(&method["name"]));
        let _ = writeln!(out, "{}.", capital(text(&method["summary"])));
        let _ = write!(out, "Scope: {}. ", text(&method["scope"]));
        out.push_str(match text(&method["repeat"]) {
            "safe" => "Safe to send again when the answer was lost.",
            _ => "Not to be sent again blindly: each call has an effect.",
        });
        if let Some(verb) = method["surfaces"]["cli"].as_str() {
            let _ = write!(out, " Command line: `greenroom {verb}`.");
        }
        let _ = write!(out, "\n\n```json\n{}\n```\n", example(&method["example"]));
        fields("Params", &method["params"], table, out);
        fields("Result", &method["result"], table, out);
    }
}

/// The example as one would type it.
fn example(value: &Value) -> String {
    let inner: Vec<String> = value
        .as_object()
        .map(|map| map.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect())
        .unwrap_or_default();
    if inner.is_empty() { "{}".to_owned() } else { format!("{{{}}}", inner.join(", ")) }
}

/// A table of the members of a params or result object.
fn fields(title: &str, schema: &Value, table: &Value, out: &mut String) {
    let (name, resolved) = resolve(schema, table);
    let Some(properties) = resolved["properties"].as_object().filter(|map| !map.is_empty()) else {
        match name {
            Some(name) if resolved["type"] != "object" => {
                let _ = write!(out, "\n{title}: {}.\n", link(name));
            }
            _ => {
                let _ = write!(out, "\n{title}: none.\n");
            }
        }
        return;
    };
    let _ = write!(out, "\n| {title} | type | |\n|---|---|---|\n");
    let required: Vec<&str> = list(&resolved["required"]).map(text).collect();
    for (name, schema) in properties {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let about = cell(schema["description"].as_str().unwrap_or_default());
        let _ = writeln!(out, "| `{name}`{mark} | {} | {about} |", kind(schema));
    }
}

fn events(table: &Value, out: &mut String) {
    out.push_str("\n## Events and pushes\n\n");
    out.push_str("Logged events have an id and can be replayed (`server.subscribe`); the others are only pushed to those connected.\n\n");
    out.push_str("| kind | logged | when | what is in `data` |\n|---|---|---|---|\n");
    for event in list(&table["events"]) {
        let logged = if event["logged"] == true { "yes" } else { "no" };
        let data: Vec<&str> = list(&event["data"]).map(text).collect();
        let _ = writeln!(
            out,
            "| `{}` | {logged} | {} | {} |",
            text(&event["kind"]),
            cell(text(&event["summary"])),
            data.join(", ")
        );
    }
}

fn faults(table: &Value, out: &mut String) {
    out.push_str("\n## Errors\n\n");
    out.push_str("Act on `error.data.kind`; the code is for clients that know only JSON-RPC, the last column is the exit code of the command line.\n\n");
    out.push_str("| `data.kind` | code | meaning | exit |\n|---|---|---|---|\n");
    for fault in list(&table["faults"]) {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            text(&fault["kind"]),
            fault["code"],
            cell(text(&fault["summary"])),
            fault["exit"]
        );
    }
}

/// Every named type that is not the params or the result of one method, which are above.
fn types(table: &Value, out: &mut String) {
    out.push_str("\n## Types\n");
    let Some(definitions) = table["$defs"].as_object() else { return };
    let top: Vec<&str> = list(&table["methods"])
        .flat_map(|method| [&method["params"], &method["result"]])
        .filter_map(|schema| resolve(schema, table).0)
        .collect();
    for (name, schema) in definitions {
        let shown_above = top.contains(&name.as_str()) && schema["type"] == "object";
        if shown_above && !is_referenced(name, table) {
            continue;
        }
        let _ = write!(out, "\n### {name}\n");
        if let Some(about) = schema["description"].as_str() {
            let _ = write!(out, "\n{}\n", one_line(about));
        }
        if is_object(schema) {
            fields("Member", schema, table, out);
        } else if let Some(variants) = variants(schema) {
            out.push_str("\n| one of | |\n|---|---|\n");
            for (form, about) in variants {
                let _ = writeln!(out, "| {form} | {} |", cell(&about));
            }
        } else {
            let _ = write!(out, "\nOn the wire: {}.\n", kind(schema));
        }
    }
}

/// Whether a definition is used by another definition, so that a link must lead somewhere.
fn is_referenced(name: &str, table: &Value) -> bool {
    let reference = format!("\"#/$defs/{name}\"");
    table["$defs"].to_string().contains(&reference)
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object() && variants(schema).is_none()
}

/// The forms of a type that is one of several: `(how it looks, what it means)`.
fn variants(schema: &Value) -> Option<Vec<(String, String)>> {
    let several = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().map(|value| (format!("`{value}`"), String::new())).collect());
    }
    let forms = several?.iter().flat_map(|form| {
        let about = form["description"].as_str().unwrap_or_default().to_owned();
        match form["enum"].as_array() {
            Some(values) => {
                values.iter().map(|value| (format!("`{value}`"), about.clone())).collect()
            }
            None => vec![(kind(form), about)],
        }
    });
    Some(forms.collect())
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return link(name);
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(forms) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let words: Vec<String> =
            forms.iter().filter(|form| form["type"] != "null").map(kind).collect();
        return words.join(" or ");
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().map(kind).collect::<Vec<_>>().join(" and ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
    }
    let name = match &schema["type"] {
        Value::Array(types) => types.iter().map(text).find(|name| *name != "null").unwrap_or("any"),
        Value::String(name) => name,
        _ => "any",
    };
    match name {
        "array" if schema["items"].is_null() => "list".to_owned(),
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => object(schema),
        "boolean" => "bool".to_owned(),
        other => other.to_owned(),
    }
}

fn object(schema: &Value) -> String {
    if let Some(properties) = schema["properties"].as_object() {
        let members: Vec<String> = properties
            .iter()
            .map(|(name, schema)| format!("{name}: {}", kind(schema).replace('`', "")))
            .collect();
        return format!("{{{}}}", members.join(", "));
    }
    match &schema["additionalProperties"] {
        Value::Object(_) => format!("map to {}", kind(&schema["additionalProperties"])),
        _ => "object".to_owned(),
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// A schema behind its reference, and the name it had.
fn resolve<'a>(schema: &'a Value, table: &'a Value) -> (Option<&'a str>, &'a Value) {
    match reference(schema) {
        Some(name) => (Some(name), &table["$defs"][name]),
        None => (None, schema),
    }
}

fn link(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Text that stays inside a cell of a table.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::events;
    use greenroom_protocol::methods::METHODS;
    use serde_json::json;

    use super::*;
    use crate::tree::fake;

    #[test]
    fn every_row_of_the_tables_is_on_the_page() {
        let page = page().unwrap();
        for method in METHODS {
            assert!(page.contains(&format!("\n### {}\n", method.name)), "{}", method.name);
        }
        for event in events::all() {
            assert!(page.contains(&format!("| `{}` |", event.kind)), "{}", event.kind);
        }
    }

    #[test]
    fn links_on_the_page_lead_somewhere() {
        let page = page().unwrap();
        let (_dir, tree) = fake(&[("ARCHITECTURE.md", ""), (PAGE, &page)]);
        let broken: Vec<String> = crate::documents::check(&tree)
            .unwrap()
            .into_iter()
            .filter(|fault| fault.contains("link to #"))
            .collect();
        assert_eq!(broken, [""; 0]);
    }

    #[test]
    fn a_stale_or_missing_page_is_caught() {
        let (_dir, tree) = fake(&[(PAGE, "# Old\n")]);
        assert_eq!(check(&tree).unwrap().len(), 1);
        let (_dir, tree) = fake(&[]);
        assert_eq!(check(&tree).unwrap().len(), 1);
        let (_dir, tree) = fake(&[(PAGE, &page().unwrap())]);
        assert_eq!(check(&tree).unwrap(), [""; 0]);
    }

    #[test]
    fn schemas_in_words() {
        let check = |schema: Value, expected: &str| assert_eq!(kind(&schema), expected);
        check(json!({"type": ["string", "null"]}), "string");
        check(json!({"type": "array", "items": {"type": "boolean"}}), "list of bool");
        check(json!({"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]}), "[Size](#size)");
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "map to string",
        );
        check(json!(true), "any");
    }
}
