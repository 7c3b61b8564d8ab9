//! What a wait waits for.
//!
//! A matcher is built once (a bad regex is an error then, not a silent
//! time-out) and asked again after every change. It sees one consistent
//! [`Moment`]: a frame, the text since the scope began, how the session is.

use std::time::Duration;

use greenroom_term::Frame;
use regex::Regex;
use tokio::time::Instant;

use crate::process::ExitStatus;
use crate::state::AgentState;

/// Branches nested deeper than this are refused: nobody writes them by hand.
pub const DEPTH_MAX: usize = 16;

/// A compiled regex may take this much memory; patterns come from callers.
const REGEX_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub enum Matcher {
    ContainsText { text: String, ignore_case: bool },
    ScreenRegex(Regex),
    TranscriptContains { text: String, ignore_case: bool },
    TranscriptRegex(Regex),
    CursorAt { row: u16, col: u16 },
    ScreenStable { min: Duration },
    ProcessExited,
    ExitCode(i32),
    Title(Regex),
    State(AgentState),
    Region { region: Region, matcher: Box<Matcher> },
    Not(Box<Matcher>),
    Any(Vec<Branch>),
    All(Vec<Branch>),
}

#[derive(Clone, Debug)]
pub struct Branch {
    pub name: Option<String>,
    pub matcher: Matcher,
}

/// A rectangle of the screen; rows and columns from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub row: u16,
    pub col: u16,
    pub rows: u16,
    pub cols: u16,
}

/// How a matcher came true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    ContainsText { text: String },
    ScreenRegex { pattern: String, capture: String },
    TranscriptContains { text: String },
    TranscriptRegex { pattern: String, capture: String },
    CursorAt { row: u16, col: u16 },
    ScreenStable { min: Duration },
    ProcessExited { status: Option<ExitStatus> },
    ExitCode { code: i32 },
    Title { title: String },
    State { state: AgentState },
    Region(Box<Outcome>),
    Not,
    Any { branch: usize, name: Option<String>, matched: Box<Outcome> },
    All { matched: Vec<Outcome> },
}

/// Everything a matcher may look at, of one moment.
pub struct Moment<'a> {
    pub frame: &'a Frame,
    pub screen: &'a str,
    pub transcript: &'a str,
    pub title: Option<&'a str>,
    pub state: AgentState,
    pub ended: Option<ExitStatus>,
    pub visible_at: Instant,
    pub now: Instant,
}

#[derive(Debug, thiserror::Error)]
pub enum MatcherError {
    #[error("the regex `{pattern}` is not valid: {source}")]
    Regex { pattern: String, source: Box<regex::Error> },
    #[error("matchers are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("`{0}` needs at least one matcher")]
    Empty(&'static str),
}

/// Compiles a caller's pattern under our limits.
pub fn pattern(pattern: &str, ignore_case: bool) -> Result<Regex, MatcherError> {
    regex::RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .multi_line(true)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .build()
        .map_err(|source| MatcherError::Regex {
            pattern: pattern.to_owned(),
            source: Box::new(source),
        })
}

impl Matcher {
    pub fn check(&self) -> Result<(), MatcherError> {
        self.check_depth(0)
    }

    fn check_depth(&self, depth: usize) -> Result<(), MatcherError> {
        match self {
            _ if depth > DEPTH_MAX => Err(MatcherError::TooDeep),
            Matcher::Any(branches) if branches.is_empty() => Err(MatcherError::Empty("any")),
            Matcher::All(branches) if branches.is_empty() => Err(MatcherError::Empty("all")),
            _ => self.parts().try_for_each(|part| part.check_depth(depth + 1)),
        }
    }

    /// The matchers directly within this one.
    fn parts(&self) -> impl Iterator<Item = &Matcher> {
        let (branches, inner) = match self {
            Matcher::Any(branches) | Matcher::All(branches) => (branches.as_slice(), None),
            Matcher::Not(inner) | Matcher::Region { matcher: inner, .. } => (&[][..], Some(inner)),
            _ => (&[][..], None),
        };
        branches.iter().map(|branch| &branch.matcher).chain(inner.map(|inner| &**inner))
    }

