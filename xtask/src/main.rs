//! Checks of the repository itself, run by `make test`.
//!
//! In: the tracked files and the dependency graph. Out: a list of what is wrong, and an exit
//! status. Deliberately absent: building, testing and linting the product (the Makefile calls cargo
//! for that).

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod advisories;
mod api_docs;
mod cycles;
mod directions;
mod documents;
mod glossary;
mod leaks;
mod method_names;
mod prose;
mod rooms;
mod sizes;
mod tree;
mod unsafe_code;
mod voices;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::tree::Tree;

const USAGE: &str = "usage: cargo run -p xtask -- check | api-docs | advisories";

fn main() -> ExitCode {
    let verb = std::env::args().nth(1);
    let outcome = match verb.as_deref() {
        Some("check") => check(),
        Some("api-docs") => api_docs::write(),
        Some("advisories") => advisories::run(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One check: its name, and what it finds wrong with the tree.
type Check = (&'static str, fn(&Tree) -> Result<Vec<String>>);

const CHECKS: &[Check] = &[
    ("dependency directions", directions::check),
    ("words a room must not know", directions::check_words),
    ("module cycles", cycles::check),
    ("documents", documents::check),
    ("rooms", rooms::check),
    ("prose", prose::check),
    ("glossary", glossary::check),
    ("generated documents", api_docs::check),
    ("file sizes", sizes::check),
    ("unsafe code", unsafe_code::check),
    ("leaks", leaks::check),
    ("names of methods and events", method_names::check),
    ("one way to the terminal", voices::check),
];

fn check() -> Result<()> {
    let tree = Tree::open()?;
    let mut faults = 0;
    for (name, run) in CHECKS {
        let found = run(&tree)?;
        println!("{} {name}", if found.is_empty() { "ok  " } else { "BAD " });
        for fault in &found {
            println!("     {fault}");
        }
        faults += found.len();
    }
    if faults > 0 {
        bail!("{faults} fault(s) in the repository");
    }
    Ok(())
}
