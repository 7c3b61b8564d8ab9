//! `greenroom schema`: every method of the API from the one table, or the format of connector files or manifests.

use greenroom_protocol::{FaultKind, connector, manifest, methods};

use super::Context;
use crate::cli::SchemaArgs;
use crate::error::{Failure, Outcome};

pub fn run(args: &SchemaArgs, context: &Context) -> Outcome {
    let document = match args.method.as_deref() {
        Some("connector") => Some(connector::schema()),
        Some("manifest") => Some(manifest::schema()),
        only => methods::document(only),
    };
    let Some(document) = document else {
        let name = args.method.as_deref().unwrap_or_default();
        let failure = Failure::new(
            FaultKind::NotFound,
            format!("cannot describe {name}: there is no such method"),
        );
        return Err(failure.hint("greenroom schema lists them all"));
    };
    if context.out.json {
        context.out.json_line(&document)?;
    } else {
        let text = serde_json::to_string_pretty(&document)
            .map_err(|error| Failure::failed(format!("cannot write the schema: {error}")))?;
        context.out.line(&text)?;
    }
    Ok(0)
}
