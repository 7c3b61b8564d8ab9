//! `greenroom rename`: another name for a session.

use greenroom_protocol::api::session::{RenameParams, RenameResult};

use super::Context;
use crate::cli::RenameArgs;
use crate::error::Outcome;

pub async fn run(args: RenameArgs, context: &Context) -> Outcome {
    let session = args.session.session;
    let attempt = format!("rename {session} to {}", args.name);
    let params = RenameParams { session, name: args.name };
    let host = context.host().await?;
    let renamed: RenameResult = host.call("session.rename", &params, &attempt).await?;
    context.out.answer(&renamed, || format!("{} is now {}", renamed.session, renamed.name))?;
    Ok(0)
}
