//! `greenroom key`: presses keys, encoded as the session's terminal modes want them.

use greenroom_protocol::api::input::{Action, InputParams, InputResult};

use super::Context;
use crate::cli::KeyArgs;
use crate::error::Outcome;

pub async fn run(args: KeyArgs, context: &Context) -> Outcome {
    let session = args.session.session;
    let attempt = format!("press keys in {session}");
    let params = InputParams { session, action: Action::Keys(args.keys), submit: false };
    let host = context.host().await?;
    let sent: InputResult = host.call("session.input", &params, &attempt).await?;
    context.out.answer(&sent, String::new)?;
    Ok(0)
}
