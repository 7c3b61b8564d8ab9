//! Path, query and body of a request as the params of its method.
//!
//! A query is text; what a value becomes is read from the param's schema: a number where a number
//! is taken, a list where a list is (repeated, or with commas), JSON where an object is. Each param
//! may be given once, wherever. Screens and output are text unless said otherwise. Pure.
//! Deliberately absent: whether the params make sense; the method's own types say that.

use std::collections::BTreeMap;

use greenroom_protocol::{Fault, members};
use serde_json::{Map, Value};

use super::table::Route;

/// Deepest nesting of schemas that is followed: a matcher contains itself.
const DEPTH_MAX: usize = 8;

/// What a value may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kinds {
    text: bool,
    number: bool,
    flag: bool,
    object: bool,
    /// And what its items may be.
    list: Option<Box<Kinds>>,
}

impl Kinds {
    /// The members of an object's schema.
    pub(crate) fn of_fields(
        schema: &Value,
        definitions: &Map<String, Value>,
    ) -> BTreeMap<String, Kinds> {
        let mut fields = BTreeMap::new();
        gather_fields(schema, definitions, 0, &mut fields);
        fields
    }

    fn of(schema: &Value, definitions: &Map<String, Value>, depth: usize) -> Kinds {
        let mut kinds = Kinds::default();
        kinds.add(schema, definitions, depth);
        kinds
    }

    fn add(&mut self, schema: &Value, definitions: &Map<String, Value>, depth: usize) {
        if depth > DEPTH_MAX {
            self.object = true;
            return;
        }
        let Some(schema) = schema.as_object() else {
            // `true`: anything.
            (self.text, self.number, self.flag, self.object) = (true, true, true, true);
            return;
        };
        let named: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        for name in &named {
            match *name {
                "string" => self.text = true,
                "integer" | "number" => self.number = true,
                "boolean" => self.flag = true,
                "object" => self.object = true,
                "array" => {
                    let items = schema.get("items").unwrap_or(&Value::Bool(true));
                    self.list = Some(Box::new(Kinds::of(items, definitions, depth + 1)));
                }
                _ => {}
            }
        }
        let constants = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        for constant in constants.chain(schema.get("const")) {
            self.text |= constant.is_string();
            self.number |= constant.is_number();
            self.flag |= constant.is_boolean();
        }
        let mut deeper = within(schema, definitions).peekable();
        if named.is_empty() && deeper.peek().is_none() && !schema.contains_key("enum") {
            self.object |= !schema.contains_key("const");
        }
        for part in deeper {
            self.add(part, definitions, depth + 1);
        }
    }

    /// The value this text stands for. What fits nothing stays text: the method's own types take
    /// forms no schema tells, such as a size of `120x40`, and say best what is wrong with the rest.
    fn read(&self, text: &str) -> Value {
        let number = || serde_json::from_str::<serde_json::Number>(text).ok().map(Value::Number);
        let flag = || match text {
            "true" | "1" | "" => Some(Value::Bool(true)),
            "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        };
        let object = || serde_json::from_str(text).ok().filter(Value::is_object);
        None.or_else(|| self.number.then(number).flatten())
            .or_else(|| self.flag.then(flag).flatten())
            .or_else(|| self.object.then(object).flatten())
            .unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// A param given several times, or once with commas.
    fn read_all(&self, texts: &[String]) -> Option<Value> {
        match (texts, &self.list) {
            ([text], Some(items)) if !self.text || text.contains(',') => {
                let parts = text.split(',').filter(|part| !part.is_empty());
                Some(parts.map(|part| items.read(part)).collect())
            }
            ([text], _) => Some(self.read(text)),
            (texts, Some(items)) => Some(texts.iter().map(|text| items.read(text)).collect()),
            _ => None,
        }
    }
}

fn gather_fields(
    schema: &Value,
    definitions: &Map<String, Value>,
    depth: usize,
    into: &mut BTreeMap<String, Kinds>,
) {
    let Some(schema) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, property) in properties {
        into.entry(name.clone()).or_default().add(property, definitions, depth + 1);
    }
    for part in within(schema, definitions) {
        gather_fields(part, definitions, depth + 1, into);
    }
}

/// The schemas a schema is made of.
fn within<'a>(
    schema: &'a Map<String, Value>,
    definitions: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a Value> {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|reference| {
        let (_, name) = reference.rsplit_once('/')?;
        definitions.get(name)
    });
    let branches = ["anyOf", "oneOf", "allOf"].into_iter();
    let branches = branches.filter_map(|key| schema.get(key)?.as_array()).flatten();
    named.into_iter().chain(branches)
}

