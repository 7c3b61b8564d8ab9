//! `greenroom mcp`: the host's sessions as tools of an agent, on stdin and stdout.
//!
//! A session it starts gets this process's directory and environment, as with `greenroom new`.
//! Absent on purpose: what a tool is; `greenroom-mcp` serves them here and on HTTP.

use std::sync::Arc;

use clap::Args;
use greenroom_client::{Client, ClientError};
use greenroom_daemon::hangup;
use greenroom_mcp::{Answer, Backend, serve_stdio};
use greenroom_protocol::Fault;
use greenroom_protocol::methods::MethodId;
use serde_json::{Map, Value, json};

use super::{Context, new};
use crate::error::{ExitResult, Failure};

/// Speak MCP on stdin and stdout: sessions as tools of an agent
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  greenroom mcp\n  claude mcp add greenroom -- greenroom mcp")]
pub struct McpArgs {}

pub async fn run(_: McpArgs, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let mut defaults = Map::new();
    defaults.insert("inherit_env".to_owned(), json!(new::environment(&context.out)));
    // A directory that cannot be named is the host's to choose.
    if let Some(dir) = std::env::current_dir().ok().as_deref().and_then(std::path::Path::to_str) {
        defaults.insert("cwd".to_owned(), json!(dir));
    }
    let socket = Socket { client: host.client, defaults };
    let unheard = hangup::closed(std::io::stdout());
    serve_stdio(Arc::new(socket), unheard)
        .await
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok(0)
}

/// The host through its socket.
struct Socket {
    client: Client,
    /// Params of a session that is started here.
    defaults: Map<String, Value>,
}

impl Backend for Socket {
    fn call(&self, method: MethodId, mut params: Value) -> Answer {
        if method == MethodId::SessionCreate
            && let Value::Object(params) = &mut params
        {
            for (name, value) in &self.defaults {
                params.entry(name).or_insert_with(|| value.clone());
            }
        }
        let client = self.client.clone();
        Box::pin(async move { client.call_untyped(method, &params).await.map_err(fault) })
    }
}

fn fault(error: ClientError) -> Fault {
    match error {
        ClientError::Fault(fault) => fault,
        error => {
            let fault = Fault::new(error.kind(), error.to_string());
            match error.hint() {
                Some(hint) => fault.hint(hint),
                None => fault,
            }
        }
    }
}
