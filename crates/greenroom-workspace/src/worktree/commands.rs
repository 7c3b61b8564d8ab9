//! The user's `setup` and `teardown` commands.
//!
//! They come from the user's configuration, never from the tree, and run outside of any sandbox: a
//! teardown that runs what lies in the tree (`make clean`) runs what the session put there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::error::WorktreeError;
use crate::git::command::{Input, Limits, run};

/// The end of what a failing command said.
const TAIL: usize = 4096;

pub fn run_all(
    which: &'static str,
    commands: &[String],
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
    deadline: Duration,
) -> Result<(), WorktreeError> {
    for command in commands {
        let limits = Limits { deadline, max_output: TAIL, keep_tail: true };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).current_dir(cwd).env_clear().envs(env);
        let said = run(&mut shell, Input::Nothing, limits).map_err(|source| {
            WorktreeError::CommandRun { which, command: command.clone(), source }
        })?;
        if !said.status.success() {
            let said_text = [said.out, said.err].concat();
            let text = String::from_utf8_lossy(&said_text);
            let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
            let last: String =
                last.unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
            let why = format!("ended with {}: {last}", said.status);
            return Err(WorktreeError::Command { which, command: command.clone(), why });
        }
    }
    Ok(())
}
