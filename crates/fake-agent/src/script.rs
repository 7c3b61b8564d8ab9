//! The script: text in, typed turns out. The format is described at the head of the crate.
//!
//! Deliberately absent: variables, loops and conditions. A script is a play, not a program.

use std::path::Path;
use std::time::Duration;

use crate::options::nearest;

/// The script played without `--script`.
pub(crate) const BUILT_IN: &str = include_str!("built-in.agent");

/// A script is read whole; a larger file is a mistake.
const MAX_SCRIPT: u64 = 1024 * 1024;
/// Nothing in a play lasts longer than a day; more would overflow nothing but patience.
const MAX_DELAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug)]
pub(crate) struct Script {
    pub name: String,
    pub welcome: String,
    pub speed: Duration,
    pub slow_paste: Option<Duration>,
    pub alternate_screen: bool,
    pub turns: Vec<Turn>,
}

#[derive(Debug)]
pub(crate) struct Turn {
    /// Lower case; none for `otherwise`.
    pub on: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Think { time: Duration, word: String },
    Wait(Duration),
    Say(String),
    Code { language: String, body: Vec<String> },
    Tool { call: String, body: Vec<String> },
    Ask { call: String, body: Vec<String> },
    Plan { body: Vec<String> },
    Print(String),
    Raw(Vec<u8>),
    Notify(String),
    Bell,
    Title(String),
    Exit(u8),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("cannot read script {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("cannot read script {path}: it has {bytes} bytes, the limit is {MAX_SCRIPT}")]
    TooLong { path: String, bytes: u64 },
    #[error("{file}:{line}: {problem}")]
    Line { file: String, line: usize, problem: Problem },
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("unknown directive {0:?}{hint}", hint = hint(.0))]
    Unknown(String),
    #[error("directive {0:?} needs {1}")]
    Missing(&'static str, &'static str),
    #[error("directive {0:?} takes {1}, not {2:?}")]
    Bad(&'static str, &'static str, String),
    #[error("directive {0:?} belongs into a turn: begin one with \"on TEXT\" or \"otherwise\"")]
    OutsideTurn(String),
    #[error("setting {0:?} belongs before the first turn")]
    LateSetting(String),
    #[error("a line with \"|\" belongs below code, tool, ask or plan")]
    NoBody,
}

const SETTINGS: [&str; 5] = ["name", "welcome", "speed", "slow-paste", "alternate-screen"];
const STARTS: [&str; 2] = ["on", "otherwise"];
const STEPS: [&str; 13] = [
    "think", "wait", "say", "code", "tool", "ask", "plan", "print", "raw", "notify", "bell",
    "title", "exit",
];

impl Script {
    pub(crate) fn read(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let failed = |source| ScriptError::Read { path: name.clone(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > MAX_SCRIPT {
            return Err(ScriptError::TooLong { path: name, bytes });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&name, &text)
    }

    /// `file` is only for messages.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let mut script = Self {
            name: "Fake Agent".into(),
            welcome: "Welcome to Fake Agent!".into(),
            speed: Duration::from_millis(30),
            slow_paste: None,
            alternate_screen: false,
            turns: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            script.take(line.trim_start()).map_err(|problem| ScriptError::Line {
                file: file.into(),
                line: at + 1,
                problem,
            })?;
        }
        Ok(script)
    }

    /// The turn for a prompt: the first whose text occurs in it, else `otherwise`.
    pub(crate) fn turn_for(&self, prompt: &str) -> Option<&Turn> {
        let prompt = prompt.to_lowercase();
        let matches = |turn: &&Turn| turn.on.as_ref().is_some_and(|on| prompt.contains(on));
        self.turns.iter().find(matches).or_else(|| self.turns.iter().find(|turn| turn.on.is_none()))
    }

