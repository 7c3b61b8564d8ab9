//! Schemas of tools: self-contained objects, as short as they can be, since a model reads them all.

use greenroom_protocol::methods::MethodRow;
use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
}

/// The schema of a type of ours.
pub(crate) fn of<T: JsonSchema>() -> JsonObject {
    let mut generator = generator();
    let schema = generator.subschema_for::<T>().to_value();
    object(schema, generator)
}

/// The schema of a method's params.
pub(crate) fn of_row(row: &MethodRow) -> JsonObject {
    let mut generator = generator();
    let schema = (row.params)(&mut generator).to_value();
    object(schema, generator)
}

/// The names of its members.
pub(crate) fn members(object: &JsonObject) -> Vec<&str> {
    let properties = object.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|members| members.keys().map(String::as_str)).collect()
}

/// The same without these members, and without any that it does not have.
pub(crate) fn without(mut object: JsonObject, members: &str) -> JsonObject {
    let stays = |name: &str| !members.split(' ').any(|left_out| left_out == name);
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.retain(|name, _| stays(name));
    }
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(stays));
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
