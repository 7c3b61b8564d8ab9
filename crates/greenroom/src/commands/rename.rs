//! `greenroom rename`: another name for a session.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::session::{RenameParams, RenameResult};

use super::Context;
use crate::cli::SessionArg;
use crate::error::ExitResult;

/// Give a session another name
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  greenroom rename s3 build")]
pub struct RenameArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// The new name
    pub name: String,
}

pub async fn run(args: RenameArgs, context: &Context) -> ExitResult {
    let session = args.session.session;
    let attempt = format!("rename {session} to {}", args.name);
    let params = RenameParams { session, name: args.name };
    let renamed = |to: &RenameResult| format!("{} is now {}", to.session, to.name);
    context.show::<method::SessionRename>(&params, &attempt, renamed).await
}