    fn take(&mut self, line: &str) -> Result<(), Problem> {
        if line.trim_end().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(body) = line.strip_prefix('|') {
            return self.take_body(body.strip_prefix(' ').unwrap_or(body));
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if SETTINGS.contains(&word) {
            return self.take_setting(word, rest);
        }
        if STARTS.contains(&word) {
            let on = (word == "on").then(|| rest.to_lowercase());
            if on.as_ref().is_some_and(String::is_empty) {
                return Err(Problem::Missing("on", "the text to look for in the prompt"));
            }
            self.turns.push(Turn { on, steps: Vec::new() });
            return Ok(());
        }
        let step = step(word, rest)?;
        let turn = self.turns.last_mut().ok_or_else(|| Problem::OutsideTurn(word.into()))?;
        turn.steps.push(step);
        Ok(())
    }

    fn take_body(&mut self, line: &str) -> Result<(), Problem> {
        let step = self.turns.last_mut().and_then(|turn| turn.steps.last_mut());
        match step {
            Some(
                Step::Code { body, .. }
                | Step::Tool { body, .. }
                | Step::Ask { body, .. }
                | Step::Plan { body },
            ) => body.push(line.trim_end().to_owned()),
            _ => return Err(Problem::NoBody),
        }
        Ok(())
    }

    fn take_setting(&mut self, word: &str, rest: &str) -> Result<(), Problem> {
        if !self.turns.is_empty() {
            return Err(Problem::LateSetting(word.into()));
        }
        match word {
            "name" => self.name = needed("name", "a name", rest)?,
            "welcome" => self.welcome = needed("welcome", "a text", rest)?,
            "speed" => self.speed = delay("speed", rest)?,
            "slow-paste" => self.slow_paste = Some(delay("slow-paste", rest)?),
            _ => self.alternate_screen = true,
        }
        Ok(())
    }
}

fn step(word: &str, rest: &str) -> Result<Step, Problem> {
    let text = rest.to_owned();
    Ok(match word {
        "think" => {
            let (time, word) = rest.split_once(char::is_whitespace).unwrap_or((rest, "Thinking"));
            Step::Think { time: delay("think", time)?, word: word.trim().to_owned() }
        }
        "wait" => Step::Wait(delay("wait", rest)?),
        "say" => Step::Say(needed("say", "a text", rest)?),
        "code" => Step::Code { language: text, body: Vec::new() },
        "tool" => {
            Step::Tool { call: needed("tool", "a call, as Bash(ls)", rest)?, body: Vec::new() }
        }
        "ask" => Step::Ask { call: needed("ask", "a call, as Bash(ls)", rest)?, body: Vec::new() },
        "plan" => Step::Plan { body: Vec::new() },
        "print" => Step::Print(text),
        "raw" => Step::Raw(unescape(rest)?),
        "notify" => Step::Notify(needed("notify", "a text", rest)?),
        "bell" => Step::Bell,
        "title" => Step::Title(needed("title", "a text", rest)?),
        "exit" => {
            let code = if rest.is_empty() { "0" } else { rest };
            let bad = |_| Problem::Bad("exit", "a code 0 to 255", rest.into());
            Step::Exit(code.parse().map_err(bad)?)
        }
        _ => return Err(Problem::Unknown(word.into())),
    })
}

fn needed(word: &'static str, what: &'static str, rest: &str) -> Result<String, Problem> {
    if rest.is_empty() { Err(Problem::Missing(word, what)) } else { Ok(rest.to_owned()) }
}

fn delay(word: &'static str, rest: &str) -> Result<Duration, Problem> {
    match rest.parse::<u64>() {
        Ok(ms) if ms <= MAX_DELAY_MS => Ok(Duration::from_millis(ms)),
        _ => Err(Problem::Bad(word, "milliseconds up to a day", rest.into())),
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, Problem> {
    let bad = || Problem::Bad("raw", r"\e \r \n \t \a \\ and \xHH", text.into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let mut after = rest[at + 1..].chars();
        let byte = match after.next().ok_or_else(bad)? {
            'e' => 0x1b,
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            'a' => 7,
            '\\' => b'\\',
            'x' => {
                let hex = after.as_str().get(..2).ok_or_else(bad)?;
                after = after.as_str()[2..].chars();
                u8::from_str_radix(hex, 16).map_err(|_| bad())?
            }
            _ => return Err(bad()),
        };
        bytes.push(byte);
        rest = after.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn hint(word: &str) -> String {
    nearest(word, SETTINGS.into_iter().chain(STARTS).chain(STEPS))
        .map(|near| format!(" (did you mean {near:?}?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Script::parse("demo.agent", text).unwrap_err().to_string()
    }

    #[test]
    fn the_built_in_script_is_right_and_uses_every_step() {
        let script = Script::parse("built-in", BUILT_IN).unwrap();
        assert!(script.turn_for("anything at all").is_some());
        let used = |name: &str| BUILT_IN.lines().any(|l| l.trim_start().starts_with(name));
        for step in STEPS {
            assert!(used(step), "{step} is shown nowhere");
        }
    }

    #[test]
    fn every_listed_step_is_read() {
        for word in STEPS {
            let argument = match word {
                "think" | "wait" | "exit" => "1",
                _ => "text",
            };
            assert!(step(word, argument).is_ok(), "{word}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        assert_eq!(
            error("on x\n  say hi\n  thnik 100\n"),
            r#"demo.agent:3: unknown directive "thnik" (did you mean "think"?)"#
        );
        assert_eq!(
            error("say hi"),
            "demo.agent:1: directive \"say\" belongs into a turn: begin one with \"on TEXT\" or \
             \"otherwise\""
        );
        assert_eq!(
            error("on"),
            r#"demo.agent:1: directive "on" needs the text to look for in the prompt"#
        );
        assert_eq!(error("otherwise\nsay"), r#"demo.agent:2: directive "say" needs a text"#);
        assert_eq!(
            error("speed fast"),
            r#"demo.agent:1: directive "speed" takes milliseconds up to a day, not "fast""#
        );
        assert_eq!(
            error("on x\nname y"),
            r#"demo.agent:2: setting "name" belongs before the first turn"#
        );
        assert_eq!(
            error("on x\nsay y\n| z"),
            r#"demo.agent:3: a line with "|" belongs below code, tool, ask or plan"#
        );
        assert_eq!(
            error(
                r"on x
raw \q"
            ),
            r#"demo.agent:2: directive "raw" takes \e \r \n \t \a \\ and \xHH, not "\\q""#
        );
    }

    #[test]
    fn raw_bytes() {
        assert_eq!(unescape(r"a\e[1m\x41\xffé\\").unwrap(), b"a\x1b[1mA\xff\xc3\xa9\\");
        assert!(unescape(r"\x4").is_err());
        assert!(unescape(r"\xé1").is_err());
    }

    #[test]
    fn the_first_matching_turn_wins() {
        let script =
            Script::parse("x", "otherwise\nbell\non One\nsay 1\non one two\nsay 2").unwrap();
        assert_eq!(script.turn_for("ONE TWO").unwrap().steps, [Step::Say("1".into())]);
        assert_eq!(script.turn_for("three").unwrap().steps, [Step::Bell]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "((on|say|think|raw|exit|code|\\|| |\n|\\\\|x|[0-9]|é){0,20}\n?){0,6}") {
            let _ = Script::parse("x", &text);
        }
    }
}
