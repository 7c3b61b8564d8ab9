//! A text becomes a manifest: syntax, shape, schema, sense.
//!
//! In: what a file is called and its bytes. Out: [`Loaded`], or every mistake in order. The form is
//! told by shape, not by the file's name; a text that is none of the four is told what each would
//! have needed.

use greenroom_plugin_api::file::{Format, Manifest};
use greenroom_protocol::api::plugin::Warning;
use serde_json::Value;

use super::{DEPTH_MAX, FILE_MAX, check, foreign, lint, schema};
use crate::tree::{At, FileError, Kind, Node, Positions, Problem, Syntax, meant, read, walk};

/// A manifest, and what is doubtful in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What the file says.
    pub manifest: Manifest,
    /// What is allowed but probably not meant, in the order of the file.
    pub warnings: Vec<Warning>,
}

/// A warning at a byte of the text.
#[derive(Debug)]
pub(super) struct Doubt {
    pub code: &'static str,
    pub at: usize,
    pub text: String,
}

impl Doubt {
    pub(super) fn new(code: &'static str, at: usize, text: impl Into<String>) -> Doubt {
        Doubt { code, at, text: text.into() }
    }
}

/// What a loader makes of a tree.
pub(super) type Read = Result<(Manifest, Vec<Doubt>), Vec<At>>;

/// Reads a manifest. `file` is what it is called in messages, and its end tells the syntax.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Loaded, FileError> {
    let fail = |line: usize, text: &str| {
        let problem = Problem { line, column: 1, text: text.to_owned() };
        FileError::new(file, vec![problem])
    };
    if bytes.len() > FILE_MAX {
        let text = format!("a manifest has at most {} KiB, this file has more", FILE_MAX / 1024);
        return Err(fail(1, &text));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        fail(before.iter().filter(|byte| **byte == b'\n').count() + 1, "this is not UTF-8")
    })?;
    let syntax = Syntax::of(file)
        .ok_or_else(|| fail(1, "the file's name must end in .toml, .yaml or .json"))?;
    let positions = Positions::new(text);
    let fail = |problems: Vec<At>| FileError::new(file, positions.place(problems));
    let root = read(syntax, text, DEPTH_MAX).map_err(|problem| fail(vec![problem]))?;
    let read = match shape(&root) {
        Ok(Format::Native) => native(&root),
        Ok(Format::Datawatch) => foreign::datawatch::load(&root, text),
        Ok(Format::Ptywright) => foreign::ptywright::load(&root),
        Ok(Format::Ainb2) => foreign::ainb::load(&root),
        Err(problem) => Err(vec![problem]),
    };
    let (manifest, mut doubts) = read.map_err(fail)?;
    doubts.extend(lint::lint(&manifest, &root));
    doubts.sort_by_key(|doubt| doubt.at);
    let warnings = doubts.into_iter().flat_map(|doubt| {
        let placed = positions.place(vec![At::new(doubt.at, doubt.text)]);
        let code = doubt.code;
        placed.into_iter().map(move |Problem { line, column, text }| Warning {
            code: code.to_owned(),
            line,
            column,
            text,
        })
    });
    Ok(Loaded { warnings: warnings.take(WARNINGS_MAX).collect(), manifest })
}

/// Reads a manifest that came as a value, such as in a request.
pub fn from_value(value: &Value) -> Result<Loaded, FileError> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    parse("manifest.json", text.as_bytes())
}

/// Warnings told at once.
const WARNINGS_MAX: usize = 50;

