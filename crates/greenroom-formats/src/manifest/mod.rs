//! Manifests: what a plugin says of itself.
//!
//! In: the text of `plugin.toml`, `plugin.yaml` or `plugin.json`, or one of three foreign forms
//! told apart by their shape. Out: one [`Manifest`], or every mistake with line and column. The
//! types are the schema that `greenroom schema manifest` prints, and the same schema is what a file
//! is checked against. The types are of `greenroom-plugin-api`.
//!
//! Deliberately absent: files, running anything, grants.

mod check;
mod foreign;
mod lint;
mod load;

#[cfg(test)]
mod tests;

use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use check::{check_inside, check_name};
pub use foreign::ptywright::PERMISSIONS as PTYWRIGHT_PERMISSIONS;
pub use greenroom_plugin_api::*;
pub use lint::budget_ms;
pub use load::{Loaded, from_value, parse};

/// A larger file is no manifest.
pub const FILE_MAX: usize = 256 * 1024;
/// Brackets within brackets; a real file has about four.
pub const DEPTH_MAX: usize = 32;

/// What a directory's manifest may be called; the first that is there is read, ours before others'.
pub const FILE_NAMES: [&str; 3] = ["plugin.toml", "plugin.yaml", "plugin.json"];
/// What manifests of the foreign forms are called. Two of them in one directory are an error.
pub const FOREIGN_NAMES: [&str; 3] = ["manifest.yaml", "manifest.toml", "manifest.json"];

/// The published JSON Schema.
pub fn schema() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Manifest>();
    schema.insert("title".to_owned(), "plugin.toml".into());
    schema.to_value()
}

/// A manifest in the native form, as TOML: what `greenroom plugin convert` writes.
pub fn to_toml(manifest: &Manifest) -> Result<String, toml::ser::Error> {
    let mut manifest = manifest.clone();
    manifest.x = manifest.x.map(without_nulls);
    toml::to_string(&manifest)
}

/// TOML has no word for nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            items.into_iter().filter(|item| !item.is_null()).map(without_nulls).collect()
        }
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}