    /// Whether the transcript has to be followed at all.
    pub fn reads_transcript(&self) -> bool {
        matches!(self, Matcher::TranscriptContains { .. } | Matcher::TranscriptRegex(_))
            || self.parts().any(Matcher::reads_transcript)
    }

    /// Whether it depends on what the screen shows.
    pub fn reads_screen(&self) -> bool {
        let reads = matches!(
            self,
            Matcher::ContainsText { .. }
                | Matcher::ScreenRegex(_)
                | Matcher::CursorAt { .. }
                | Matcher::Region { .. }
        );
        reads || self.parts().any(Matcher::reads_screen)
    }

    /// Whether it cannot be true before the session is over.
    pub fn waits_for_the_end(&self) -> bool {
        match self {
            Matcher::ProcessExited | Matcher::ExitCode(_) => true,
            Matcher::Any(_) => self.parts().all(Matcher::waits_for_the_end),
            Matcher::All(_) | Matcher::Region { .. } => {
                self.parts().any(Matcher::waits_for_the_end)
            }
            _ => false,
        }
    }

    /// The first text looked for, to tell what came closest to it.
    pub fn text_sought(&self) -> Option<&str> {
        match self {
            Matcher::ContainsText { text, .. } | Matcher::TranscriptContains { text, .. } => {
                Some(text)
            }
            Matcher::ScreenRegex(regex) | Matcher::TranscriptRegex(regex) => Some(regex.as_str()),
            Matcher::Not(_) => None,
            _ => self.parts().find_map(Matcher::text_sought),
        }
    }

    /// When, without any further change, the answer could become different.
    pub fn recheck_at(&self, visible_at: Instant) -> Option<Instant> {
        match self {
            Matcher::ScreenStable { min } => Some(visible_at + *min),
            _ => self.parts().filter_map(|part| part.recheck_at(visible_at)).min(),
        }
    }

    /// [`Matcher::matches`] for somebody who cannot see the screen: only what does not depend on it
    /// counts.
    pub fn matches_unseen(&self, moment: &Moment<'_>) -> Option<Outcome> {
        match self {
            Matcher::Any(branches) if self.reads_screen() => {
                first_of(branches, |matcher| matcher.matches_unseen(moment))
            }
            _ if self.reads_screen() => None,
            _ => self.matches(moment),
        }
    }

