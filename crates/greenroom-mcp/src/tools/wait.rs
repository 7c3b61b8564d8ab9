//! `session_wait`: conditions as a model would say them.
//!
//! A text counts when it is on the screen, or went by since the call: a fast program may scroll it
//! away between two looks. Those are two waits of the host, because each has a scope of its own.

use std::sync::Arc;

use greenroom_protocol::methods::MethodId;
use greenroom_protocol::{Fault, FaultKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::{ToolAnswer, cut, text_max};
use crate::{Answer, Backend};

/// When nobody says how long.
const TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// Longest wait of one call: whoever wants more calls again, and is asked in between whether it
/// still wants to.
const TIMEOUT_MAX_MS: u64 = 600_000;

/// Arguments of `session_wait`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// Id or name of the session.
    session: String,
    /// Until this regular expression matches the screen, or output that comes.
    #[serde(default)]
    text: Option<String>,
    /// Until nothing visible has changed for this long: 500 suits most programs.
    #[serde(default)]
    stable_ms: Option<u64>,
    /// Until the program has ended.
    #[serde(default)]
    exit: bool,
    /// Until the program has ended well: with status 0. If it ends otherwise, `why` is `failed`.
    #[serde(default)]
    success: bool,
    /// Only what came after this sequence number counts; `session_send` answers one.
    #[serde(default)]
    since: Option<u64>,
    /// For how long: 30000 if left out, 600000 at most.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// At most this much text of the screen: 16384 if left out.
    #[serde(default)]
    max_bytes: Option<u64>,
}

pub(crate) async fn until(backend: &Arc<dyn Backend>, wait: Wait) -> Result<ToolAnswer, Fault> {
    let max = text_max(wait.max_bytes);
    match first_of(backend, &wait).await {
        Ok(found) => {
            let screen =
                cut(found["snapshot"]["text"].as_str().unwrap_or_default(), max).to_owned();
            let mut value = json!({
                "matched": true, "sequence": found["sequence"], "elapsed_ms": found["elapsed_ms"],
                "screen": screen,
            });
            for (name, from) in [("exit", &found["exit"]), ("found", &found["outcome"])] {
                if !from.is_null() {
                    value[name] = from.clone();
                }
            }
            Ok(ToolAnswer { text: None, value })
        }
        Err(fault) if fault.kind() == FaultKind::Timeout => {
            let seen = fault.evidence().unwrap_or_default();
            let value = json!({
                "matched": false, "why": "timeout", "sequence": seen.sequence, "elapsed_ms": seen.elapsed_ms,
                "screen": cut(&seen.last_text, max), "nearest": seen.nearest, "behind": seen.behind,
            });
            Ok(ToolAnswer { text: None, value })
        }
        Err(fault) if fault.kind() == FaultKind::SessionClosed => {
            let why = if wait.success { "failed" } else { "ended" };
            let value = json!({
                "matched": false, "why": why, "exit": fault.data.more.get("exit"), "message": fault.message,
            });
            Ok(ToolAnswer { text: None, value })
        }
        Err(fault) => Err(fault),
    }
}

async fn first_of(backend: &Arc<dyn Backend>, wait: &Wait) -> Result<Value, Fault> {
    let mut tests = Vec::new();
    if let Some(pattern) = &wait.text {
        tests.push(json!({ "type": "screen_regex", "value": pattern }));
    }
    if let Some(min_ms) = wait.stable_ms {
        tests.push(json!({ "type": "screen_stable", "value": { "min_ms": min_ms } }));
    }
    if wait.exit {
        tests.push(json!({ "type": "process_exited" }));
    }
    if wait.success {
        tests.push(json!({ "type": "success" }));
    }
    if tests.is_empty() {
        let why = "nothing to wait for: give text, stable_ms, exit or success";
        return Err(Fault::invalid_params(why));
    }
    let now = ask(backend, wait, json!({ "type": "any", "value": tests }), wait.since);
    let Some(pattern) = &wait.text else { return now.await };
    let since = match wait.since {
        Some(since) => since,
        None => {
            let params = json!({ "session": wait.session });
            backend.call(MethodId::SessionInfo, params).await?["seq"].as_u64().unwrap_or(0)
        }
    };
    let passing = json!({ "type": "transcript_regex", "value": pattern });
    either(now, ask(backend, wait, passing, Some(since))).await
}

fn ask(backend: &Arc<dyn Backend>, wait: &Wait, matcher: Value, since: Option<u64>) -> Answer {
    let timeout_ms = wait.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS).min(TIMEOUT_MAX_MS);
    let mut params = json!({
        "session": wait.session, "matcher": matcher, "timeout_ms": timeout_ms, "snapshot": "text",
    });
    if let Some(since) = since {
        params["since"] = json!(since);
    }
    backend.call(MethodId::SessionWait, params)
}

/// Either may succeed after the other gave up; the first failure is the one to tell, unless filters
/// are behind: then nobody can say that it ended without what was waited for.
async fn either(mut one: Answer, mut other: Answer) -> Result<Value, Fault> {
    let (first, second) = tokio::select! {
        first = &mut one => (first, other),
        first = &mut other => (first, one),
    };
    match first {
        Ok(found) => Ok(found),
        Err(first) => {
            second.await.map_err(|second| if second.is_behind() { second } else { first })
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::fault::Evidence;

    use super::*;

    fn answer(answer: Result<Value, Fault>) -> Answer {
        Box::pin(async move { answer })
    }

    #[tokio::test]
    async fn filters_that_are_behind_are_told_rather_than_an_end() {
        let ended = || Fault::new(FaultKind::SessionClosed, "it ended");
        let behind =
            |behind| Fault::timeout("nothing matched", &Evidence { behind, ..Evidence::default() });
        let check = async |one: Fault, other: Fault, kind| {
            let both = [(one.clone(), other.clone()), (other, one)];
            for (one, other) in both {
                let told = either(answer(Err(one)), answer(Err(other))).await.unwrap_err();
                assert_eq!(told.kind(), kind);
            }
        };
        check(ended(), behind(7), FaultKind::Timeout).await;
        let first = either(
            answer(Err(ended())),
            Box::pin(async {
                tokio::task::yield_now().await;
                Err(Fault::timeout("nothing matched", &Evidence::default()))
            }),
        )
        .await;
        assert_eq!(first.unwrap_err().kind(), FaultKind::SessionClosed, "all was let through");
    }
}
