//! A terminal program that behaves like a coding agent, for demos and tests, without an API key.
//!
//! In: keys from its terminal and a script. Out: what such an agent paints. Deliberately absent:
//! any intelligence, any network, any file it writes.
//!
//! # What it does
//!
//! It greets, shows a prompt box, and answers each prompt with the first turn of the script whose
//! `on` text occurs in it (any case), else with `otherwise`. An answer has a spinner with the
//! elapsed time and "esc to interrupt", streamed text, code blocks, tool lines, permission and plan
//! dialogs. It repaints the bottom of the screen in synchronized frames (`CSI ? 2026 h`), lets
//! finished lines scroll away, and repaints all on a change of size.
//!
//! | key | idle | busy | dialog |
//! |---|---|---|---|
//! | text, paste | goes into the box | goes into the box | `1` to `3` choose |
//! | Enter | submits | queues the prompt | takes the marked option |
//! | shift-Enter, alt-Enter, ctrl-J | new line | new line | |
//! | Esc | clears the box | interrupts | the last option |
//! | ctrl-C | clears the box; twice within 2 s quits | interrupts | the last option |
//! | ctrl-D | quits if the box is empty | | |
//! | up, down | | | move the mark |
//!
//! `/exit` quits. Marks for the terminal: title (OSC 0, `✳` idle and `⠂` busy), prompt marks
//! (OSC 133 A, B, C, D with 0 or 130), progress (OSC 9;4), and a notification (OSC 9) when it waits
//! for an answer to a dialog or for the next prompt.
//!
//! # Options
//!
#![doc = concat!("```text\n", include_str!("help.txt"), "```")]
//!
//! PROMPT is submitted at once. With `--slow-paste` 16 or more characters in one read count as a
//! paste, as in real agents; `--kitty` asks for flag 1; with `--no-tty` a prompt per line comes in,
//! the answer goes out, and a dialog reads a line.
//!
//! Exit codes: 0 quit, the script's `exit N`, 2 for wrong options or a wrong script, 129 and 143
//! after SIGHUP and SIGTERM, 1 when the terminal fails.
//!
//! # Script
//!
//! One directive per line, indentation as you like, `#` starts a comment line. Lines that begin
//! with `|` are the body of the directive above. `{prompt}` stands for what the user typed.
//!
//! ```text
//! name Fake Agent             # settings come before the first turn
//! welcome Welcome!
//! speed 30                    # ms per streamed word
//! slow-paste 300
//! alternate-screen
//!
//! on list files               # a turn; `otherwise` is the turn for all other prompts
//!   think 800 Pondering       # spinner for 800 ms
//!   say Let me **look** at `src`.
//!   ask Bash(ls)              # permission dialog, body = details; No ends the turn
//!   | List the directory
//!   tool Bash(ls)             # a tool line, body = its output
//!   | main.rs
//!   code rust                 # a code block
//!   | fn main() {}
//!   plan                      # plan dialog, body = the plan
//!   | 1. Do it
//!   print a line as it is
//!   raw \e[31mred\e[m\r\n     # bytes: \e \r \n \t \a \\ \xHH
//!   wait 500                  # nothing happens
//!   notify done               # OSC 9
//!   bell
//!   title Working
//!   exit 3
//! ```
//!
//! A directive it does not know is an error:
//! `demo.agent:12: unknown directive "thnik" (did you mean "think"?)`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

mod agent;
mod draft;
mod input;
mod line;
mod numbers;
mod options;
mod paint;
mod plain;
mod script;
mod tty;
mod turn;
mod widgets;

use options::{Mode, Options};

/// Runs the program with these arguments (without the program's name) and returns its exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let result = Options::parse(args).map_err(Failure::Options).and_then(run_with);
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // Nobody is left to tell when stderr is gone too.
            let _ = writeln!(std::io::stderr(), "fake-agent: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run_with(options: Options) -> Result<u8, Failure> {
    let mut stdout = std::io::stdout().lock();
    match options.mode {
        Mode::Help => Ok(numbers::ended(stdout.write_all(options::HELP.as_bytes()))?),
        Mode::PrintScript => Ok(numbers::ended(stdout.write_all(script::BUILT_IN.as_bytes()))?),
        Mode::Flood(count) => Ok(numbers::flood(&mut stdout, count)?),
        Mode::Numbered => Ok(numbers::flood(&mut stdout, u64::MAX)?),
        Mode::Plain => {
            let script = options.load()?;
            Ok(plain::run(&script, options.prompt, std::io::stdin().lock(), &mut stdout)?)
        }
        Mode::Terminal => {
            let script = options.load()?;
            drop(stdout);
            Ok(agent::run(script, &options)?)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Options(#[from] options::OptionsError),
    #[error(transparent)]
    Script(#[from] script::ScriptError),
    #[error(transparent)]
    Terminal(#[from] tty::TtyError),
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Options(_) | Self::Script(_) | Self::Terminal(tty::TtyError::NoTerminal) => 2,
            Self::Terminal(_) | Self::Output(_) => 1,
        }
    }
}
