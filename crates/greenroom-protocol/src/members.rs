//! Which members the params of each method may have, at every depth.
//!
//! In: the text of params. Out: nothing, or a fault that names the first member nobody would read,
//! or that is given twice, and the one that was probably meant: a misspelt `sandbox` must not start
//! an open session. What may stand where is read from the schemas of the method table, so a new
//! param is known without a line here; a second name of a member (`#[serde(alias)]`) is told by
//! `x-aliases` beside it. Values are not judged: the types are read afterwards. [`METHODS`] knows
//! every row but `server.hello`, which newer clients must be able to call.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

use schemars::SchemaGenerator;
use serde::Deserialize as _;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::fault::{Fault, FaultKind};
use crate::methods::{METHODS, MethodId};

/// The method a client calls before it knows what the host knows.
const OPEN: MethodId = MethodId::ServerHello;

/// Much of a name is repeated to its caller.
const NAME_SHOWN: usize = 80;

/// Refuses params of `method` with a member it does not have.
pub fn check(method: &str, params: &str) -> Result<(), Fault> {
    static SHAPES: [OnceLock<Shape>; METHODS.len()] = [const { OnceLock::new() }; METHODS.len()];
    let Some(at) = METHODS.iter().position(|row| row.name == method) else { return Ok(()) };
    if METHODS[at].id == OPEN {
        return Ok(());
    }
    let shape = SHAPES[at].get_or_init(|| {
        let mut generator = SchemaGenerator::default();
        let schema = (METHODS[at].params)(&mut generator).to_value();
        Shape::new(&schema, &generator.take_definitions(true))
    });
    shape.check(method, params)
}

/// An unknown member of `of`: `path` is where it stands, with its name at the end.
pub fn unknown<'a>(of: &str, path: &str, known: impl IntoIterator<Item = &'a str>) -> Fault {
    let known: Vec<&str> = known.into_iter().collect();
    let (_, name) = path.rsplit_once('.').unwrap_or(("", path));
    // As people write it elsewhere: another case, or dashes.
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let meant = crate::nearest(&plain, known.iter().copied());
    let shown = shown(path);
    let fault = |message: String| {
        Fault::new(FaultKind::InvalidParams, message).with("parameter", shown.as_str())
    };
    match meant {
        Some(meant) => fault(format!("unknown parameter {shown}; did you mean {meant}?"))
            .with("suggestion", meant),
        None if known.is_empty() => {
            fault(format!("unknown parameter {shown}")).hint(format!("{of} takes none"))
        }
        None => {
            let list = known.join(", ");
            fault(format!("unknown parameter {shown}")).hint(format!("{of} takes {list}"))
        }
    }
}

fn shown(path: &str) -> String {
    let shown: String = path.chars().take(NAME_SHOWN).collect();
    shown.escape_debug().to_string()
}

/// What an object may hold, at every depth.
#[derive(Debug)]
pub struct Shape {
    /// The first is the whole. Others are named by their place, because a matcher contains itself.
    nodes: Vec<Node>,
}

/// One place of the params.
#[derive(Debug, Default)]
struct Node {
    /// All members here are the caller's own.
    free: bool,
    /// The objects that may stand here.
    forms: Vec<Form>,
    /// What each entry of a list may be.
    items: Option<usize>,
}

/// One kind of object.
#[derive(Clone, Debug, Default)]
struct Form {
    members: BTreeMap<String, usize>,
    /// Second names of members; read like the first, and not offered.
    aliases: HashMap<String, usize>,
    /// Members with one possible text: they tell the forms of a place apart.
    tags: Vec<(String, String)>,
    /// Members of any name.
    rest: Option<usize>,
}

impl Shape {
    /// Reads the part of JSON Schema that our types use.
    pub fn new(schema: &Value, definitions: &Map<String, Value>) -> Shape {
        let mut building = Building { definitions, nodes: Vec::new(), named: HashMap::new() };
        building.node(schema);
        Shape { nodes: building.nodes }
    }

