//! The command line as a tree of types: its root, and what several verbs share. Doc comments are
//! the help texts.
//!
//! In: the arguments. Out: a [`Verb`] for `commands`, or clap's own error (exit code 2). Absent on
//! purpose: arguments of one verb, which stand in its file; flags of later versions (an unknown
//! flag is an error, a flag that does nothing would be a lie).

mod parse;
mod session;

use clap::{Args, Parser};
use clap_complete::engine::ArgValueCandidates;

use crate::commands::Verb;
use crate::commands::completions::session_candidates;
pub use parse::{parse_pair, parse_size, parse_speed, parse_time, parse_until};
pub use session::{SessionArgs, utf8};

/// Hosts the terminals of your coding agents and shells.
///
/// Sessions outlive crashes and upgrades of the host, and every byte of them is kept.
/// The host is started in the background on first use.
#[derive(Debug, Parser)]
#[command(
    name = "greenroom",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = "Examples:\n  greenroom demo                      see everything at work, in under a minute\n  greenroom new --name work --attach  a shell that survives; detach with Ctrl-b d\n  greenroom ls                        what is running\n  greenroom help new                  all about one verb\n  greenroom shutdown                  end everything\n\nA session is named by id (s3), by name, or by an unambiguous prefix.\nExit codes: 0 ok, 1 failed, 2 usage, 3 timeout, 4 needs input, 5 denied,\n  6 not found or already ended, 7 host unavailable, 70 our bug."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Answer in JSON: one document, or one per line
    #[arg(long, global = true, help_heading = "Global options", display_order = 900)]
    pub json: bool,
    /// Do not start the background host (exit code 7 if it is not there)
    #[arg(long, global = true, help_heading = "Global options", display_order = 901)]
    pub no_start: bool,
}

/// The argument of a verb about one session.
#[derive(Clone, Debug, Args)]
pub struct SessionArg {
    /// Id, name or unambiguous prefix
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(session_candidates))]
    pub session: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    /// Every example of every help text parses. Shell around it is taken off first.
    #[test]
    fn help_examples_parse() {
        let mut seen = 0;
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<_> =
                help.lines().filter(|line| line.contains("greenroom ")).collect();
            let own = format!("greenroom {}", verb.get_name());
            assert!(
                examples.iter().any(|example| example.contains(&own)),
                "{} has no example",
                verb.get_name()
            );
            for example in examples {
                // The last: it may also be the name of something else.
                let from = example.rfind("greenroom ").unwrap();
                let text =
                    example[from..].split(" | ").next().unwrap().split(" > ").next().unwrap();
                let text = text.trim_end_matches(')').replace("\"$(cat prompt.md\"", "x");
                let words = shell_words(&text);
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{words:?}: {error}");
                }
                seen += 1;
            }
        }
        assert!(seen > 40, "only {seen} examples");
    }

    fn shell_words(text: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in text.chars() {
            match quote {
                Some(q) if c == q => quote = None,
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == ' ' => words.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// Help fits 80 columns, at every level.
    #[test]
    fn help_fits_80_columns() {
        let mut command = Cli::command();
        command.build();
        let mut texts = vec![command.render_long_help().to_string()];
        texts.extend(command.get_subcommands_mut().map(|verb| verb.render_long_help().to_string()));
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_verb_knows_json() {
        let mut command = Cli::command();
        command.build();
        for verb in command.get_subcommands() {
            assert!(verb.get_arguments().any(|arg| arg.get_id() == "json"), "{}", verb.get_name());
        }
    }
}
