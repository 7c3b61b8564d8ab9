//! Known vulnerabilities, by cargo-deny. Its database comes over the network: without one the check
//! is *not done*, and says so; a finding is always a failure.

use std::process::Command;

use anyhow::{Context, Result, bail};

pub fn run() -> Result<()> {
    let output = Command::new("cargo")
        .args(["deny", "--workspace", "--color", "never", "check", "advisories"])
        .output()
        .context("cannot run cargo deny (hint: make setup)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    match judge(output.status.success(), &text) {
        Verdict::Clean => println!("advisories: none apply"),
        Verdict::NotChecked(why) => {
            println!("advisories: NOT CHECKED, the database could not be fetched: {why}");
        }
        Verdict::Found => {
            eprint!("{text}");
            bail!("a dependency has a known fault");
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Clean,
    NotChecked(String),
    Found,
}

/// What cargo-deny says when it cannot get the database, as opposed to when it found something in
/// it.
const FETCH_FAILURES: &[&str] =
    &["failed to fetch advisory database", "failed to load advisory database", "unable to fetch"];

fn judge(success: bool, stderr: &str) -> Verdict {
    if success {
        return Verdict::Clean;
    }
    let findings = stderr.contains("error[vulnerability]")
        || stderr.contains("error[unsound]")
        || stderr.contains("error[unmaintained]")
        || stderr.contains("error[yanked]");
    let fetch = stderr.lines().find(|line| FETCH_FAILURES.iter().any(|text| line.contains(text)));
    match fetch {
        Some(line) if !findings => {
            let what = line.split("[ERROR] ").last().unwrap_or(line);
            Verdict::NotChecked(what.split(" with ").next().unwrap_or(what).trim().to_owned())
        }
        _ => Verdict::Found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_network_is_not_a_pass_and_not_a_failure() {
        let text = "2026-01-01 [ERROR] failed to fetch advisory database https://example.org/db\n";
        assert!(matches!(judge(false, text), Verdict::NotChecked(_)));
    }

    #[test]
    fn a_finding_fails_even_beside_a_fetch_error() {
        let text = "failed to fetch advisory database x\nerror[vulnerability]: it is bad\n";
        assert_eq!(judge(false, text), Verdict::Found);
    }

    #[test]
    fn an_unknown_failure_is_a_failure() {
        assert_eq!(judge(false, "error: no such option"), Verdict::Found);
        assert_eq!(judge(true, ""), Verdict::Clean);
    }
}
