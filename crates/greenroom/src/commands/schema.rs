//! `greenroom schema`: every method of the API from the one table, or the format of connector files
//! or manifests.

use clap::Args;
use greenroom_formats::{connector, manifest};
use greenroom_protocol::{FaultKind, methods};

use super::Context;
use crate::error::{ExitResult, Failure};

/// Print every method of the API as JSON Schema, or the format of connector files
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom schema\n  greenroom schema session.create\n  greenroom schema connector > connector.schema.json"
)]
pub struct SchemaArgs {
    /// One method only, such as session.create; or connector, or manifest
    pub method: Option<String>,
}

pub async fn run(args: SchemaArgs, context: &Context) -> ExitResult {
    let document = match args.method.as_deref() {
        Some("connector") => Some(connector::schema()),
        Some("manifest") => Some(manifest::schema()),
        only => methods::document(only),
    };
    let Some(document) = document else {
        let name = args.method.as_deref().unwrap_or_default();
        let message = format!("cannot describe {name}: there is no such method");
        return Err(
            Failure::new(FaultKind::NotFound, message).hint("greenroom schema lists them all")
        );
    };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::failed(format!("cannot write the schema: {error}")))?;
    context.out.answer(&document, || text)
}
