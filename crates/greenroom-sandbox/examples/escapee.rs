//! A program that tries to get out, for the escape suite; and the stage that holds it.
//!
//! `escapee __sandbox-exec` is a stage. `escapee try NAME ARG…` makes one attempt and says `DONE` or `FAILED errno`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("__sandbox-exec") => greenroom_sandbox::stage::run(),
        _ => ExitCode::from(2),
    }
}
