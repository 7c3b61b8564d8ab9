//! A program with a plain environment, and what it said.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Where the programs of a machine are.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that finds nothing of whoever runs the tests: no variables, no input, this home.
pub fn plain(program: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("PATH", PATH).env("LANG", "C.UTF-8");
    command.env("SHELL", "/bin/sh").stdin(Stdio::null());
    command
}

/// What a run of a program said.
#[derive(Debug)]
pub struct Said {
    /// -1 if a signal ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_its_home_and_nothing_else() {
        let script = "cat; echo $HOME; env | grep -c CARGO; echo oops >&2; exit 3";
        let said = plain("sh", Path::new("/nowhere")).args(["-c", script]).output().unwrap();
        let said = Said::of(said);
        assert_eq!((said.code, &*said.out, &*said.err), (3, "/nowhere\n0\n", "oops\n"));
    }
}