/// Which of the four forms this is.
fn shape(root: &Node<'_>) -> Result<Format, At> {
    if !matches!(root.kind, Kind::Map(_)) {
        return Err(At::new(root.at, "a manifest is a table of keys"));
    }
    let has = |key: &str| root.get(key).is_some();
    if has("schema") {
        return Ok(Format::Native);
    }
    if let Some(version) = root.get("plugin").and_then(|plugin| plugin.get("abi_version")) {
        return match version.value().as_u64() {
            Some(2) => Ok(Format::Ainb2),
            _ => Err(At::new(version.at, "\"abi_version\" must be 2: other versions are not read")),
        };
    }
    let kind = root.get("kind").and_then(Node::text);
    if matches!(kind, Some("adapter" | "macro" | "matcher")) || has("permissions") {
        return Ok(Format::Ptywright);
    }
    if has("entry") || has("hooks") && !has("plugin") {
        return Ok(Format::Datawatch);
    }
    if let Some(plugin) = root.member("plugin") {
        return Err(At::new(
            plugin.at,
            "the key \"schema\" is missing: begin the file with schema = 1",
        ));
    }
    let typo = root_keys(root).find_map(|(at, key)| {
        let meant = meant(key, ["schema", "entry", "hooks", "permissions", "plugin"]);
        (!meant.is_empty()).then(|| At::new(at, format!("unknown key {key:?}{meant}")))
    });
    Err(typo.unwrap_or_else(|| {
        At::new(
            root.at,
            "this is no manifest that is known here: ours has \"schema\" and \"plugin\", \
             datawatch's has \"entry\" and \"hooks\", ptywright's has \"kind\" and \"permissions\", \
             agents-in-a-box's has \"abi_version\" in \"plugin\"",
        )
    }))
}

fn root_keys<'n>(root: &'n Node<'_>) -> impl Iterator<Item = (usize, &'n str)> {
    let members = match &root.kind {
        Kind::Map(members) => members.as_slice(),
        _ => &[],
    };
    members.iter().map(|member| (member.at, member.name.as_ref()))
}

/// Tables whose absence would let something pass: a slip in their names is an error.
const GUARDED: [&str; 4] = ["hooks", "session", "capabilities", "runtime"];

fn native(root: &Node<'_>) -> Read {
    let schema = schema();
    let found = walk::check(root, &schema);
    let mut problems = found.problems;
    for (at, key) in root_keys(root) {
        let known = greenroom_protocol::nearest(key, GUARDED).filter(|known| *known != key);
        let free = key.starts_with("x-") || schema["properties"].get(key).is_some();
        if let Some(known) = known.filter(|_| !free) {
            problems.push(At::new(at, format!("unknown key {key:?}, did you mean {known:?}?")));
        }
    }
    nested_capabilities(root, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    // The schema is stricter than the types; a failure here would be a hole in it.
    let manifest: Manifest = serde_json::from_value(root.value())
        .map_err(|error| vec![At::new(root.at, error.to_string())])?;
    let problems = check::check(&manifest, root);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok((manifest, unknown_keys(found.warnings)))
}

fn unknown_keys(keys: Vec<At>) -> Vec<Doubt> {
    keys.into_iter().map(|key| Doubt::new("W-UNKNOWN", key.at, key.text)).collect()
}

/// `screen.read = true` without quotes is a table in TOML; the bare complaint would puzzle.
fn nested_capabilities(root: &Node<'_>, problems: &mut Vec<At>) {
    let Some(Node { kind: Kind::Map(members), .. }) = root.get("capabilities") else { return };
    for member in members.iter().filter(|member| member.name != "reason") {
        if let Kind::Map(inner) = &member.value.kind
            && let Some(first) = inner.first()
        {
            problems.retain(|problem| problem.at != member.at);
            let (group, verb) = (&member.name, &first.name);
            problems.push(At::new(
                member.at,
                format!("the name of a capability stands in quotes: \"{group}.{verb}\""),
            ));
        }
    }
}

/// Turns the findings of a walk over a foreign form into what a loader answers.
pub(super) fn walked(root: &Node<'_>, schema: &Value) -> Result<Vec<Doubt>, Vec<At>> {
    let found = walk::check(root, schema);
    if !found.problems.is_empty() {
        return Err(found.problems);
    }
    Ok(unknown_keys(found.warnings))
}
