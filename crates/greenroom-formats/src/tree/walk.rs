//! A file beside its schema: unknown keys, wrong types, numbers out of range, each at its place.
//!
//! Reads the part of JSON Schema that our types use. What it does not know it lets pass: the types
//! themselves are read afterwards.

use serde_json::Value;

use super::position::At;
use super::{Kind, Member, Node, meant};

/// What a walk found.
#[derive(Debug, Default)]
pub struct Found {
    /// What is wrong.
    pub problems: Vec<At>,
    /// Keys that nobody reads, in tables that are open to more.
    pub warnings: Vec<At>,
}

/// Compares a file with its schema.
pub fn check(root: &Node<'_>, schema: &Value) -> Found {
    let mut walk = Walk { root: schema, found: Found::default() };
    walk.node(root, schema, None);
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    found: Found,
}

impl<'s> Walk<'s> {
    fn node(&mut self, node: &Node<'_>, schema: &'s Value, name: Option<&str>) {
        let schema = self.resolved(schema);
        if let Some(forms) = forms(schema) {
            return self.one_of(node, forms, name);
        }
        if !fits(node, schema) {
            return self.unlike(node, name, &self.described(schema));
        }
        match &node.kind {
            Kind::Plain(value) => self.plain(node, value, schema, name),
            Kind::List(items) => {
                self.within(node, schema, "Items", items.len() as f64, name);
                if let Some(each) = schema.get("items") {
                    items.iter().for_each(|item| self.node(item, each, name));
                }
            }
            Kind::Map(members) => self.map(node, members, schema),
        }
    }

    fn map(&mut self, node: &Node<'_>, members: &[Member<'_>], schema: &'s Value) {
        let none = serde_json::Map::new();
        let known = schema.get("properties").and_then(Value::as_object);
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for member in members {
            match known.and_then(|known| known.get(member.name.as_ref())) {
                Some(schema) => self.node(&member.value, schema, Some(&member.name)),
                None if closed => {
                    let names = known.unwrap_or(&none).keys().map(String::as_str);
                    let meant = meant(&member.name, names);
                    self.problem(member.at, format!("unknown key {:?}{meant}", member.name));
                }
                None => match (schema.get("additionalProperties"), known) {
                    (Some(each @ Value::Object(_)), _) => {
                        self.node(&member.value, each, Some(&member.name));
                    }
                    (None, Some(known)) if !is_free(&member.name) => {
                        let meant = meant(&member.name, known.keys().map(String::as_str));
                        let text = format!("unknown key {:?}{meant}", member.name);
                        self.found.warnings.push(At::new(member.at, text));
                    }
                    _ => {}
                },
            }
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for key in required.filter_map(Value::as_str) {
            if members.iter().any(|member| member.name == key) {
                continue;
            }
            let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
            let slip = members
                .iter()
                .find(|member| !is_known(&member.name) && !meant(&member.name, [key]).is_empty());
            match slip {
                Some(slip) if !closed => {
                    let meant = meant(&slip.name, [key]);
                    let text =
                        format!("the key {key:?} is missing: unknown key {:?}{meant}", slip.name);
                    self.problem(slip.at, text);
                }
                _ => self.problem(node.at, format!("the key {key:?} is missing")),
            }
        }
    }

