//! What a caller waits for, as the engine understands it, and what it found, as the caller wrote it.
//!
//! The wire's scopes (`ignore_case`, `region`) hold for everything within; here they are put onto
//! each leaf. An answer is read beside the matcher it answers, because one wire condition may
//! become several of the engine's (`state` with a list) and must come back as one.

use std::time::Duration;

use greenroom_engine::wait::{Branch, Matcher, MatcherError, Outcome, Region, pattern};
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher as wire;
use greenroom_protocol::api::screen as wire_screen;
use greenroom_protocol::{Fault, FaultKind};

/// Nothing can be still for longer than the longest wait.
const STABLE_MAX: Duration = Duration::from_secs(86_400);

pub fn matcher(given: &wire::Matcher) -> Result<Matcher, Fault> {
    build(given, false)
}

/// The first scope `since` in the tree, outermost first.
pub fn since(given: &wire::Matcher) -> Option<u64> {
    given.since.or_else(|| given.parts().iter().find_map(since))
}

fn build(given: &wire::Matcher, outer_ignore: bool) -> Result<Matcher, Fault> {
    let ignore_case = outer_ignore || given.ignore_case;
    let inner = test(&given.test, ignore_case)?;
    Ok(match given.region {
        Some(region) => within(region, inner),
        None => inner,
    })
}

fn within(region: wire_screen::Region, matcher: Matcher) -> Matcher {
    let region = Region {
        row: region.row,
        col: region.col,
        rows: region.rows.unwrap_or(u16::MAX),
        cols: region.cols.unwrap_or(u16::MAX),
    };
    Matcher::Region { region, matcher: Box::new(matcher) }
}

