//! What a wait waits for, and what it found.
//!
//! The wire form is `{"type": …, "value": …}` with optional members beside them: `name` (returned
//! with the match), `ignore_case`, `region` (look at a part of the screen), `since` (look only at
//! output from this sequence number on). A decoded matcher is within the limits below.
//! Absent on purpose: regular expressions are texts here; whoever compiles them reports a bad one.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::{OneOrMany, is_false, screen::Region};

/// Deepest nesting of `any`, `all`, `not`, `region`.
pub const MATCHER_DEPTH_MAX: usize = 16;
/// Most parts of one matcher: each is looked at on every change of the screen.
pub const MATCHER_PARTS_MAX: usize = 256;
/// Longest text or pattern of one part.
pub const PATTERN_MAX_BYTES: usize = 16 * 1024;

/// A condition on a session, with its scope.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Matcher {
    /// What is waited for.
    #[serde(flatten)]
    pub test: Test,
    /// Returned with the match, to know which branch it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Letters match in either case. Holds for the parts within, too.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("x-aliases" = ["case_insensitive"]))]
    pub ignore_case: bool,
    /// Screen conditions look here only. Holds for the parts within, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// Transcript conditions look at output from this sequence number on; screen conditions hold
    /// only once the screen has changed past it. Holds for the parts within, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// The condition itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Test {
    /// The screen shows this text.
    ContainsText(String),
    /// A regular expression matches the screen's text.
    ScreenRegex(String),
    /// The output so far holds this text.
    TranscriptContains(String),
    /// A regular expression matches the output so far.
    TranscriptRegex(String),
    /// The cursor is in this cell, counted from 0.
    CursorAt(CursorAt),
    /// Nothing visible has changed for this long, also before the wait began.
    ScreenStable(ScreenStable),
    /// The process has ended.
    ProcessExited,
    /// The process has ended with status 0. Another status ends the wait at once: `session_closed`.
    Success,
    /// One of these holds.
    Any(Vec<Matcher>),
    /// All of these hold at once.
    All(Vec<Matcher>),
    /// This does not hold.
    Not(Box<Matcher>),
    /// A plugin's predicate.
    Lua(LuaTest),
    /// The window title contains a text, or matches `{"regex": …}`.
    Title(TextTest),
    /// The session is in this state, or one of these.
    State(OneOrMany<String>),
    /// The process ended with this status, or one of these.
    ExitCode(OneOrMany<i32>),
    /// The condition holds within a part of the screen.
    Region(RegionTest),
}

/// The value of `cursor_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorAt {
    /// From 0.
    pub row: u16,
    /// From 0.
    pub col: u16,
}

/// The value of `screen_stable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenStable {
    /// For how long nothing visible changed.
    pub min_ms: u64,
}

/// The value of `lua`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LuaTest {
    /// Which plugin.
    pub plugin: String,
    /// Which of its functions.
    pub predicate: String,
    /// Handed to it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// A text to contain, or `{"regex": …}` to match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TextTest {
    /// Contains this.
    Contains(String),
    /// Matches this.
    Matches {
        /// A regular expression.
        regex: String,
    },
}

/// The value of `region`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegionTest {
    /// Where to look.
    pub region: Region,
    /// What for.
    pub matcher: Box<Matcher>,
}

impl Matcher {
    /// A condition without scope.
    pub fn new(test: Test) -> Matcher {
        Matcher { test, name: None, ignore_case: false, region: None, since: None }
    }

    /// The matchers directly within.
    pub fn parts(&self) -> &[Matcher] {
        match &self.test {
            Test::Any(parts) | Test::All(parts) => parts,
            Test::Not(part) => std::slice::from_ref(&**part),
            Test::Region(within) => std::slice::from_ref(&*within.matcher),
            _ => &[],
        }
    }

    fn depth(&self) -> usize {
        1 + self.parts().iter().map(Matcher::depth).max().unwrap_or(0)
    }

    fn count(&self) -> usize {
        1 + self.parts().iter().map(Matcher::count).sum::<usize>()
    }
}

impl From<Test> for Matcher {
    fn from(test: Test) -> Matcher {
        Matcher::new(test)
    }
}

/// The wire form before its value is read: keeps the message of a wrong value readable, where a
/// flattened enum would only say that nothing fits.
#[derive(Deserialize)]
struct WireMatcher {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "case_insensitive")]
    ignore_case: bool,
    #[serde(default)]
    region: Option<Region>,
    #[serde(default)]
    since: Option<u64>,
}