    fn plain(&mut self, node: &Node<'_>, value: &Value, schema: &'s Value, name: Option<&str>) {
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let absent = value.is_null() && may_be_null(schema);
            if !absent && !words.contains(value) {
                self.no_such_word(node, value, words, name);
            }
            return;
        }
        match value {
            Value::Number(number) => {
                let size = number.as_f64().unwrap_or(f64::MAX);
                self.within(node, schema, "imum", size, name);
            }
            Value::String(text) => {
                self.within(node, schema, "Length", text.chars().count() as f64, name);
            }
            _ => {}
        }
    }

    /// `minimum` and `maximum`, `minLength` and `maxLength`, `minItems` and `maxItems`.
    fn within(
        &mut self,
        node: &Node<'_>,
        schema: &Value,
        end: &str,
        size: f64,
        name: Option<&str>,
    ) {
        let limit = |word: &str| schema.get(format!("{word}{end}")).and_then(Value::as_f64);
        let (min, max) = (limit("min"), limit("max"));
        if min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max) {
            return;
        }
        let unit = match end {
            "Length" => " characters",
            "Items" => " entries",
            _ => "",
        };
        let verb = if unit.is_empty() { "be" } else { "have" };
        let range = match (min, max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (_, max) => format!("at most {}", max.unwrap_or(f64::MAX)),
        };
        self.problem(node.at, format!("{} must {verb} {range}{unit}", named(name)));
    }

    /// The one form whose type fits is the one that was meant.
    fn one_of(&mut self, node: &Node<'_>, all: &'s [Value], name: Option<&str>) {
        let forms: Vec<&'s Value> = all.iter().map(|form| self.resolved(form)).collect();
        let words: Vec<Value> = forms.iter().flat_map(|form| words(form)).collect();
        if let Kind::Plain(value @ Value::String(_)) = &node.kind
            && words.contains(value)
        {
            return;
        }
        let fitting: Vec<&'s Value> = forms
            .iter()
            .copied()
            .filter(|form| !has_words(form) && self.accepts(node, form))
            .collect();
        match (fitting.as_slice(), &node.kind) {
            ([], Kind::Plain(value @ Value::String(_))) if !words.is_empty() => {
                self.no_such_word(node, value, &words, name);
            }
            ([], _) => {
                let wanted = list(forms.iter().map(|form| self.described(form)));
                self.unlike(node, name, &wanted);
            }
            ([only], _) => self.node(node, only, name),
            (several, _) => {
                let tried = several.iter().map(|form| {
                    let mut walk = Walk { root: self.root, found: Found::default() };
                    walk.node(node, form, name);
                    walk.found
                });
                if let Some(fewest) = tried.min_by_key(|found| found.problems.len()) {
                    self.found.problems.extend(fewest.problems);
                    self.found.warnings.extend(fewest.warnings);
                }
            }
        }
    }

    fn no_such_word(
        &mut self,
        node: &Node<'_>,
        value: &Value,
        words: &[Value],
        name: Option<&str>,
    ) {
        let known: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let all = list(known.iter().map(|word| format!("{word:?}")));
        let meant = value.as_str().map(|word| meant(word, known)).unwrap_or_default();
        self.problem(node.at, format!("{} must be {all}, not {value}{meant}", named(name)));
    }

    fn unlike(&mut self, node: &Node<'_>, name: Option<&str>, wanted: &str) {
        let found = match &node.kind {
            Kind::Plain(Value::Null) => "null",
            Kind::Plain(Value::Bool(_)) => "true or false",
            Kind::Plain(Value::Number(_)) => "this number",
            Kind::Plain(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "an object",
        };
        self.problem(node.at, format!("{} must be {wanted}, not {found}", named(name)));
    }

    /// Whether a value of this type may be meant for this form.
    fn accepts(&self, node: &Node<'_>, schema: &'s Value) -> bool {
        let schema = self.resolved(schema);
        match forms(schema) {
            Some(forms) => forms.iter().any(|form| self.accepts(node, form)),
            None if has_words(schema) => matches!(node.kind, Kind::Plain(Value::String(_))),
            None => fits(node, schema),
        }
    }

    fn described(&self, schema: &'s Value) -> String {
        let schema = self.resolved(schema);
        if let Some(forms) = forms(schema) {
            return list(forms.iter().map(|form| self.described(form)));
        }
        if has_words(schema) {
            return list(words(schema).iter().map(Value::to_string));
        }
        let known = types(schema).into_iter().filter(|name| *name != "null");
        let words = known.map(|name| match name {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "string" => "a text",
            "array" => "a list",
            _ => "an object",
        });
        list(words.map(str::to_owned))
    }

    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        match name.and_then(|name| name.strip_prefix('#')) {
            Some(pointer) => self.root.pointer(pointer).unwrap_or(schema),
            None => schema,
        }
    }

    fn problem(&mut self, at: usize, text: String) {
        self.found.problems.push(At::new(at, text));
    }
}

/// Keys that are the author's own.
fn is_free(key: &str) -> bool {
    key == "x" || key.starts_with("x-")
}

fn forms(schema: &Value) -> Option<&[Value]> {
    // A matcher has members of its own beside its forms; whoever reads it tells what is wrong.
    if schema.get("properties").is_some() {
        return None;
    }
    let forms = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    forms.as_array().map(Vec::as_slice)
}

fn has_words(schema: &Value) -> bool {
    schema.get("enum").is_some() || schema.get("const").is_some()
}

fn words(schema: &Value) -> Vec<Value> {
    let listed = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    let inner = forms(schema).unwrap_or_default().iter().flat_map(words);
    listed.into_iter().chain(schema.get("const").cloned()).chain(inner).collect()
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn may_be_null(schema: &Value) -> bool {
    types(schema).contains(&"null")
}

fn fits(node: &Node<'_>, schema: &Value) -> bool {
    let types = types(schema);
    let is = |name: &str| types.contains(&name);
    types.is_empty()
        || match &node.kind {
            Kind::Plain(Value::Null) => is("null"),
            Kind::Plain(Value::Bool(_)) => is("boolean"),
            Kind::Plain(Value::Number(number)) => {
                is("number") || is("integer") && (number.is_u64() || number.is_i64())
            }
            Kind::Plain(_) => is("string"),
            Kind::List(_) => is("array"),
            Kind::Map(_) => is("object"),
        }
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.dedup();
    match parts.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
    }
}

fn named(name: Option<&str>) -> String {
    name.map_or_else(|| "the file".to_owned(), |name| format!("{name:?}"))
}
