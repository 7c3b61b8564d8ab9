//! The test host: one program that is the keeper and the daemon, as the real binary is.
//!
//! `daemon-host keeper` writes `ok` (or the reason why not) to its stdout when it serves.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::ExitCode;

use greenroom_config::Paths;
use greenroom_daemon::DaemonOptions;
use greenroom_keeper::KeeperOptions;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str()).unwrap_or_default();
    let number = |at: usize| text(at).parse::<i32>().unwrap_or(-1);
    match (text(1), text(2)) {
        ("keeper", "--resume") => greenroom_keeper::resume(number(3), keeper_paths()),
        ("keeper", "--check") => greenroom_keeper::check(number(3)),
        ("keeper", _) => keeper(),
        ("daemon", _) => greenroom_daemon::run(DaemonOptions::default()),
        _ => ExitCode::from(2),
    }
}

fn keeper_paths() -> Option<greenroom_keeper::KeeperPaths> {
    Some(Paths::from_env().ok()?.of_keeper())
}

fn keeper() -> ExitCode {
    let paths = Paths::from_env().expect("the test sets GREENROOM_HOME");
    let ready = std::io::stdout().as_fd().try_clone_to_owned().expect("stdout is open");
    // The test reads until the end of the ready text.
    let null =
        std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null is there");
    rustix::stdio::dup2_stdout(&null).expect("stdout can be replaced");
    if let Err(error) = paths.prepare() {
        std::io::Write::write_all(&mut std::fs::File::from(ready), error.to_string().as_bytes())
            .expect("the test reads");
        return ExitCode::FAILURE;
    }
    greenroom_keeper::run(KeeperOptions {
        paths: paths.of_keeper(),
        log: paths.keeper_log(),
        daemon_log: paths.daemon_err(),
        daemon: vec!["/proc/self/exe".into(), "daemon".into()],
        foreground: false,
        ready_fd: Some(ready),
    })
}
