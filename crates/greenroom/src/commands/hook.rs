//! `greenroom hook`: an agent's own hook tells the host what the agent does.
//!
//! In: the JSON that Claude Code and Codex give their hooks, on stdin or as an argument. Out: nothing at all, and exit
//! code 0: whatever is wrong here, the agent must not notice. Outside of a session, and without a host, nothing is told. Inside
//! of a confined session there is no way to the host but the session's own pipe (`greenroom_protocol::told`).

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use greenroom_protocol::api::notice::{EmitParams, EmitResult};
use greenroom_protocol::told::{PIPE_VARIABLE, pieces};
use serde_json::{Map, Value, json};
use tokio::net::unix::pipe;

use super::Context;
use crate::cli::HookArgs;
use crate::error::Outcome;

/// An agent waits for its hooks: this is the longest it waits for us.
const PATIENCE: Duration = Duration::from_secs(2);

/// How soon a pipe without a reader is tried again.
const READER_AGAIN: Duration = Duration::from_millis(50);

/// More than this is not told; a tool's input may hold a whole file.
const SAID_MAX: u64 = 1024 * 1024;

pub async fn run(args: HookArgs, context: &Context) -> Outcome {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (pipe, session) = (variable(PIPE_VARIABLE), variable("GREENROOM_SESSION"));
    if pipe.is_none() && session.is_none() {
        return Ok(0);
    }
    let Some(data) = said(args.json) else { return Ok(0) };
    let agent = args.agent.or_else(|| agent_of(&data).map(str::to_owned));
    if let Some(pipe) = pipe {
        let message = json!({ "agent": agent, "data": data }).to_string();
        let _ = tokio::time::timeout(PATIENCE, speak(pipe.as_ref(), message.as_bytes())).await;
    } else if let Some(session) = session {
        let params = EmitParams { session, agent, event: None, data };
        let telling = async {
            let host = context.running_host().await?;
            host.call::<EmitResult>("hook.emit", &params, "tell the host").await
        };
        // Nobody there, too slow, refused: all the same to the agent.
        let _ = tokio::time::timeout(PATIENCE, telling).await;
    }
    Ok(0)
}

/// Writes a message into the session's pipe, piece by piece.
async fn speak(pipe: &Path, message: &[u8]) -> Option<()> {
    let mut id = [0; 8];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).ok()?;
    let pieces = pieces(message, u64::from_le_bytes(id))?;
    let sender = loop {
        match pipe::OpenOptions::new().open_sender(pipe) {
            Ok(sender) => break sender,
            // Nobody reads: the daemon is being replaced.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                tokio::time::sleep(READER_AGAIN).await;
            }
            Err(_) => return None,
        }
    };
    for piece in pieces {
        // As a whole or not at all.
        while let Err(error) = sender.try_write(&piece) {
            if error.kind() != std::io::ErrorKind::WouldBlock {
                return None;
            }
            sender.writable().await.ok()?;
        }
    }
    Some(())
}

fn said(argument: Option<String>) -> Option<Map<String, Value>> {
    let text = match argument {
        Some(text) => text,
        None if std::io::stdin().is_terminal() => return None,
        None => {
            let mut text = String::new();
            std::io::stdin().lock().take(SAID_MAX).read_to_string(&mut text).ok()?;
            text
        }
    };
    serde_json::from_str(&text).ok()
}

/// By the fields only one of them has.
fn agent_of(data: &Map<String, Value>) -> Option<&'static str> {
    if data.contains_key("transcript_path") {
        return Some("claude");
    }
    let codex = ["turn-id", "thread-id", "turn_id"];
    codex.iter().any(|field| data.contains_key(*field)).then_some("codex")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_are_told_apart() {
        let of = |value: Value| agent_of(value.as_object().unwrap());
        assert_eq!(
            of(json!({ "hook_event_name": "Stop", "transcript_path": "/x" })),
            Some("claude")
        );
        assert_eq!(of(json!({ "type": "agent-turn-complete", "turn-id": "1" })), Some("codex"));
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn only_objects_are_taken() {
        assert!(said(Some("{\"a\":1}".to_owned())).is_some());
        assert!(said(Some("[1]".to_owned())).is_none());
        assert!(said(Some("no json".to_owned())).is_none());
    }
}
