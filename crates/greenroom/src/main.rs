//! greenroom: the one binary.
//!
//! The first argument selects a stage: `keeper` and `daemon` are the host's own processes,
//! `fake-agent` the program of the demo; everything else is a verb of the command line. The map:
//! [`cli`] is the tree of verbs, [`commands`] does them, [`host`] finds or starts the host,
//! [`attach`] is the interactive terminal, [`player`] plays recordings, [`output`], [`safe`] and
//! [`error`] are how we speak, [`stage`] enters the host's processes.
#![forbid(unsafe_code)]

mod attach;
mod cli;
mod commands;
mod error;
mod host;
mod input;
mod output;
mod player;
mod safe;
mod stage;
mod stdio;
mod stop;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser as _};
use greenroom_protocol::fault::exit;

use cli::Cli;
use commands::Context;
use error::Failure;
use output::Output;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Stages come first: they take over the process, and must not pay for the command line.
    match args.get(1).and_then(|arg| arg.to_str()) {
        Some("keeper") => return stage::keeper(&args[2..]),
        Some("daemon") => return stage::daemon(&args[2..]),
        Some("fake-agent") => return fake_agent::run(args.into_iter().skip(2)),
        _ => {}
    }
    clap_complete::CompleteEnv::with_factory(Cli::command)
        .var(commands::completions::VARIABLE)
        .complete();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(with_tip(error, &args), &args),
    };
    let context = Context::new(&cli.global);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::io("cannot start", &error), context.out),
    };
    let outcome = runtime.block_on(commands::run(cli.verb, &context));
    // A thread that waits for the terminal or stdin must not keep us.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => report(&failure, context.out),
    }
}

/// A program that stands where options do: `new vim` means `new -- vim`.
fn with_tip(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let verb = args.iter().skip(1).find(|arg| !arg.to_string_lossy().starts_with('-'));
    if !verb.is_some_and(|verb| verb == "new" || verb == "serve") {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let place = args.iter().skip(2).position(|arg| arg == word.as_str());
    if let Some(place) = place.filter(|_| !word.starts_with('-')) {
        let (before, after) = args.split_at(place + 2);
        let said = |words: &[OsString]| -> Vec<String> {
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let line = [said(&before[1..]), vec!["--".to_owned()], said(after)].concat().join(" ");
        let tip = format!("a program stands behind --: greenroom {line}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// clap's own answer: help and version on stdout, mistakes on stderr with exit code 2.
fn usage(error: clap::Error, args: &[OsString]) -> ExitCode {
    let before_command = args.iter().take_while(|arg| *arg != "--");
    let json = before_command.into_iter().any(|arg| arg == "--json");
    if !error.use_stderr() || !json {
        // A reader that is gone needs no help.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or("wrong usage");
    let message = message.strip_prefix("error: ").unwrap_or(message).to_owned();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: ").map(str::to_owned));
    let hint = tip.unwrap_or_else(|| "greenroom --help".to_owned());
    report(&Failure::usage(message).hint(hint), Output::detect(true))
}

fn report(failure: &Failure, out: Output) -> ExitCode {
    if failure.quiet {
        return ExitCode::SUCCESS;
    }
    out.failure(failure);
    ExitCode::from(failure.exit)
}