/// Why a matcher was refused.
#[derive(Debug, thiserror::Error)]
enum MatcherError {
    #[error("unknown matcher type: {0}")]
    Unknown(String),
    #[error("matcher {kind}: {source}")]
    Value { kind: String, source: serde_json::Error },
    #[error("matcher nested deeper than {MATCHER_DEPTH_MAX} levels")]
    Depth,
    #[error("matcher has more than {MATCHER_PARTS_MAX} parts")]
    Parts,
    #[error("matcher {kind}: text longer than {PATTERN_MAX_BYTES} bytes")]
    Long { kind: String },
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Matcher, D::Error> {
        WireMatcher::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

impl TryFrom<WireMatcher> for Matcher {
    type Error = MatcherError;

    fn try_from(wire: WireMatcher) -> Result<Matcher, MatcherError> {
        let test = read_test(&wire.kind, wire.value)?;
        let WireMatcher { kind, name, ignore_case, region, since, .. } = wire;
        let matcher = Matcher { test, name, ignore_case, region, since };
        if matcher.depth() > MATCHER_DEPTH_MAX {
            return Err(MatcherError::Depth);
        }
        if matcher.count() > MATCHER_PARTS_MAX {
            return Err(MatcherError::Parts);
        }
        let longest = match &matcher.test {
            Test::ContainsText(text)
            | Test::ScreenRegex(text)
            | Test::TranscriptContains(text)
            | Test::TranscriptRegex(text)
            | Test::Title(TextTest::Contains(text) | TextTest::Matches { regex: text }) => {
                text.len()
            }
            Test::State(states) => states.as_slice().iter().map(String::len).sum(),
            _ => 0,
        };
        if longest > PATTERN_MAX_BYTES {
            return Err(MatcherError::Long { kind });
        }
        Ok(matcher)
    }
}

fn read_test(kind: &str, value: Value) -> Result<Test, MatcherError> {
    fn read<T: serde::de::DeserializeOwned>(kind: &str, value: Value) -> Result<T, MatcherError> {
        serde_json::from_value(value)
            .map_err(|source| MatcherError::Value { kind: kind.to_owned(), source })
    }
    Ok(match kind {
        "contains_text" => Test::ContainsText(read(kind, value)?),
        "screen_regex" => Test::ScreenRegex(read(kind, value)?),
        "transcript_contains" => Test::TranscriptContains(read(kind, value)?),
        "transcript_regex" => Test::TranscriptRegex(read(kind, value)?),
        "cursor_at" => Test::CursorAt(read(kind, value)?),
        "screen_stable" => Test::ScreenStable(read(kind, value)?),
        "process_exited" => Test::ProcessExited,
        "success" => Test::Success,
        "any" => Test::Any(read(kind, value)?),
        "all" => Test::All(read(kind, value)?),
        "not" => Test::Not(read(kind, value)?),
        "lua" => Test::Lua(read(kind, value)?),
        "title" => Test::Title(read(kind, value)?),
        "state" => Test::State(read(kind, value)?),
        "exit_code" => Test::ExitCode(read(kind, value)?),
        "region" => Test::Region(read(kind, value)?),
        _ => return Err(MatcherError::Unknown(kind.to_owned())),
    })
}

/// What a wait found: the condition that held, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Which condition, and what it saw.
    #[serde(flatten)]
    pub found: Found,
    /// The matcher's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The condition that held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "each variant is the matcher of the same name")]
pub enum Found {
    ContainsText {
        text: String,
    },
    /// `capture` is group 1, or the whole match.
    ScreenRegex {
        pattern: String,
        capture: String,
    },
    TranscriptContains {
        text: String,
    },
    /// `capture` is group 1, or the whole match.
    TranscriptRegex {
        pattern: String,
        capture: String,
    },
    CursorAt {
        row: u16,
        col: u16,
    },
    ScreenStable {
        min_ms: u64,
    },
    ProcessExited {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<super::session::ExitStatus>,
    },
    Success,
    /// `index` is the position of the branch that held.
    Any {
        matched: Box<Outcome>,
        #[serde(default)]
        index: usize,
    },
    All {
        matched: Vec<Outcome>,
    },
    Not,
    Lua {
        plugin: String,
        predicate: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capture: Option<String>,
    },
    Title {
        title: String,
    },
    State {
        state: String,
    },
    ExitCode {
        code: i32,
    },
    Region {
        region: Region,
        matched: Box<Outcome>,
    },
}

impl From<Found> for Outcome {
    fn from(found: Found) -> Outcome {
        Outcome { found, name: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Matcher, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn all_sixteen_survive_the_wire() {
        for value in [
            json!({"type": "contains_text", "value": "x"}),
            json!({"type": "screen_regex", "value": "x+", "ignore_case": true}),
            json!({"type": "transcript_contains", "value": "x", "since": 9}),
            json!({"type": "transcript_regex", "value": "x"}),
            json!({"type": "cursor_at", "value": {"row": 1, "col": 2}}),
            json!({"type": "screen_stable", "value": {"min_ms": 300}}),
            json!({"type": "process_exited"}),
            json!({"type": "success"}),
            json!({"type": "any", "value": [{"type": "process_exited", "name": "end"}]}),
            json!({"type": "all", "value": [{"type": "contains_text", "value": "x", "name": "n"}]}),
            json!({"type": "not", "value": {"type": "process_exited"}}),
            json!({"type": "lua", "value": {"plugin": "p", "predicate": "f", "params": {"a": 1}}}),
            json!({"type": "title", "value": "vim"}),
            json!({"type": "title", "value": {"regex": "^v"}}),
            json!({"type": "state", "value": ["ready", "error"]}),
            json!({"type": "exit_code", "value": 0}),
            json!({"type": "region", "value": {"region": {"row": 0, "col": 2, "rows": 1}, "matcher": {"type": "contains_text", "value": "x"}}}),
            json!({"type": "contains_text", "value": "x", "region": {"row": 3}}),
        ] {
            let matcher = read(value.clone()).unwrap();
            let again = serde_json::to_value(&matcher).unwrap();
            assert_eq!(read(again.clone()).unwrap(), matcher);
            assert_eq!(again["type"], value["type"]);
            assert_eq!(again.get("value"), value.get("value"), "{value}");
        }
    }

    #[test]
    fn a_null_value_of_process_exited_is_fine() {
        assert_eq!(
            read(json!({"type": "process_exited", "value": null})).unwrap().test,
            Test::ProcessExited
        );
    }

    #[test]
    fn errors_name_the_matcher() {
        assert_eq!(read(json!({"type": "frob"})).unwrap_err(), "unknown matcher type: frob");
        let text = read(json!({"type": "contains_text", "value": 3})).unwrap_err();
        assert!(text.starts_with("matcher contains_text: invalid type"), "{text}");
        assert!(read(json!({"type": "cursor_at", "value": {"row": -1, "col": 0}})).is_err());
    }

    #[test]
    fn limits_hold() {
        let mut deep = json!({"type": "process_exited"});
        for _ in 1..MATCHER_DEPTH_MAX {
            deep = json!({"type": "not", "value": deep});
        }
        assert!(read(deep.clone()).is_ok());
        assert!(read(json!({"type": "not", "value": deep})).unwrap_err().contains("deeper"));

        let parts =
            |n: usize| json!({"type": "any", "value": vec![json!({"type": "process_exited"}); n]});
        assert!(read(parts(MATCHER_PARTS_MAX - 1)).is_ok());
        assert!(read(parts(MATCHER_PARTS_MAX)).unwrap_err().contains("parts"));

        let long = "x".repeat(PATTERN_MAX_BYTES + 1);
        assert!(
            read(json!({"type": "screen_regex", "value": long})).unwrap_err().contains("longer")
        );
    }

    #[test]
    fn outcomes_have_the_known_shape() {
        let inner =
            Outcome { found: Found::ContainsText { text: "x".into() }, name: Some("a".into()) };
        let outcome = Outcome::from(Found::Any { matched: Box::new(inner), index: 1 });
        let value = serde_json::to_value(&outcome).unwrap();
        assert_eq!(
            value,
            json!({"kind": "any", "index": 1, "matched": {"kind": "contains_text", "text": "x", "name": "a"}})
        );
        assert_eq!(serde_json::from_value::<Outcome>(value).unwrap(), outcome);
        let exited = Outcome::from(Found::ProcessExited { exit: None });
        assert_eq!(serde_json::to_value(exited).unwrap(), json!({"kind": "process_exited"}));
    }
}