    /// Refuses a text with a member that no form has. `of` is what its caller calls.
    pub fn check(&self, of: &str, text: &str) -> Result<(), Fault> {
        let mut json = serde_json::Deserializer::from_str(text);
        // What is no JSON is told by whoever reads it as a whole.
        let Ok(tree) = Tree::deserialize(&mut json) else { return Ok(()) };
        let walk = Walk { shape: self, of };
        match &tree {
            // By position: which one an entry is, is the type's to say.
            Tree::List(items) => {
                let forms = self.nodes[0].forms.iter();
                let all: Vec<usize> =
                    forms.flat_map(|form| form.members.values().copied()).collect();
                items.iter().try_for_each(|item| walk.value(item, &all, ""))
            }
            tree => walk.value(tree, &[0], ""),
        }
    }
}

struct Walk<'s> {
    shape: &'s Shape,
    of: &'s str,
}

impl Walk<'_> {
    /// A value that may be any of these.
    fn value(&self, tree: &Tree, places: &[usize], path: &str) -> Result<(), Fault> {
        let nodes = || places.iter().map(|place| &self.shape.nodes[*place]);
        if nodes().any(|node| node.free) {
            return Ok(());
        }
        match tree {
            Tree::List(items) => {
                let each: Vec<usize> = nodes().filter_map(|node| node.items).collect();
                items.iter().try_for_each(|item| self.value(item, &each, path))
            }
            Tree::Object(members) => {
                let forms: Vec<&Form> = nodes().flat_map(|node| &node.forms).collect();
                self.object(members, &forms, path)
            }
            _ => Ok(()),
        }
    }

    fn object(&self, members: &Members, all: &[&Form], path: &str) -> Result<(), Fault> {
        let forms: Vec<&Form> = all.iter().copied().filter(|form| form.is(members)).collect();
        if forms.is_empty() {
            // Not an object at all, or of a kind that nobody knows: its reader says so.
            return Ok(());
        }
        let mut seen: HashSet<&str> = HashSet::with_capacity(members.len());
        for (name, value) in members {
            let at = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            if !seen.insert(name) {
                let message = format!("parameter {} is given twice", shown(&at));
                return Err(Fault::new(FaultKind::InvalidParams, message));
            }
            let places: Vec<usize> = forms.iter().filter_map(|form| form.get(name)).collect();
            // The empty value of another form says nothing.
            let idle =
                || matches!(value, Tree::Null) && all.iter().any(|form| form.get(name).is_some());
            if !places.is_empty() {
                self.value(value, &places, &at)?;
            } else if !idle() {
                let known = forms.iter().flat_map(|form| form.members.keys());
                let known: BTreeSet<&str> = known.map(String::as_str).collect();
                let of = if path.is_empty() { self.of.to_owned() } else { shown(path) };
                return Err(unknown(&of, &at, known));
            }
        }
        Ok(())
    }
}

impl Form {
    /// Whether an object is of this form, as far as its tags say.
    fn is(&self, members: &Members) -> bool {
        self.tags.iter().all(|(name, text)| {
            let given = members.iter().find(|(given, _)| given == name);
            matches!(given, Some((_, Tree::Text(given))) if given == text)
        })
    }

    fn get(&self, name: &str) -> Option<usize> {
        self.members.get(name).or_else(|| self.aliases.get(name)).copied().or(self.rest)
    }

    fn with(&self, other: &Form) -> Form {
        let mut both = self.clone();
        both.members.extend(other.members.clone());
        both.aliases.extend(other.aliases.clone());
        both.tags.extend(other.tags.iter().cloned());
        both.rest = both.rest.or(other.rest);
        both
    }
}

struct Building<'d> {
    definitions: &'d Map<String, Value>,
    nodes: Vec<Node>,
    /// Where each definition is.
    named: HashMap<&'d str, usize>,
}

