//! Manifests: what a plugin says of itself.
//!
//! In: the text of `plugin.toml`, `plugin.yaml` or `plugin.json`, or one of three foreign forms told
//! apart by their shape. Out: one [`Manifest`], or every mistake with line and column. The types are
//! the schema that `greenroom schema manifest` prints, and the same schema is what a file is checked
//! against. [`hook::HOOKS`] and [`capability::CAPABILITIES`] are the two tables everything else reads.
//!
//! Deliberately absent: files, running anything, grants.

pub mod capability;
mod check;
pub mod entry;
pub mod faces;
pub mod file;
mod foreign;
pub mod hook;
mod lint;
mod load;

#[cfg(test)]
mod tests;

use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use capability::{Allow, Allowed, CAPABILITIES, Capabilities};
pub use check::{check_inside, check_name};
pub use file::{Format, HookEntry, Manifest, Runtime, RuntimeKind};
pub use hook::{Class, HOOKS, Hook, HookName, OnFailure, Stage};
pub use lint::budget_ms;
pub use load::{Loaded, Warning, from_value, parse};

/// A larger file is no manifest.
pub const FILE_MAX: usize = 256 * 1024;
/// Brackets within brackets; a real file has about four.
pub const DEPTH_MAX: usize = 32;
/// Programs of one plugin.
pub const RUNTIMES_MAX: usize = 16;
/// Hooks of one plugin: each hook a few times over.
pub const HOOKS_MAX: usize = 64;
/// Settings of one plugin.
pub const SETTINGS_MAX: usize = 100;
/// Words of a command.
pub const COMMAND_MAX: usize = 64;
/// Variables of one environment.
pub const ENV_MAX: usize = 64;
/// Neighbours named in `before` and `after`.
pub const AFTER_MAX: usize = 32;
/// Topics, verbs, screens and the like in one list.
pub const NAMES_MAX: usize = 64;
/// Characters of a regular expression; a longer one is a program.
pub const REGEX_MAX: usize = 4096;
/// A call that takes longer than ten minutes is no call.
pub const TIMEOUT_MS_MAX: u64 = 600_000;

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
