//! What a caller waits for, as the engine understands it, and what it found, as the caller wrote
//! it.
//!
//! The wire's scopes (`ignore_case`, `region`) hold for everything within; here they are put onto
//! each leaf. An answer is read beside the matcher it answers, because one wire condition may
//! become several of the engine's (`state` with a list) and must come back as one.

use std::time::Duration;

use greenroom_engine::wait::{Branch, Matcher, MatcherError, Outcome, Region, pattern};
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::matcher as wire;
use greenroom_protocol::api::screen as wire_screen;
use greenroom_protocol::api::session::SessionState;
use greenroom_protocol::{Fault, FaultKind};

/// Nothing can be still for longer than the longest wait.
const STABLE_MAX: Duration = Duration::from_secs(86_400);

/// What a program can end with.
const STATUSES: std::ops::RangeInclusive<i32> = 0..=255;

pub(crate) fn matcher(given: &wire::Matcher) -> Result<Matcher, Fault> {
    let matcher = build(given, false)?;
    if when(&given.test).may == 0 {
        return Err(Fault::invalid_params(
            "the conditions exclude each other: they never hold together",
        ));
    }
    Ok(matcher)
}

/// Refuses what cannot come to hold any more in a session that lives. An ended session says so
/// itself, with its status.
pub(crate) fn reachable(given: &wire::Matcher, now: SessionState) -> Result<(), Fault> {
    let ahead = match now {
        SessionState::Starting => ALL,
        SessionState::Running => {
            bit(SessionState::Running) | bit(SessionState::Exited) | bit(SessionState::Lost)
        }
        SessionState::Exited | SessionState::Failed | SessionState::Lost => return Ok(()),
    };
    if when(&given.test).may & ahead != 0 {
        return Ok(());
    }
    let message = format!("cannot wait for what is over: the session is {now}");
    Err(Fault::new(FaultKind::Conflict, message))
}

/// A set of states: a bit each.
type States = u8;

const ALL: States = u8::MAX;

fn bit(state: SessionState) -> States {
    1 << state as u8
}

/// The states in which a condition may hold, and those in which it holds whatever else is.
struct When {
    may: States,
    must: States,
}

fn when(test: &wire::Test) -> When {
    use wire::Test;
    let ended = bit(SessionState::Exited) | bit(SessionState::Lost);
    // Bits of no state are in neither set.
    let within = SessionState::ALL.into_iter().map(bit).fold(0, |all, one| all | one);
    match test {
        Test::State(states) => {
            let named =
                states.as_slice().iter().filter_map(|state| SessionState::named(state).ok());
            let all = named.map(bit).fold(0, |all, one| all | one);
            When { may: all, must: all }
        }
        Test::ProcessExited => When { may: ended, must: ended },
        Test::Success | Test::ExitCode(_) => When { may: bit(SessionState::Exited), must: 0 },
        Test::Any(parts) => {
            parts.iter().map(|part| when(&part.test)).fold(When { may: 0, must: 0 }, |all, one| {
                When { may: all.may | one.may, must: all.must | one.must }
            })
        }
        Test::All(parts) => parts.iter().map(|part| when(&part.test)).fold(
            When { may: within, must: within },
            |all, one| When { may: all.may & one.may, must: all.must & one.must },
        ),
        Test::Not(part) => {
            let inner = when(&part.test);
            When { may: within & !inner.must, must: within & !inner.may }
        }
        Test::Region(part) => when(&part.matcher.test),
        _ => When { may: within, must: 0 },
    }
}

