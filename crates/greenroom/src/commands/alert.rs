//! `greenroom alert`: something a person should know now.

use greenroom_protocol::api::notice::{self, AlertParams, AlertResult};

use super::Context;
use crate::cli::{AlertArgs, Severity};
use crate::error::Outcome;

pub async fn run(args: AlertArgs, context: &Context) -> Outcome {
    let severity = match args.severity {
        Severity::Info => notice::Severity::Info,
        Severity::Warn => notice::Severity::Warn,
        Severity::Error => notice::Severity::Error,
    };
    let session = args.session.filter(|session| !session.is_empty());
    let params = AlertParams { text: args.text, severity, session, channel: args.channel };
    let host = context.host().await?;
    let raised: AlertResult = host.call("alert.raise", &params, "raise an alert").await?;
    context.out.answer(&raised, || match &raised.dropped_by {
        Some(plugin) => format!("dropped by {plugin}"),
        None => String::new(),
    })?;
    Ok(0)
}
