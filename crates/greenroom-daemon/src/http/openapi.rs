//! OpenAPI 3.1 of every path, from the same rows the paths are made of.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use greenroom_protocol::Fault;
use greenroom_protocol::fault::FAULTS;
use greenroom_protocol::methods::MethodId;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::table::{Route, routes};

pub(crate) fn document() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| describe().to_string());
    &TEXT
}

fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes() {
        let verb = route.verb.as_str().to_ascii_lowercase();
        paths.entry(&route.path).or_default().insert(verb, operation(route, &mut generator));
    }
    let fault = generator.subschema_for::<Fault>();
    let kinds: Vec<Value> = FAULTS
        .iter()
        .map(|row| json!({ "kind": row.word, "status": row.status, "summary": row.summary }))
        .collect();
    let mut schemas = generator.take_definitions(true);
    schemas.insert(
        "Error".to_owned(),
        json!({ "type": "object", "properties": { "error": fault }, "required": ["error"], "x-kinds": kinds }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "greenroom",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions on terminals, their screens, output and events. /api/rpc is a WebSocket with the whole client API, /mcp an MCP server.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "greenroom web --json prints it",
            } },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let params = (route.row.params)(generator).to_value();
    let mut schema = resolved(&params, generator);
    for (name, default) in route.defaults() {
        schema["properties"][*name]["default"] = json!(default);
    }
    let result = (route.row.result)(generator);
    let (group, _) = route.row.name.split_once('.').unwrap_or((route.row.name, ""));
    let mut operation = json!({
        "operationId": route.row.name,
        "summary": route.row.summary,
        "tags": [group],
        "parameters": parameters(route, &schema),
        "responses": {
            "200": { "description": "done", "content": { "application/json": { "schema": result } } },
            "default": {
                "description": "not done",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
            },
        },
        "x-scope": route.row.scope,
    });
    match route.row.id {
        MethodId::SessionAttach => {
            operation["responses"]["101"] =
                json!({ "description": "a WebSocket: the result as text, then attach frames" });
        }
        MethodId::ServerSubscribe => {
            let content = &mut operation["responses"]["200"]["content"];
            for stream in ["text/event-stream", "application/x-ndjson"] {
                content[stream] = json!({ "schema": { "type": "string" } });
            }
        }
        _ => {}
    }
    if route.verb != "GET" {
        // What the path says may be left out of the body. The schema is named where its defaults
        // are the method's own.
        let schema = if route.defaults().is_empty() { params } else { schema };
        let example = serde_json::from_str::<Value>(route.row.example).unwrap_or_default();
        operation["requestBody"] =
            json!({ "content": { "application/json": { "schema": schema, "example": example } } });
    }
    operation
}

fn parameters(route: &Route, schema: &Value) -> Vec<Value> {
    let in_path = route.places.keys().map(|place| {
        json!({ "name": place, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let mut all: Vec<Value> = in_path.collect();
    if route.verb != "GET" {
        return all;
    }
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for name in
        route.fields.keys().filter(|name| !route.places.values().any(|field| field == *name))
    {
        let property = &schema["properties"][name.as_str()];
        let mut parameter = json!({
            "name": name, "in": "query", "required": required.contains(&json!(name)),
        });
        if !property.is_null() {
            parameter["schema"] = property.clone();
            parameter["description"] = property["description"].clone();
        }
        all.push(parameter);
    }
    all
}

/// The schema itself where a reference stands for it.
fn resolved(schema: &Value, generator: &SchemaGenerator) -> Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit_once('/')).map(|(_, name)| name);
    name.and_then(|name| generator.definitions().get(name)).unwrap_or(schema).clone()
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::methods::METHODS;

    use super::*;

    #[test]
    fn every_row_is_described_and_every_reference_leads_somewhere() {
        let document: Value = serde_json::from_str(document()).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        for row in METHODS {
            let Some((verb, path)) = row.surfaces.rest.and_then(|rest| rest.split_once(' ')) else {
                continue;
            };
            let operation = &document["paths"][path][verb.to_ascii_lowercase()];
            assert_eq!(operation["operationId"], row.name);
            assert_eq!(operation["summary"], row.summary);
        }
        let text = document.to_string();
        assert!(!text.contains("#/$defs/"));
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn queries_are_described() {
        let document: Value = serde_json::from_str(document()).unwrap();
        let parameters =
            document["paths"]["/api/sessions/{id}/transcript"]["get"]["parameters"].clone();
        let named = |name: &str| {
            parameters.as_array().unwrap().iter().find(|one| one["name"] == name).cloned().unwrap()
        };
        assert_eq!(named("id")["in"], "path");
        assert_eq!(named("since")["in"], "query");
        assert_eq!(named("since")["required"], false);
        assert_eq!(named("format")["schema"]["default"], "text");
        let waiting =
            &document["paths"]["/api/sessions/{id}/wait"]["post"]["requestBody"]["content"];
        let body = &waiting["application/json"]["schema"]["properties"];
        assert_eq!(body["snapshot"]["default"], "text");
        assert!(body["matcher"].is_object());
        assert!(named("max_bytes")["description"].is_string());
        assert!(!parameters.as_array().unwrap().iter().any(|one| one["name"] == "session"));
    }
}