/// The first scope `since` in the tree, outermost first.
pub(crate) fn since(given: &wire::Matcher) -> Option<u64> {
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
        Test::Success => Matcher::ExitCode(0),
        Test::Any(parts) => Matcher::Any(branches(parts, ignore_case)?),
        Test::All(parts) => Matcher::All(branches(parts, ignore_case)?),
        Test::Not(part) => Matcher::Not(Box::new(build(part, ignore_case)?)),
        Test::Title(wire::TextTest::Contains(text)) => Matcher::Title(regex(&escaped(text))?),
        Test::Title(wire::TextTest::Matches { regex: text }) => Matcher::Title(regex(text)?),
        Test::State(states) => {
            let named = |state: &String| {
                SessionState::named(state).map(super::state_in).map_err(Fault::invalid_params)
            };
            one_of(states, |state| named(state).map(Matcher::State))?
        }
        Test::ExitCode(codes) => {
            if let Some(code) = codes.as_slice().iter().find(|code| !STATUSES.contains(*code)) {
                let why = format!("no program ends with status {code}; they are 0 to 255");
                return Err(Fault::invalid_params(why));
            }
            one_of(codes, |code| Ok(Matcher::ExitCode(*code)))?
        }
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

fn one_of<T>(
    values: &OneOrMany<T>,
    leaf: impl Fn(&T) -> Result<Matcher, Fault>,
) -> Result<Matcher, Fault> {
    let branch = |value| Ok(Branch { name: None, matcher: leaf(value)? });
    match values.as_slice() {
        [one] => leaf(one),
        several => Ok(Matcher::Any(several.iter().map(branch).collect::<Result<_, Fault>>()?)),
    }
}

fn escaped(text: &str) -> String {
    let special = |c: char| c.is_ascii_punctuation();
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// A matcher the engine does not take.
pub(crate) fn refused(error: &MatcherError) -> Fault {
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
pub(crate) fn outcome(given: &wire::Matcher, found: Outcome) -> wire::Outcome {
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
        (Test::Success, Outcome::ExitCode { .. }) => Found::Success,
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
        Outcome::ScreenStable { min } => Found::ScreenStable { min_ms: super::millis(min) },
        Outcome::ProcessExited { status } => Found::ProcessExited { exit: status.map(super::exit) },
        Outcome::ExitCode { code } => Found::ExitCode { code },
        Outcome::Title { title } => Found::Title { title },
        Outcome::State { state } => Found::State { state: super::state(state).to_string() },
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
    use greenroom_engine::AgentState;
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
        let state = Outcome::State { state: AgentState::Failed };
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
    fn what_can_never_hold_is_refused() {
        let refused = |value: Value| matcher(&read(value)).unwrap_err();
        let fault = refused(json!({"type": "state", "value": "nonsense"}));
        assert_eq!(fault.kind(), FaultKind::InvalidParams);
        assert!(fault.message.contains("starting, running, exited, failed, lost"), "{fault:?}");
        assert!(
            refused(json!({"type": "state", "value": ["exited", "runing"]}))
                .message
                .contains("running?")
        );
        refused(json!({"type": "exit_code", "value": 256}));
        refused(json!({"type": "exit_code", "value": [0, -1]}));
        let (running, exited) =
            (json!({"type": "state", "value": "running"}), json!({"type": "process_exited"}));
        refused(json!({"type": "all", "value": [running, exited]}));
        refused(
            json!({"type": "all", "value": [{"type": "not", "value": exited}, {"type": "success"}]}),
        );
        refused(
            json!({"type": "not", "value": {"type": "any", "value": [exited, {"type": "not", "value": exited}]}}),
        );
        for fine in [
            json!({"type": "all", "value": [{"type": "contains_text", "value": "x"}, running]}),
            json!({"type": "not", "value": {"type": "all", "value": [exited, {"type": "success"}]}}),
            json!({"type": "any", "value": [running, exited]}),
        ] {
            matcher(&read(fine)).unwrap();
        }
    }

    #[test]
    fn what_is_over_does_not_come_again() {
        let at = |value: Value, now| reachable(&read(value), now);
        let starting = || json!({"type": "state", "value": "starting"});
        assert!(at(starting(), SessionState::Starting).is_ok());
        assert_eq!(at(starting(), SessionState::Running).unwrap_err().kind(), FaultKind::Conflict);
        assert!(
            at(json!({"type": "state", "value": ["starting", "exited"]}), SessionState::Running)
                .is_ok()
        );
        assert!(at(starting(), SessionState::Exited).is_ok(), "it says how it ended");
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
