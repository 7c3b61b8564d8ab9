//! `greenroom web`: where the host serves HTTP, and the token to show there. Starts the listener if
//! need be.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::server::{WebParams, WebResult};
use serde_json::json;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;

/// Serve HTTP on this machine: REST, WebSocket, MCP; print where and the token
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom web\n  greenroom web --json\n  greenroom web --json | jq -r '\"Authorization: Bearer \" + .token' |\n    curl -H @- http://127.0.0.1:7878/api/sessions"
)]
pub struct WebArgs {
    /// Listen here if it does not listen yet, such as 127.0.0.1:7878
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}

pub async fn run(args: WebArgs, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let web = serve(&host, args.listen).await?;
    context.out.answer(&json!({ "url": web.url, "token": web.token }), || {
        // The token is not for a screen that others may see.
        format!("serving HTTP on {}; the token is in {}", web.url, web.token_file)
    })
}

/// Starts the listener if it does not run.
pub async fn serve(host: &HostClient, listen: Option<String>) -> Result<WebResult, Failure> {
    host.call::<method::ServerWeb>(&WebParams { listen }, "serve HTTP").await
}
