//! `greenroom hook`: an agent's own hook tells the host what the agent does.
//!
//! In: the JSON that Claude Code and Codex give their hooks, on stdin or as an argument. Out: nothing at all, and exit
//! code 0: whatever is wrong here, the agent must not notice. Outside of a session, and without a host, nothing is told.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use greenroom_protocol::api::notice::{EmitParams, EmitResult};
use serde_json::{Map, Value};

use super::Context;
use crate::cli::HookArgs;
use crate::error::Outcome;

/// An agent waits for its hooks: this is the longest it waits for us.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than this is not told; a tool's input may hold a whole file.
const SAID_MAX: u64 = 1024 * 1024;

pub async fn run(args: HookArgs, context: &Context) -> Outcome {
    let session = std::env::var("GREENROOM_SESSION").ok().filter(|session| !session.is_empty());
    if let (Some(session), Some(data)) = (session, said(args.json)) {
        let agent = args.agent.or_else(|| agent_of(&data).map(str::to_owned));
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
