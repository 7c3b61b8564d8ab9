//! MCP on stdin and stdout, until the client closes them.

use std::sync::Arc;

use rmcp::service::ServerInitializeError;

use super::{Backend, Server};

#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("cannot speak MCP: {0}")]
    Begin(#[source] Box<ServerInitializeError>),
    #[error("cannot go on speaking MCP: {0}")]
    Ended(#[source] tokio::task::JoinError),
}

/// Serves one client.
pub async fn serve_stdio(backend: Arc<dyn Backend>) -> Result<(), StdioError> {
    let serving =
        rmcp::serve_server(Server::new(backend), rmcp::transport::io::stdio_pipes()).await;
    let running = match serving {
        Ok(running) => running,
        // Whoever looks and leaves is no mistake.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Begin(Box::new(error))),
    };
    running.waiting().await.map(drop).map_err(StdioError::Ended)
}
