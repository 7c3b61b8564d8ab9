//! Schemas of tools: self-contained objects, as short as they can be, since a model reads them all.

use greenroom_protocol::methods::Method;
use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
}

/// Of a type of ours.
pub fn of<T: JsonSchema>() -> JsonObject {
    let mut generator = generator();
    let schema = generator.subschema_for::<T>().to_value();
    object(schema, generator)
}

/// Of a method's params, all of them or some.
pub fn of_row(row: &Method, picks: Option<&[&str]>) -> JsonObject {
    let mut generator = generator();
    let schema = (row.params)(&mut generator).to_value();
    let mut object = object(schema, generator);
    let Some(picks) = picks else { return object };
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.retain(|name, _| picks.contains(&name.as_str()));
    }
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| picks.contains(&name)));
    }
    object.insert("additionalProperties".to_owned(), json!(false));
    object.remove("description");
    let used = Value::Object(object.clone()).to_string().contains("#/$defs/");
    if !used {
        object.remove("$defs");
    }
    object
}

fn object(schema: Value, mut generator: SchemaGenerator) -> JsonObject {
    let mut object = match schema {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    };
    object.insert("type".to_owned(), json!("object"));
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        object.insert("$defs".to_owned(), Value::Object(definitions));
    }
    object
}
