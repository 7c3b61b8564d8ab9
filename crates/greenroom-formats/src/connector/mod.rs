//! `connector.json`: a team of sessions in a file.
//!
//! In: the text of a file. Out: a [`Connector`] that makes sense, or every mistake in it with line
//! and column; from that, by [`plan`], the exact list of what would run. The types in [`file`] are
//! the schema that `greenroom schema connector` prints, and the same schema is what a file is
//! checked against: there is no second list of keys.
//!
//! Deliberately absent: running anything, files, clocks.

mod check;
pub mod file;
pub mod models;
pub mod plan;
pub mod template;
mod until;

#[cfg(test)]
mod tests;

use schemars::generate::SchemaSettings;
use serde_json::Value;

pub(crate) use crate::tree::meant;
use crate::tree::{At, Kind, Node, Positions, Syntax, read, walk};
pub use crate::tree::{FileError as ConnectorError, Problem};

pub use file::Connector;
pub use plan::{Plan, PlanError, PlanParams, plan};

/// A larger file is not a description of a run.
pub const FILE_MAX: usize = 1024 * 1024;
/// Brackets within brackets; a real file has about eight.
pub const DEPTH_MAX: usize = 32;
/// Phases of one run: each is a row in every listing.
pub const PHASES_MAX: usize = 100;
/// Workers of one phase; more agents than this at once helps nobody on one machine.
pub const WORKERS_MAX: usize = 64;
/// Sessions of one run, retries aside. The host has room for a thousand.
pub const RUN_WORKERS_MAX: usize = 500;
/// Turns each participant of a dialogue may get.
pub const ROUNDS_MAX: usize = 50;
/// Speakers in one dialogue: all read what all say.
pub const PARTICIPANTS_MAX: usize = 16;
/// More tries than this hide a fault.
pub const RETRIES_MAX: usize = 10;
/// Models a file may name, and steps from one to its fallback's fallback.
pub const MODELS_MAX: usize = 100;
/// A prompt may become one argument, and the kernel takes no longer one than 128 KiB.
pub const PROMPT_MAX: usize = 64 * 1024;
/// Words of a command before the prompt.
pub const COMMAND_MAX: usize = 256;
/// Names of phases, models, roles' ids.
pub const NAME_MAX: usize = 64;

/// Reads a file. `file` is what it is called in messages.
pub fn parse(file: &str, text: &str) -> Result<Connector, ConnectorError> {
    let positions = Positions::new(text);
    let fail = |problems: Vec<At>| Err(ConnectorError::new(file, positions.place(problems)));
    if text.len() > FILE_MAX {
        return fail(vec![At::new(0, format!("the file is larger than {FILE_MAX} bytes"))]);
    }
    let root = match read(Syntax::Json, text, DEPTH_MAX) {
        Ok(root) => root,
        Err(problem) => return fail(vec![problem]),
    };
    if let Some(problem) = unsupported(&root) {
        return fail(vec![problem]);
    }
    let problems = walk::check(&root, &schema()).problems;
    if !problems.is_empty() {
        return fail(problems);
    }
    let connector: Connector = match serde_json::from_value(root.value()) {
        Ok(connector) => connector,
        // The schema is stricter than the types; this would be a hole in it.
        Err(error) => return fail(vec![At::new(root.at, error.to_string())]),
    };
    let problems = check::check(&connector, &root);
    if !problems.is_empty() {
        return fail(problems);
    }
    Ok(connector)
}

/// Shapes of other hosts' files that would only give a list of unknown keys.
fn unsupported(root: &Node<'_>) -> Option<At> {
    let Kind::Map(members) = &root.kind else { return None };
    let kind = members.iter().find(|member| member.name == "type")?;
    let mesh = matches!(&kind.value.kind, Kind::Plain(value) if value == "mesh");
    let text = "files of type \"mesh\" are not supported: use \"meeting\", or a pipeline whose workers share a scratchpad";
    mesh.then(|| At::new(kind.value.at, text))
}

/// The published JSON Schema.
pub fn schema() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Connector>();
    schema.insert("title".to_owned(), "connector.json".into());
    schema.to_value()
}