impl<'d> Building<'d> {
    fn node(&mut self, schema: &Value) -> usize {
        let named = self.named(schema);
        if let Some(at) = named.and_then(|(name, _)| self.named.get(name)) {
            return *at;
        }
        let at = self.nodes.len();
        self.nodes.push(Node::default());
        if let Some((name, _)) = named {
            self.named.insert(name, at);
        }
        let node = self.read(schema);
        self.nodes[at] = node;
        at
    }

    fn named(&self, schema: &Value) -> Option<(&'d str, &'d Value)> {
        let (_, name) = schema.get("$ref")?.as_str()?.rsplit_once('/')?;
        self.definitions.get_key_value(name).map(|(name, schema)| (name.as_str(), schema))
    }

    fn read(&mut self, schema: &Value) -> Node {
        if let Some((_, schema)) = self.named(schema) {
            return self.read(schema);
        }
        let Some(members) = schema.as_object() else {
            return Node { free: true, ..Node::default() };
        };
        let is = |kind: &str| match members.get("type") {
            Some(Value::String(name)) => name == kind,
            Some(Value::Array(names)) => names.iter().any(|name| name == kind),
            _ => false,
        };
        let mut node = Node::default();
        if is("array") {
            node.items = Some(self.node(members.get("items").unwrap_or(&Value::Bool(true))));
        }
        let said = ["type", "enum", "const", "oneOf", "anyOf", "allOf", "properties"];
        node.free = said.iter().all(|key| !members.contains_key(*key));
        if is("object") || members.contains_key("properties") {
            let form = self.form(members);
            // An object of any names and values.
            let any = form.rest.is_some_and(|rest| self.nodes[rest].free);
            node.free |= any && form.members.is_empty();
            node.forms.push(form);
        }
        for key in ["oneOf", "anyOf"] {
            let branches = members.get(key).and_then(Value::as_array).into_iter().flatten();
            let branches: Vec<Node> = branches.map(|branch| self.read(branch)).collect();
            if branches.is_empty() {
                continue;
            }
            node.free |= branches.iter().any(|branch| branch.free);
            node.items = node.items.or(branches.iter().find_map(|branch| branch.items));
            let others: Vec<Form> = branches.into_iter().flat_map(|branch| branch.forms).collect();
            node.forms = both(&node.forms, &others);
        }
        for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.read(part);
            node.forms = both(&node.forms, &part.forms);
        }
        node
    }

    fn form(&mut self, schema: &Map<String, Value>) -> Form {
        let mut form = Form::default();
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, property) in properties {
            let at = self.node(property);
            form.members.insert(name.clone(), at);
            let aliases = property.get("x-aliases").and_then(Value::as_array).into_iter().flatten();
            let aliases = aliases.filter_map(Value::as_str);
            form.aliases.extend(aliases.map(|alias| (alias.to_owned(), at)));
            if let Some(Value::String(text)) = property.get("const") {
                form.tags.push((name.clone(), text.clone()));
            }
        }
        form.rest = match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => None,
            Some(each) => Some(self.node(each)),
        };
        form
    }
}

/// What has one of each; where one list says nothing, the other.
fn both(some: &[Form], others: &[Form]) -> Vec<Form> {
    match (some, others) {
        (some, []) => some.to_vec(),
        ([], others) => others.to_vec(),
        (some, others) => {
            some.iter().flat_map(|one| others.iter().map(|other| one.with(other))).collect()
        }
    }
}

type Members = Vec<(String, Tree)>;

/// JSON as far as names matter, with members that are given twice.
enum Tree {
    Null,
    Text(String),
    Other,
    List(Vec<Tree>),
    Object(Members),
}

/// Longest text that is kept: only tags are looked at.
const TEXT_KEPT: usize = 64;

impl<'de> de::Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Tree, E> {
        Ok(if text.len() > TEXT_KEPT { Tree::Other } else { Tree::Text(text.to_owned()) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(Tree::Object(members))
    }
}

#[cfg(test)]
mod tests;
