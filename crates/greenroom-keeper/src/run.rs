//! The keeper's life.

use std::process::ExitCode;

use crate::KeeperOptions;

/// `greenroom keeper …`: takes over the process and returns when everything has ended.
pub fn run(options: KeeperOptions) -> ExitCode {
    let _ = options;
    ExitCode::FAILURE
}

/// `greenroom keeper --resume <fd>`: the new image of a keeper that replaced itself.
pub fn resume(fd: i32) -> ExitCode {
    let _ = fd;
    ExitCode::FAILURE
}

/// `greenroom keeper --check <fd>`: can this image read the state the old one will hand over? Prints nothing.
pub fn check(fd: i32) -> ExitCode {
    let _ = fd;
    ExitCode::FAILURE
}