fn test(test: &wire::Test, ignore_case: bool) -> Result<Matcher, Fault> {
    use wire::Test;
    let regex = |text: &str| pattern(text, ignore_case).map_err(|error| refused(&error));
    Ok(match test {
        Test::ContainsText(text) => Matcher::ContainsText { text: text.clone(), ignore_case },
        Test::ScreenRegex(text) => Matcher::ScreenRegex(regex(text)?),
        Test::TranscriptContains(text) => {
            Matcher::TranscriptContains { text: text.clone(), ignore_case }
        }
        Test::TranscriptRegex(text) => Matcher::TranscriptRegex(regex(text)?),
        Test::CursorAt(at) => Matcher::CursorAt { row: at.row, col: at.col },
        Test::ScreenStable(stable) => {
            Matcher::ScreenStable { min: Duration::from_millis(stable.min_ms).min(STABLE_MAX) }
        }
        Test::ProcessExited => Matcher::ProcessExited,
        Test::Any(parts) => Matcher::Any(branches(parts, ignore_case)?),
        Test::All(parts) => Matcher::All(branches(parts, ignore_case)?),
        Test::Not(part) => Matcher::Not(Box::new(build(part, ignore_case)?)),
        Test::Title(wire::TextTest::Contains(text)) => Matcher::Title(regex(&escaped(text))?),
        Test::Title(wire::TextTest::Matches { regex: text }) => Matcher::Title(regex(text)?),
        Test::State(states) => one_of(states, |state| Matcher::State(state.clone())),
        Test::ExitCode(codes) => one_of(codes, |code| Matcher::ExitCode(*code)),
        Test::Region(part) => within(part.region, build(&part.matcher, ignore_case)?),
        Test::Lua(_) => {
            let message = "cannot wait for a plugin's predicate: this host has no plugins";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
    })
}

fn branches(parts: &[wire::Matcher], ignore_case: bool) -> Result<Vec<Branch>, Fault> {
    parts
        .iter()
        .map(|part| Ok(Branch { name: part.name.clone(), matcher: build(part, ignore_case)? }))
        .collect()
}

fn one_of<T>(values: &OneOrMany<T>, leaf: impl Fn(&T) -> Matcher) -> Matcher {
    match values.as_slice() {
        [one] => leaf(one),
        several => Matcher::Any(
            several.iter().map(|value| Branch { name: None, matcher: leaf(value) }).collect(),
        ),
    }
}

fn escaped(text: &str) -> String {
    let special = |c: char| c.is_ascii_punctuation();
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A matcher the engine does not take.
pub fn refused(error: &MatcherError) -> Fault {
    match error {
        MatcherError::Regex { pattern, .. } => {
            Fault::new(FaultKind::BadPattern, error.to_string()).with("pattern", pattern.as_str())
        }
        MatcherError::TooDeep | MatcherError::Empty(_) => {
            Fault::new(FaultKind::InvalidParams, format!("invalid params: {error}"))
        }
    }
}

/// What was found, in the shape of the question.
pub fn outcome(given: &wire::Matcher, found: Outcome) -> wire::Outcome {
    let found = match (given.region, found) {
        (Some(_), Outcome::Region(inner)) => *inner,
        (_, found) => found,
    };
    wire::Outcome { found: shaped(&given.test, found), name: given.name.clone() }
}

fn shaped(test: &wire::Test, found: Outcome) -> wire::Found {
    use wire::{Found, Test};
    match (test, found) {
        (Test::Any(parts), Outcome::Any { branch, matched, .. }) => match parts.get(branch) {
            Some(part) => Found::Any { matched: Box::new(outcome(part, *matched)), index: branch },
            None => plain(*matched),
        },
        (Test::All(parts), Outcome::All { matched }) => Found::All {
            matched: parts.iter().zip(matched).map(|(part, found)| outcome(part, found)).collect(),
        },
        (Test::State(_) | Test::ExitCode(_), Outcome::Any { matched, .. }) => plain(*matched),
        (Test::Region(part), Outcome::Region(inner)) => {
            Found::Region { region: part.region, matched: Box::new(outcome(&part.matcher, *inner)) }
        }
        (_, leaf) => plain(leaf),
    }
}

/// A leaf. A tree cannot come here beside a matcher that made it; if it did, its first leaf
/// would still be true.
fn plain(found: Outcome) -> wire::Found {
    use wire::Found;
    match found {
        Outcome::ContainsText { text } => Found::ContainsText { text },
        Outcome::ScreenRegex { pattern, capture } => Found::ScreenRegex { pattern, capture },
        Outcome::TranscriptContains { text } => Found::TranscriptContains { text },
        Outcome::TranscriptRegex { pattern, capture } => {
            Found::TranscriptRegex { pattern, capture }
        }
        Outcome::CursorAt { row, col } => Found::CursorAt { row, col },
        Outcome::ScreenStable { min } => {
            Found::ScreenStable { min_ms: u64::try_from(min.as_millis()).unwrap_or(u64::MAX) }
        }
        Outcome::ProcessExited { status } => Found::ProcessExited { exit: status.map(super::exit) },
        Outcome::ExitCode { code } => Found::ExitCode { code },
        Outcome::Title { title } => Found::Title { title },
        Outcome::State { state } => Found::State { state },
        Outcome::Not => Found::Not,
        Outcome::Region(inner) => plain(*inner),
        Outcome::Any { matched, .. } => plain(*matched),
        Outcome::All { matched } => Found::All {
            matched: matched
                .into_iter()
                .map(|one| wire::Outcome { found: plain(one), name: None })
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> wire::Matcher {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn answers_come_back_in_the_shape_of_the_question() {
        let given = read(json!({"type": "any", "value": [
            {"type": "contains_text", "value": "x"},
            {"type": "state", "value": ["exited", "failed"], "name": "over"},
        ]}));
        assert!(matches!(matcher(&given).unwrap(), Matcher::Any(_)));
        let state = Outcome::State { state: "failed".into() };
        let inner = Outcome::Any { branch: 1, name: None, matched: Box::new(state) };
        let found = Outcome::Any { branch: 1, name: Some("over".into()), matched: Box::new(inner) };
        let answer = serde_json::to_value(outcome(&given, found)).unwrap();
        assert_eq!(
            answer,
            json!({
                "kind": "any", "index": 1,
                "matched": {"kind": "state", "state": "failed", "name": "over"},
            })
        );
    }

    #[test]
    fn scopes_reach_the_leaves() {
        let given = read(json!({"type": "not", "ignore_case": true, "since": 4,
            "value": {"type": "contains_text", "value": "X", "region": {"row": 2}}}));
        assert_eq!(since(&given), Some(4));
        let Matcher::Not(inner) = matcher(&given).unwrap() else { panic!() };
        let Matcher::Region { region, matcher } = *inner else { panic!() };
        assert_eq!((region.row, region.rows), (2, u16::MAX));
        assert!(matches!(*matcher, Matcher::ContainsText { ignore_case: true, .. }));
    }

    #[test]
    fn a_region_around_a_leaf_is_not_told_twice() {
        let given = read(json!({"type": "contains_text", "value": "x", "region": {"row": 1}}));
        let found = Outcome::Region(Box::new(Outcome::ContainsText { text: "x".into() }));
        let answer = serde_json::to_value(outcome(&given, found)).unwrap();
        assert_eq!(answer, json!({"kind": "contains_text", "text": "x"}));
    }

    #[test]
    fn bad_patterns_are_told_at_once() {
        let fault = matcher(&read(json!({"type": "screen_regex", "value": "("}))).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::BadPattern);
        assert_eq!(fault.data.more["pattern"], json!("("));
        let fault =
            matcher(&read(json!({"type": "lua", "value": {"plugin": "p", "predicate": "f"}})));
        assert_eq!(fault.unwrap_err().kind(), FaultKind::Unsupported);
        assert!(matcher(&read(json!({"type": "title", "value": "a(b"}))).is_ok());
    }
}
