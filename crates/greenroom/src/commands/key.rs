//! `greenroom key`: presses keys, encoded as the session's terminal modes want them.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::input::{Action, InputParams};

use super::Context;
use crate::cli::SessionArg;
use crate::error::ExitResult;

/// Press keys in a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom key s3 enter\n  greenroom key s3 ctrl-c\n  greenroom key s3 up up shift-tab f5 alt-x"
)]
pub struct KeyArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Keys in order: enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab, a…
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,
}

pub async fn run(args: KeyArgs, context: &Context) -> ExitResult {
    let session = args.session.session;
    let attempt = format!("press keys in {session}");
    let params = InputParams { session, action: Action::Keys(args.keys), submit: false };
    context.show::<method::SessionInput>(&params, &attempt, |_| String::new()).await
}
