//! `greenroom mcp`: the host's sessions as tools of an agent, on stdin and stdout.
//!
//! A session it starts gets this process's directory and environment, as with `greenroom new`.
//! Absent on purpose: what a tool is; the daemon's room of that name serves them here and on HTTP.

use std::sync::Arc;

use greenroom_client::{Client, ClientError};
use greenroom_daemon::mcp::{Answer, Backend, serve_stdio};
use greenroom_protocol::Fault;
use serde_json::{Map, Value, json};

use super::{Context, new};
use crate::error::{Failure, Outcome};

pub async fn run(context: &Context) -> Outcome {
    let host = context.host().await?;
    let mut defaults = Map::new();
    defaults.insert("inherit_env".to_owned(), json!(new::environment(&context.out)));
    // A directory that cannot be named is the host's to choose.
    if let Some(dir) = std::env::current_dir().ok().as_deref().and_then(std::path::Path::to_str) {
        defaults.insert("cwd".to_owned(), json!(dir));
    }
    let socket = Socket { client: host.client, defaults };
    serve_stdio(Arc::new(socket)).await.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(0)
}

/// The host through its socket.
struct Socket {
    client: Client,
    /// Of a session that is started here.
    defaults: Map<String, Value>,
}

impl Backend for Socket {
    fn call(&self, method: &'static str, mut params: Value) -> Answer {
        if let (true, Value::Object(params)) = (method == "session.create", &mut params) {
            for (name, value) in &self.defaults {
                params.entry(name).or_insert_with(|| value.clone());
            }
        }
        let client = self.client.clone();
        Box::pin(async move { client.call(method, &params).await.map_err(fault) })
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
