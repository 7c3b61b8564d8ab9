//! `greenroom alert`: something a person should know now.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use greenroom_client::method;
use greenroom_protocol::api::notice::{AlertParams, Severity};

use super::Context;
use crate::error::ExitResult;

/// Raise an alert: an event, hooks, notifications
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom alert \"the build is red\" --severity error\n  make test || greenroom alert \"tests fail\" --session api"
)]
pub struct AlertArgs {
    /// What to say
    pub text: String,
    /// How urgent
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = severities())]
    pub severity: Severity,
    /// The session it is about; inside a session, that one
    #[arg(long, value_name = "SESSION", env = "GREENROOM_SESSION")]
    pub session: Option<String>,
    /// A word by which plugins tell alerts apart
    #[arg(long, value_name = "WORD")]
    pub channel: Option<String>,
}

fn severities() -> impl clap::builder::TypedValueParser<Value = Severity> {
    let words = PossibleValuesParser::new(Severity::ALL.iter().map(|severity| severity.word()));
    words.map(|word| Severity::named(&word).unwrap_or_default())
}

pub async fn run(args: AlertArgs, context: &Context) -> ExitResult {
    let AlertArgs { text, severity, session, channel } = args;
    let session = session.filter(|session| !session.is_empty());
    let params = AlertParams { text, severity, session, channel };
    let dropped = |by: &String| format!("dropped by {by}");
    context
        .show::<method::AlertRaise>(&params, "raise an alert", |raised| {
            raised.dropped_by.as_ref().map(dropped).unwrap_or_default()
        })
        .await
}
