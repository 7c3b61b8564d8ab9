//! The binary; everything is in the library, so that another binary can carry the same verb.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fake_agent::run(std::env::args_os().skip(1))
}
