//! `greenroom help`: the help of a verb, as `--help` prints it.

use clap::Args;
use clap::{CommandFactory as _, Parser as _};
use serde_json::json;

use super::Context;
use crate::cli::Cli;
use crate::error::{ExitResult, Failure};

/// Print the help of a verb, or this list
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom help\n  greenroom help new\n  greenroom help plugin add"
)]
pub struct HelpArgs {
    /// The verb, and what stands behind it
    #[arg(value_name = "VERB")]
    pub verbs: Vec<String>,
}

pub async fn run(args: HelpArgs, context: &Context) -> ExitResult {
    let words = args.verbs.iter().map(String::as_str).chain(["--help"]);
    let text = match Cli::try_parse_from(std::iter::once("greenroom").chain(words)) {
        Err(error) if !error.use_stderr() => error.render().to_string(),
        // No such verb; or one whose options look like a verb of ours.
        _ => {
            let typed = args.verbs.join(" ");
            let verbs: Vec<String> =
                Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            let near = verbs.iter().find(|verb| {
                let first = args.verbs.first().map(String::as_str).unwrap_or_default();
                first.len() > 1 && (verb.starts_with(first) || first.starts_with(verb.as_str()))
            });
            let hint = match near {
                Some(verb) => format!("did you mean greenroom help {verb}?"),
                None => "greenroom help lists the verbs".to_owned(),
            };
            return Err(Failure::usage(format!("there is no verb `{typed}`")).hint(hint));
        }
    };
    context.out.answer(&json!({ "help": text }), || text.clone())
}