/// One object from all three places.
pub(crate) fn gather(
    route: &Route,
    path: &[(String, String)],
    query: Vec<(String, String)>,
    body: &[u8],
) -> Result<Map<String, Value>, Fault> {
    let mut params = from_body(route, body)?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in query {
        texts.entry(name).or_default().push(text);
    }
    for (name, texts) in texts {
        let shown: String = name.chars().take(80).collect();
        let Some(kinds) = route.fields.get(&name) else {
            let known = route.fields.keys().map(String::as_str);
            return Err(members::unknown(route.row.name, &name, known));
        };
        let value = kinds.read_all(&texts);
        let value =
            value.ok_or_else(|| Fault::invalid_params(format!("{shown} is given twice")))?;
        if params.insert(name, value).is_some() {
            return Err(Fault::invalid_params(format!(
                "{shown} is given in the query and in the body"
            )));
        }
    }
    for (place, text) in path {
        let field = route.places.get(place).unwrap_or(place);
        let value = Value::String(text.clone());
        if params.insert(field.clone(), value.clone()).is_some_and(|other| other != value) {
            return Err(Fault::invalid_params(format!("{field} differs from the one in the path")));
        }
    }
    for (field, value) in route.defaults() {
        params.entry(*field).or_insert_with(|| Value::from(*value));
    }
    Ok(params)
}

fn from_body(route: &Route, body: &[u8]) -> Result<Map<String, Value>, Fault> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => {
            // While what is given twice can still be seen.
            let text = std::str::from_utf8(body).unwrap_or_default();
            members::check(route.row.name, text)?;
            Ok(object)
        }
        Ok(_) => Err(Fault::invalid_params("the body is not a JSON object")),
        Err(error) => Err(Fault::new(
            greenroom_protocol::FaultKind::Parse,
            format!("the body is not JSON: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::http::table::routes;

    fn route(method: &str) -> &'static Route {
        routes().iter().find(|route| route.row.name == method).unwrap()
    }

    fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn check(method: &str, query: &[(&str, &str)], expected: Value) {
        let found = gather(route(method), &[], pairs(query), b"").map(Value::Object);
        assert_eq!(found.unwrap(), expected, "{method} {query:?}");
    }

    #[test]
    fn queries_become_what_the_schema_says() {
        check(
            "session.transcript",
            &[("since", "0"), ("max_bytes", "9")],
            json!({"since": 0, "max_bytes": 9, "format": "text"}),
        );
        check("session.transcript", &[("format", "ansi")], json!({"format": "ansi"}));
        // Not a number: the method says so. A form the schema does not tell: the method takes it.
        check(
            "session.transcript",
            &[("since", "many")],
            json!({"since": "many", "format": "text"}),
        );
        check("session.attach", &[("size", "90x30")], json!({"size": "90x30"}));
        check("session.list", &[("detail", "true")], json!({"detail": true}));
        check("session.list", &[("detail", "")], json!({"detail": true}));
        check("session.list", &[("state", "running")], json!({"state": "running"}));
        check("session.list", &[("state", "running,lost")], json!({"state": ["running", "lost"]}));
        check("session.list", &[("labels", r#"{"a":"b"}"#)], json!({"labels": {"a": "b"}}));
        check("server.subscribe", &[("kinds", "session.*")], json!({"kinds": ["session.*"]}));
        check(
            "server.subscribe",
            &[("kinds", "a"), ("kinds", "b"), ("sessions", "s1,s2")],
            json!({"kinds": ["a", "b"], "sessions": ["s1", "s2"]}),
        );
        check(
            "session.snapshot",
            &[("region", r#"{"row":1}"#), ("redact", "false")],
            json!({"region": {"row": 1}, "redact": false, "format": "text"}),
        );
    }

    #[test]
    fn mistakes_are_told() {
        let fails = |query: &[(&str, &str)], body: &str| {
            let fault = gather(route("session.transcript"), &[], pairs(query), body.as_bytes());
            fault.unwrap_err().message
        };
        assert_eq!(fails(&[("sinse", "0")], ""), "unknown parameter sinse; did you mean since?");
        assert_eq!(fails(&[], r#"{"sinse": 0}"#), "unknown parameter sinse; did you mean since?");
        assert!(fails(&[], r#"{"since": 0, "since": 1}"#).contains("given twice"));
        assert!(fails(&[("since", "1"), ("since", "2")], "").contains("given twice"));
        assert!(
            fails(&[("since", "1")], r#"{"since": 1}"#).contains("in the query and in the body")
        );
        assert!(fails(&[], "[]").contains("not a JSON object"));
        assert!(fails(&[], "{").contains("not JSON"));
    }

    #[test]
    fn the_path_says_which() {
        let path = [("id".to_owned(), "s1".to_owned())];
        let of = |body: &str| gather(route("session.info"), &path, Vec::new(), body.as_bytes());
        assert_eq!(Value::Object(of("").unwrap()), json!({"session": "s1"}));
        assert_eq!(Value::Object(of(r#"{"session":"s1"}"#).unwrap()), json!({"session": "s1"}));
        assert!(of(r#"{"session":"s2"}"#).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics_and_texts_arrive_as_they_are(name in ".{0,20}", text in ".{0,40}", body in prop::collection::vec(any::<u8>(), 0..40)) {
            for route in routes() {
                let _ = gather(route, &[("id".into(), text.clone())], vec![(name.clone(), text.clone())], &body);
            }
            let found = gather(route("session.rename"), &[], vec![("name".into(), text.clone())], b"").unwrap();
            prop_assert_eq!(&found["name"], &json!(text));
        }
    }
}
