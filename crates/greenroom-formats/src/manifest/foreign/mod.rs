//! Three foreign forms, each read as it is and turned into our [`super::Manifest`].
//!
//! Each file has the form as types (from which comes the schema it is checked against) and the
//! mapping.

pub(super) mod ainb;
pub(super) mod datawatch;
pub(super) mod ptywright;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::load::{Doubt, walked};
use crate::tree::{At, Node};

fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// Checks and reads a form; the doubts are its unknown keys.
fn form<T: JsonSchema + DeserializeOwned>(root: &Node<'_>) -> Result<(T, Vec<Doubt>), Vec<At>> {
    let doubts = walked(root, &schema_of::<T>())?;
    let form = serde_json::from_value(root.value())
        .map_err(|error| vec![At::new(root.at, error.to_string())])?;
    Ok((form, doubts))
}
