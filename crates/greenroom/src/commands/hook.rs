//! `greenroom hook`: an agent's own hook tells the host what the agent does.
//!
//! In: the JSON that Claude Code and Codex give their hooks, on stdin or as an argument. Out:
//! nothing at all, and exit code 0: whatever is wrong here, the agent must not notice. Outside of a
//! session, and without a host, nothing is told. Inside of a confined session there is no way to
//! the host but the session's own pipe (`greenroom_protocol::hook_pipe`).

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::notice::EmitParams;
use greenroom_protocol::hook_pipe::{PIPE_VARIABLE, pieces};
use serde_json::{Map, Value, json};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::Context;
use crate::error::ExitResult;
use crate::host::HostClient;

/// For agents: tell the host what a hook of theirs was told (JSON on stdin)
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom hooks install claude --print\n  echo '{\"hook_event_name\":\"Stop\"}' | greenroom hook --agent claude\n\nPrints nothing and exits 0 whatever happens: an agent must not notice."
)]
pub struct HookArgs {
    /// Which agent calls; guessed from what it says if not told
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// What it says, if not on stdin: some agents give it as an argument
    // Not `json`: that is the flag of every verb.
    #[arg(id = "said", value_name = "JSON")]
    pub json: Option<String>,
}

/// An agent waits for its hooks: this is the longest it waits for us.
const PATIENCE: Duration = Duration::from_secs(2);

/// How soon a pipe without a reader is tried again.
const READER_AGAIN: Duration = Duration::from_millis(50);

/// More than this is not told; a tool's input may hold a whole file.
const SAID_MAX: u64 = 1024 * 1024;

pub async fn run(args: HookArgs, _: &Context) -> ExitResult {
    // First, and whatever becomes of it: an agent that writes to us must not find the pipe broken.
    let Some(data) = said(args.json).await else { return Ok(0) };
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (pipe, session) = (variable(PIPE_VARIABLE), variable("GREENROOM_SESSION"));
    let agent = args.agent.or_else(|| agent_of(&data).map(str::to_owned));
    if let Some(pipe) = pipe {
        let message = json!({ "agent": agent, "data": data }).to_string();
        let _ = tokio::time::timeout(PATIENCE, speak(pipe.as_ref(), message.as_bytes())).await;
    } else if let Some(session) = session {
        let params = EmitParams { session, agent, event: None, data };
        let telling = async {
            let host = HostClient::reach(false).await?;
            host.call::<method::HookEmit>(&params, "tell the host").await
        };
        // No host, a slow one or a refusal: the agent must not notice any of them.
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

async fn said(argument: Option<String>) -> Option<Map<String, Value>> {
    let text = match argument {
        Some(text) => text.into_bytes(),
        None if std::io::stdin().is_terminal() => return None,
        None => tokio::time::timeout(PATIENCE, stdin()).await.ok()?.ok()??,
    };
    serde_json::from_slice(&text).ok()
}

/// All of stdin. None: more than is told. On a thread of its own, which may be left to itself: an
/// agent need not close it.
fn stdin() -> oneshot::Receiver<Option<Vec<u8>>> {
    let (done, read) = oneshot::channel();
    std::thread::spawn(move || {
        let (mut stdin, mut text) = (std::io::stdin().lock(), Vec::new());
        let whole = stdin.by_ref().take(SAID_MAX).read_to_end(&mut text);
        let rest = std::io::copy(&mut stdin, &mut std::io::sink());
        // `said` may have given up.
        let _ = done.send(whole.and(rest).is_ok_and(|rest| rest == 0).then_some(text));
    });
    read
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

    #[tokio::test]
    async fn only_objects_are_taken() {
        assert!(said(Some("{\"a\":1}".to_owned())).await.is_some());
        assert!(said(Some("[1]".to_owned())).await.is_none());
        assert!(said(Some("no json".to_owned())).await.is_none());
    }
}
