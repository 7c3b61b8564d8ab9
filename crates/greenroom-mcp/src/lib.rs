//! MCP: the sessions of a host as tools for an agent.
//!
//! In: calls of tools, over stdio (`greenroom mcp`, a client of the host) or streamable HTTP
//! (`/mcp` of the daemon). Out: calls of methods through a [`Backend`], whose answers came through
//! egress like everybody's. `tools` is the one table from tool to method; rows of the method table
//! that it does not know become tools by themselves. Deliberately absent: prompts, resources,
//! sampling, sockets, and any state of its own.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod schema;
mod stdio;
mod tools;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use greenroom_protocol::Fault;
use greenroom_protocol::methods::MethodId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

pub use stdio::{StdioError, serve_stdio};
use tools::ToolAnswer;

/// A tool that takes longer says this often that it goes on.
const PROGRESS: Duration = Duration::from_secs(5);

/// Largest answer of a tool: more than this is of no use to a model, and costs its whole context.
const ANSWER_MAX: usize = 512 * 1024;

const INSTRUCTIONS: &str = "Terminals that outlive this conversation. session_start runs a program on a terminal of its own and \
answers its id; session_send types into it (keys by name: enter, ctrl-c, up); session_wait waits until a text shows, the screen is \
still or the program ends; session_read answers the screen, or output from a sequence number on. Pass the `sequence` of session_send \
as `since` to session_wait, so that only what came after counts.";

/// A method's answer, later.
pub type Answer = Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send>>;

/// The way to the host. Dropping an answer cancels the call.
pub trait Backend: Send + Sync + 'static {
    /// Calls a method of the client API.
    fn call(&self, method: MethodId, params: Value) -> Answer;
}

/// One MCP server; cheap to clone.
#[derive(Clone)]
pub struct Server {
    backend: Arc<dyn Backend>,
}

impl Server {
    pub fn new(backend: Arc<dyn Backend>) -> Server {
        Server { backend }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("greenroom", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get_tool(&request.name).is_none() {
            let shown: String = request.name.chars().take(80).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {shown}"), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        tokio::select! {
            answer = tools::call(&self.backend, &request.name, arguments) => Ok(match answer {
                Ok(answer) => answered(answer).into(),
                Err(fault) => refused(&fault).into(),
            }),
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("cancelled by the client", None))
            }
            never = progress(&context) => match never {},
        }
    }
}

/// Tells a client that asked for it that its call goes on.
async fn progress(context: &RequestContext<RoleServer>) -> std::convert::Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.tick().await;
    let mut elapsed = Duration::ZERO;
    loop {
        ticks.tick().await;
        elapsed += PROGRESS;
        let progress = ProgressNotificationParam::new(token.clone(), elapsed.as_secs_f64())
            .with_message(format!("{} s", elapsed.as_secs()));
        // A client that is gone ends the call itself.
        let _ = context.peer.notify_progress(progress).await;
    }
}

fn answered(answer: ToolAnswer) -> CallToolResult {
    let text = answer.text.unwrap_or_else(|| answer.value.to_string());
    if text.len() > ANSWER_MAX {
        let message = format!("the answer has {} bytes, more than {ANSWER_MAX}", text.len());
        let fault = Fault::new(greenroom_protocol::FaultKind::TooLarge, message);
        return refused(&fault.hint("ask for less at once"));
    }
    let mut result = CallToolResult::structured(answer.value);
    result.content = vec![ContentBlock::text(text)];
    result
}

/// A fault is an answer of the tool: the model shall read it and do something else.
fn refused(fault: &Fault) -> CallToolResult {
    let mut text = fault.message.clone();
    if let Some(hint) = &fault.data.hint {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    let mut result = CallToolResult::structured_error(json!({ "error": fault }));
    result.content = vec![ContentBlock::text(text)];
    result
}
