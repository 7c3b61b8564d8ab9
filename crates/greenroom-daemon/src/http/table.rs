//! The routes, made from the rows of the method table: a new row is served without a line here.
//!
//! `GET /api/sessions/{id}/screen` of `session.snapshot` becomes a verb, a path, and for `{id}` the
//! param it stands for: the param of that name if the method has one, else the one the path's noun
//! names (`sessions` → `session`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Method as Verb;
use greenroom_protocol::methods::{METHODS, MethodId, MethodRow};
use schemars::SchemaGenerator;

use super::params::Kinds;

pub(crate) struct Route {
    pub row: &'static MethodRow,
    pub verb: Verb,
    /// With `{…}` for what varies, as axum writes it too.
    pub path: String,
    /// What each `{…}` means.
    pub places: BTreeMap<String, String>,
    /// Every param and what it may be.
    pub fields: BTreeMap<String, Kinds>,
}

impl Route {
    /// What a param is here when it is not given, where that differs from the socket: there the
    /// shape of other hosts' clients holds (every cell, escapes), here what people and scripts
    /// read.
    pub(crate) fn defaults(&self) -> &'static [(&'static str, &'static str)] {
        match self.row.id {
            MethodId::SessionSnapshot | MethodId::SessionTranscript | MethodId::SessionReplay => {
                &[("format", "text")]
            }
            MethodId::SessionWait => &[("snapshot", "text")],
            _ => &[],
        }
    }
}

/// Every row that has a path.
pub(crate) fn routes() -> &'static [Route] {
    static ROUTES: LazyLock<Vec<Route>> =
        LazyLock::new(|| METHODS.iter().filter_map(route).collect());
    &ROUTES
}

fn route(row: &'static MethodRow) -> Option<Route> {
    let (verb, path) = row.surfaces.rest?.split_once(' ')?;
    let mut generator = SchemaGenerator::default();
    let schema = (row.params)(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let fields = Kinds::of_fields(&schema, &definitions);
    let mut places = BTreeMap::new();
    let mut noun = "";
    for part in path.split('/') {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(place) => {
                let singular = noun.strip_suffix('s').unwrap_or(noun);
                let field = if fields.contains_key(place) { place } else { singular };
                places.insert(place.to_owned(), field.to_owned());
            }
            None => noun = part,
        }
    }
    let verb = Verb::from_bytes(verb.as_bytes()).ok()?;
    Some(Route { row, verb, path: path.to_owned(), places, fields })
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::methods::Scope;

    use super::*;

    #[test]
    fn every_row_with_a_path_has_a_route_and_each_place_a_param() {
        let rows = METHODS.iter().filter(|row| row.surfaces.rest.is_some()).count();
        assert_eq!(routes().len(), rows);
        for route in routes() {
            for (place, field) in &route.places {
                assert!(
                    route.fields.contains_key(field),
                    "{}: {{{place}}} stands for {field}, which is no param",
                    route.row.name
                );
            }
        }
    }

    #[test]
    fn whoever_shows_the_token_may_call_every_row_with_a_path() {
        for route in routes() {
            assert!(route.row.scope <= Scope::Control, "{} needs more", route.row.name);
        }
    }

    #[test]
    fn defaults_are_params_that_the_methods_take() {
        let mut count = 0;
        for route in routes() {
            for (field, value) in route.defaults() {
                assert!(route.fields.contains_key(*field), "{}: {field}", route.row.name);
                let mut example: serde_json::Value =
                    serde_json::from_str(route.row.example).unwrap();
                example[*field] = serde_json::json!(value);
                (route.row.check)(&example.to_string()).unwrap();
                count += 1;
            }
        }
        assert_eq!(count, 4);
    }

    #[test]
    fn nouns_name_params() {
        let place = |name: &str| {
            let route = routes().iter().find(|route| route.row.name == name).unwrap();
            route.places.values().next().cloned()
        };
        assert_eq!(place("session.info").as_deref(), Some("session"));
        assert_eq!(place("run.cancel").as_deref(), Some("run"));
        assert_eq!(place("session.list"), None);
    }
}
