//! A program that tries to get out, for the escape suite; a daemon to attack; and the stage that
//! holds it.
//!
//! `escapee __sandbox-exec` is a stage. `escapee try NAME ARG…` makes one attempt, prints `DONE` or
//! `FAILED errno`, and exits 0 or 1. `escapee victim DIR` is a process worth attacking.
//! `escapee degraded CALL,… ERRNO ARG…` goes on as ARG with these calls refused, as on a machine
//! that lacks them. `escapee probe` prints what could be enforced.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::undocumented_unsafe_blocks,
    reason = "all of this is test code, and attacks are made of raw calls"
)]

mod degraded;
mod files;
mod network;
mod processes;
mod system;
mod victim;

use std::process::ExitCode;

/// An attempt: done, or the errno that stopped it.
pub type Attempt = Result<(), i32>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    match args.first().map(String::as_str) {
        Some("__sandbox-exec") => greenroom_sandbox::stage::Stages::prepare().enter(),
        Some("victim") => victim::run(rest[0]),
        Some("degraded") => degraded::run(rest[0], rest[1], &rest[2..]),
        Some("probe") => {
            for trial in greenroom_sandbox::probe::probe().trials {
                println!("{}: {}", trial.layer, trial.outcome);
            }
            ExitCode::SUCCESS
        }
        Some("euid") => {
            println!("euid {}", unsafe { libc::geteuid() });
            ExitCode::SUCCESS
        }
        Some("try") => match attempt(rest[0], &rest[1..]) {
            Ok(()) => {
                println!("DONE");
                ExitCode::SUCCESS
            }
            Err(errno) => {
                println!("FAILED {errno}");
                ExitCode::FAILURE
            }
        },
        _ => ExitCode::from(2),
    }
}

fn attempt(name: &str, args: &[&str]) -> Attempt {
    let (room, name) = name.split_once('.').expect("room.name");
    match room {
        "fs" => files::attempt(name, args),
        "proc" => processes::attempt(name, args),
        "net" => network::attempt(name, args),
        "sys" => system::attempt(name, args),
        other => panic!("no room {other}"),
    }
}

pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

pub fn check(result: impl Into<i64>) -> Result<i64, i32> {
    match result.into() {
        -1 => Err(errno()),
        value => Ok(value),
    }
}

pub fn io<T>(result: std::io::Result<T>) -> Result<T, i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(-1))
}
