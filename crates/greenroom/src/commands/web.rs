//! `greenroom web`: where the host serves HTTP, and the token to show there. Starts the listener if need be.

use greenroom_protocol::api::server::{WebParams, WebResult};
use serde_json::json;

use super::Context;
use crate::cli::WebArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;

pub async fn run(args: WebArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let web = serve(&host, args.listen).await?;
    context.out.answer(&json!({ "url": web.url, "token": web.token }), || {
        // The token is not for a screen that others may see.
        format!("serving HTTP on {}; the token is in {}", web.url, web.token_file)
    })?;
    Ok(0)
}

/// Starts the listener if it does not run.
pub async fn serve(host: &Host, listen: Option<String>) -> Result<WebResult, Failure> {
    host.call("server.web", &WebParams { listen }, "serve HTTP").await
}
