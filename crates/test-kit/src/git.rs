//! Git as a user without any settings runs it, and repositories to work in.

use std::path::Path;
use std::process::Command;

use crate::run::Said;
use crate::user::User;

/// Git in a directory, with a name for commits and nothing of this machine.
pub fn command(dir: &Path) -> Command {
    plain(Command::new("git"), dir)
}

fn plain(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", "/nonexistent");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A");
        command.env(format!("GIT_{who}_EMAIL"), "a@example.org");
    }
    command.args(["-c", "protocol.file.allow=always"]);
    command
}

/// What git prints, without the last newline; or what it complains of.
pub fn try_git(dir: &Path, args: &[&str]) -> Result<String, String> {
    answer(command(dir), args)
}

#[track_caller]
pub fn git(dir: &Path, args: &[&str]) -> String {
    try_git(dir, args).unwrap_or_else(|said| panic!("git {args:?} in {}: {said}", dir.display()))
}

/// The same as another user, who need not own the repository.
#[track_caller]
pub fn git_as(user: User, dir: &Path, args: &[&str]) -> String {
    let mut command = plain(user.command("git"), dir);
    command.args(["-c", "safe.directory=*"]);
    answer(command, args).unwrap_or_else(|said| panic!("git {args:?} as {user:?}: {said}"))
}

fn answer(mut command: Command, args: &[&str]) -> Result<String, String> {
    let said = Said::of(command.args(args).output().unwrap());
    if said.code == 0 { Ok(said.out.trim_end().to_owned()) } else { Err(said.err) }
}

/// Makes the directory if need be, and in it a repository without a commit.
#[track_caller]
pub fn init(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q", "-b", "main"]);
}

/// The same with one commit, in which there is a file `a`.
#[track_caller]
pub fn repository(dir: &Path) {
    init(dir);
    std::fs::write(dir.join("a"), "a\n").unwrap();
    commit_all(dir, "one");
}

/// Commits everything that git does not ignore.
#[track_caller]
pub fn commit_all(dir: &Path, message: &str) {
    git(dir, &["add", "."]);
    git(dir, &["commit", "-q", "-m", message]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_one_commit_by_nobody_of_this_machine() {
        let dir = crate::place::in_memory();
        let repo = dir.path().join("repo");
        repository(&repo);
        assert_eq!(git(&repo, &["log", "--format=%s by %an <%ae>"]), "one by A <a@example.org>");
        assert_eq!(git(&repo, &["status", "--porcelain", "--branch"]), "## main");
        assert!(try_git(&repo, &["log", "nosuch"]).unwrap_err().contains("nosuch"));
    }
}