    pub fn matches(&self, moment: &Moment<'_>) -> Option<Outcome> {
        match self {
            Matcher::ContainsText { text, ignore_case } => {
                contains(moment.screen, text, *ignore_case)
                    .then(|| Outcome::ContainsText { text: text.clone() })
            }
            Matcher::ScreenRegex(regex) => capture(regex, moment.screen)
                .map(|capture| Outcome::ScreenRegex { pattern: regex.to_string(), capture }),
            Matcher::TranscriptContains { text, ignore_case } => {
                contains(moment.transcript, text, *ignore_case)
                    .then(|| Outcome::TranscriptContains { text: text.clone() })
            }
            Matcher::TranscriptRegex(regex) => capture(regex, moment.transcript)
                .map(|capture| Outcome::TranscriptRegex { pattern: regex.to_string(), capture }),
            Matcher::CursorAt { row, col } => {
                let cursor = &moment.frame.cursor;
                (cursor.row == *row && cursor.col == *col)
                    .then_some(Outcome::CursorAt { row: *row, col: *col })
            }
            Matcher::ScreenStable { min } => {
                let quiet = moment.now.saturating_duration_since(moment.visible_at);
                // A dead program's screen cannot change any more.
                (quiet >= *min || moment.ended.is_some())
                    .then_some(Outcome::ScreenStable { min: *min })
            }
            Matcher::ProcessExited => {
                moment.ended.map(|status| Outcome::ProcessExited { status: Some(status) })
            }
            Matcher::ExitCode(code) => (moment.ended == Some(ExitStatus::Code(*code)))
                .then_some(Outcome::ExitCode { code: *code }),
            Matcher::Title(regex) => moment
                .title
                .filter(|title| regex.is_match(title))
                .map(|title| Outcome::Title { title: title.to_owned() }),
            Matcher::State(state) => {
                (moment.state == *state).then_some(Outcome::State { state: *state })
            }
            Matcher::Region { region, matcher } => {
                let screen = region_text(moment.frame, *region);
                let inside = Moment { screen: &screen, ..*moment };
                matcher.matches(&inside).map(|inner| Outcome::Region(Box::new(inner)))
            }
            Matcher::Not(inner) => inner.matches(moment).is_none().then_some(Outcome::Not),
            Matcher::Any(branches) => first_of(branches, |matcher| matcher.matches(moment)),
            Matcher::All(branches) => branches
                .iter()
                .map(|branch| branch.matcher.matches(moment))
                .collect::<Option<Vec<_>>>()
                .map(|matched| Outcome::All { matched }),
        }
    }
}

/// The first branch that is true.
fn first_of(branches: &[Branch], test: impl Fn(&Matcher) -> Option<Outcome>) -> Option<Outcome> {
    branches.iter().enumerate().find_map(|(index, Branch { name, matcher })| {
        let matched = Box::new(test(matcher)?);
        Some(Outcome::Any { branch: index, name: name.clone(), matched })
    })
}

fn contains(haystack: &str, needle: &str, ignore_case: bool) -> bool {
    if ignore_case {
        haystack.to_lowercase().contains(&needle.to_lowercase())
    } else {
        haystack.contains(needle)
    }
}

/// Group 1 if there is one, else the whole match.
fn capture(regex: &Regex, text: &str) -> Option<String> {
    let captures = regex.captures(text)?;
    let found = captures.get(1).or_else(|| captures.get(0))?;
    Some(found.as_str().to_owned())
}

/// The text inside a rectangle, a line per row, trailing blanks trimmed.
pub fn region_text(frame: &Frame, region: Region) -> String {
    let mut text = String::new();
    let rows = frame.rows.iter().skip(region.row.into()).take(region.rows.into());
    for (index, row) in rows.enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let between = row.text_between(region.col, region.col.saturating_add(region.cols));
        text.push_str(between.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use greenroom_term::{Screen, Size};

    use super::*;

    fn check(matcher: &Matcher, bytes: &[u8], expected: Option<Outcome>) {
        let mut screen = Screen::new(Size::new(20, 5).unwrap());
        screen.feed(bytes);
        let frame = screen.frame();
        let now = Instant::now();
        let moment = Moment {
            frame: &frame,
            screen: &screen.text(),
            transcript: "first\nsecond\n",
            title: screen.title(),
            state: AgentState::Running,
            ended: Some(ExitStatus::Code(3)),
            visible_at: now - Duration::from_millis(500),
            now,
        };
        assert_eq!(matcher.matches(&moment), expected, "{matcher:?}");
    }

    fn contains(text: &str) -> Matcher {
        Matcher::ContainsText { text: text.into(), ignore_case: false }
    }

    fn found(text: &str) -> Outcome {
        Outcome::ContainsText { text: text.into() }
    }

    fn branch(name: Option<&str>, matcher: Matcher) -> Branch {
        Branch { name: name.map(str::to_owned), matcher }
    }

    #[test]
    fn leaves() {
        check(&contains("Ready"), b"Ready", Some(found("Ready")));
        check(&contains("ready"), b"Ready", None);
        let lax = Matcher::ContainsText { text: "rEADY".into(), ignore_case: true };
        check(&lax, b"Ready", Some(found("rEADY")));
        let regex = Matcher::ScreenRegex(pattern("took ([0-9]+) ms", false).unwrap());
        let captured =
            Outcome::ScreenRegex { pattern: "took ([0-9]+) ms".into(), capture: "42".into() };
        check(&regex, b"took 42 ms", Some(captured));
        let at = Outcome::CursorAt { row: 1, col: 2 };
        check(&Matcher::CursorAt { row: 1, col: 2 }, b"a\r\nbc", Some(at));
        check(&Matcher::CursorAt { row: 0, col: 2 }, b"a\r\nbc", None);
        check(&Matcher::ExitCode(3), b"", Some(Outcome::ExitCode { code: 3 }));
        check(&Matcher::ExitCode(0), b"", None);
        let title = Matcher::Title(pattern("^vim", false).unwrap());
        check(&title, b"\x1b]2;vim: x\x07", Some(Outcome::Title { title: "vim: x".into() }));
        check(&Matcher::State(AgentState::Exited), b"", None);
        let second = Matcher::TranscriptContains { text: "second".into(), ignore_case: false };
        check(&second, b"", Some(Outcome::TranscriptContains { text: "second".into() }));
    }

    #[test]
    fn branches_say_which_one_it_was() {
        let any = Matcher::Any(vec![
            branch(None, contains("nope")),
            branch(Some("prompt"), contains("$")),
        ]);
        let outcome =
            Outcome::Any { branch: 1, name: Some("prompt".into()), matched: Box::new(found("$")) };
        check(&any, b"$ ", Some(outcome));
        let all = Matcher::All(vec![branch(None, contains("a")), branch(None, contains("b"))]);
        check(&all, b"ab", Some(Outcome::All { matched: vec![found("a"), found("b")] }));
        check(&all, b"a", None);
        check(&Matcher::Not(Box::new(contains("a"))), b"b", Some(Outcome::Not));
        check(&Matcher::Not(Box::new(contains("a"))), b"a", None);
    }

    #[test]
    fn a_region_sees_only_its_cells() {
        let inside = |row, col, rows, cols| Matcher::Region {
            region: Region { row, col, rows, cols },
            matcher: Box::new(contains("mid")),
        };
        let hit = Outcome::Region(Box::new(found("mid")));
        let bytes = b"left mid right\r\n\x1b[31mle\x1b[0mft mid";
        check(&inside(0, 5, 1, 3), bytes, Some(hit.clone()));
        check(&inside(1, 0, 1, 20), bytes, Some(hit));
        check(&inside(0, 0, 1, 7), bytes, None);
        check(&inside(0, 6, 2, 14), bytes, None);
        check(&inside(2, 0, 3, 20), bytes, None);
        check(&inside(900, 900, 3, 20), bytes, None);
    }

    #[test]
    fn only_what_needs_the_end_waits_for_it() {
        let end = || branch(None, Matcher::ProcessExited);
        let text = || branch(None, contains("a"));
        assert!(Matcher::ProcessExited.waits_for_the_end());
        assert!(Matcher::ExitCode(0).waits_for_the_end());
        assert!(Matcher::All(vec![text(), end()]).waits_for_the_end());
        assert!(Matcher::Any(vec![end(), end()]).waits_for_the_end());
        assert!(!Matcher::Any(vec![text(), end()]).waits_for_the_end());
        assert!(!Matcher::Not(Box::new(Matcher::ProcessExited)).waits_for_the_end());
        assert!(!contains("a").waits_for_the_end());
    }

    #[test]
    fn what_cannot_match_is_refused_at_once() {
        let bad = pattern("a(b", false).unwrap_err();
        assert!(bad.to_string().starts_with("the regex `a(b` is not valid"), "{bad}");
        assert!(pattern(&"(a{1000}){1000}".repeat(3), false).is_err(), "too large to compile");
        assert!(matches!(Matcher::Any(Vec::new()).check(), Err(MatcherError::Empty("any"))));
        let mut deep = contains("x");
        for _ in 0..=DEPTH_MAX {
            deep = Matcher::Not(Box::new(deep));
        }
        assert!(matches!(deep.check(), Err(MatcherError::TooDeep)));
    }
}
