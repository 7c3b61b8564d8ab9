//! When a worker is done: the short form of the command line, or a matcher.

use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher::{Matcher, PATTERN_MAX_BYTES, ScreenStable, Test};
use serde_json::Value;

/// How long the screen must rest when `stable` has no number; as the command line's.
const STABLE_MS: u64 = 500;

/// Reads a condition, or says what is wrong with it.
pub(super) fn read(value: &Value) -> Result<Matcher, String> {
    match value {
        Value::String(text) => short(text),
        other => serde_json::from_value(other.clone())
            .map_err(|error| format!("\"until\" is not a condition: {error}")),
    }
}

fn short(text: &str) -> Result<Matcher, String> {
    let wanted = || {
        format!(
            "{text:?} is not a condition: exit, stable[=MS], text=REGEX or state=NAME is wanted"
        )
    };
    let (word, value) = match text.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (text, None),
    };
    let test = match (word, value) {
        ("exit", None) => Test::ProcessExited,
        ("stable", None) => Test::ScreenStable(ScreenStable { min_ms: STABLE_MS }),
        ("stable", Some(ms)) => {
            let min_ms = ms.parse().map_err(|_| wanted())?;
            Test::ScreenStable(ScreenStable { min_ms })
        }
        ("state", Some(name)) if !name.is_empty() => Test::State(OneOrMany::One(name.to_owned())),
        ("text", Some(pattern)) if !pattern.is_empty() => {
            if pattern.len() > PATTERN_MAX_BYTES {
                return Err(format!("a pattern longer than {PATTERN_MAX_BYTES} bytes"));
            }
            // On the screen now, or gone by since the session began.
            Test::Any(vec![
                Matcher::new(Test::ScreenRegex(pattern.to_owned())),
                Matcher::new(Test::TranscriptRegex(pattern.to_owned())),
            ])
        }
        _ => return Err(wanted()),
    };
    Ok(Matcher::new(test))
}
