//! The command line. In: arguments. Out: [`Options`], or an error that names the argument.
//! Deliberately absent: a parser crate; ten options do not need one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::script::{BUILT_IN, Script, ScriptError};

pub(crate) const HELP: &str = include_str!("help.txt");

/// How long after a paste an Enter is lost unless the option says otherwise; what users of real
/// agents measured.
pub(crate) const SLOW_PASTE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(crate) struct Options {
    pub mode: Mode,
    pub script: Option<PathBuf>,
    pub alternate_screen: bool,
    pub slow_paste: Option<Duration>,
    pub kitty: bool,
    pub pace: f64,
    pub prompt: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Terminal,
    Plain,
    Flood(u64),
    Numbered,
    PrintScript,
    Help,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    #[error("unknown option {0:?}{hint}", hint = hint(.0))]
    Unknown(String),
    #[error("option {0} needs a value")]
    NoValue(&'static str),
    #[error("option {option} cannot be {value:?}: {wanted} is wanted")]
    BadValue { option: &'static str, value: String, wanted: &'static str },
    #[error("only one prompt is taken, but {0:?} is a second one")]
    SecondPrompt(String),
}

impl Options {
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, OptionsError> {
        let mut options = Self {
            mode: Mode::Terminal,
            script: None,
            alternate_screen: false,
            slow_paste: None,
            kitty: false,
            pace: 1.0,
            prompt: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            options.take(arg, &mut args)?;
        }
        Ok(options)
    }

    fn take(
        &mut self,
        arg: OsString,
        rest: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), OptionsError> {
        let text = arg.to_string_lossy().into_owned();
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (text.as_str(), None),
        };
        let mut value = |option: &'static str| {
            let next = inline.clone().map(OsString::from).or_else(|| rest.next());
            next.ok_or(OptionsError::NoValue(option))
        };
        match name {
            "-h" | "--help" => self.mode = Mode::Help,
            "--script" => self.script = Some(value("--script")?.into()),
            "--alternate-screen" => self.alternate_screen = true,
            "--kitty" => self.kitty = true,
            "--no-tty" => self.mode = Mode::Plain,
            "--numbered" => self.mode = Mode::Numbered,
            "--print-script" => self.mode = Mode::PrintScript,
            "--flood" => self.mode = Mode::Flood(number("--flood", value("--flood")?)?),
            "--slow-paste" => {
                let wait = match inline {
                    Some(ms) => Duration::from_millis(number("--slow-paste", ms.into())?),
                    None => SLOW_PASTE,
                };
                self.slow_paste = Some(wait);
            }
            "--pace" => self.pace = pace(value("--pace")?)?,
            _ if name.starts_with('-') && name.len() > 1 => {
                return Err(OptionsError::Unknown(name.to_owned()));
            }
            _ if self.prompt.is_some() => return Err(OptionsError::SecondPrompt(text)),
            _ => self.prompt = Some(text),
        }
        Ok(())
    }

    /// The script asked for, with the options that override its settings.
    pub(crate) fn load(&self) -> Result<Script, ScriptError> {
        let mut script = match &self.script {
            Some(path) => Script::read(path)?,
            None => Script::parse("built-in", BUILT_IN)?,
        };
        script.alternate_screen |= self.alternate_screen;
        script.slow_paste = self.slow_paste.or(script.slow_paste);
        Ok(script)
    }
}

fn number(option: &'static str, value: OsString) -> Result<u64, OptionsError> {
    let value = value.to_string_lossy().into_owned();
    value.parse().map_err(|_| OptionsError::BadValue { option, value, wanted: "a whole number" })
}

fn pace(value: OsString) -> Result<f64, OptionsError> {
    let value = value.to_string_lossy().into_owned();
    match value.parse::<f64>() {
        Ok(factor) if (0.0..=1000.0).contains(&factor) => Ok(factor),
        _ => Err(OptionsError::BadValue { option: "--pace", value, wanted: "a factor 0 to 1000" }),
    }
}

fn hint(name: &str) -> String {
    let words = HELP.split([' ', '[', '\n']).filter(|word| word.starts_with("--"));
    nearest(name, words).map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

/// The known word nearest to a wrong one, if it is near enough to be meant.
pub(crate) fn nearest(
    wrong: &str,
    known: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .map(|(_, name)| name)
}
