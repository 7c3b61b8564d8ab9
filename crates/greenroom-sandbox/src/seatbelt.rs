//! The same policy as a profile for macOS's Seatbelt.
//!
//! In: a [`Policy`] whose paths are real (`/private/tmp`, not `/tmp`). Out: the profile's text and
//! its parameters, for `/usr/bin/sandbox-exec -p TEXT -D NAME=VALUE … -- PROGRAM …`, printed by
//! `sandbox explain --for macos`. Paths and hosts never become part of the text: the text is made
//! of fixed lines, and what they are about comes as parameters. Last match wins, so denials stand
//! last. **Untried on a Mac:** the tests compare text, not what a Mac does with it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::compile::{Refused, check_paths};
use crate::policy::{GitRules, Network, Policy, Reads, Refs};

/// What goes to `sandbox-exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub text: String,
    /// For `-D`: name and value.
    pub params: Vec<(String, PathBuf)>,
}

const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.trustd.agent"))
(allow ipc-posix-sem)
(allow ipc-posix-shm*)
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx") (literal "/dev/tty"))
(allow file-read* file-write* file-ioctl (literal (param "TTY")))
(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom"))
"#;

const SYSTEM_READS: &str = r#"(allow file-read-metadata)
(allow file-read*
  (subpath "/usr") (subpath "/bin") (subpath "/sbin") (subpath "/System") (subpath "/Library/Apple")
  (subpath "/private/etc/ssl") (literal "/private/etc/localtime") (literal "/dev/dtracehelper"))
"#;

const OPEN_NETWORK: &str = r#"(allow network-outbound (remote ip))
(allow network-inbound (local ip "localhost:*"))
(allow system-socket)
(allow mach-lookup (global-name "com.apple.SystemConfiguration.DNSConfiguration"))
"#;

/// What everybody who sees a profile is told first.
pub const UNTRIED: &str = "untried on a Mac: only the text of this profile is tested";

/// As a file for `sandbox-exec -f`, with the parameters in a comment: escaped, so that no name of a
/// file ends the comment.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            ";; {UNTRIED}\n{}\n;; sandbox-exec -f FILE, and for each of these -D:",
            self.text
        )?;
        self.params.iter().try_for_each(|(name, value)| writeln!(f, ";;   {name}={value:?}"))
    }
}

/// The profile. `tty` is the session's terminal; `proxy_port` is where the daemon's proxy listens
/// for this session, which must ask for its token there: loopback is shared on macOS.
pub fn profile(policy: &Policy, tty: &Path, proxy_port: u16) -> Result<Profile, Refused> {
    check_paths(policy)?;
    let mut made = Lines { text: BASE.to_owned(), params: vec![("TTY".into(), tty.to_owned())] };
    if policy.spawn {
        made.text.push_str("(allow process-fork)\n");
    }
    match &policy.reads {
        Reads::All => made.text.push_str("(allow file-read* file-test-existence)\n"),
        Reads::Only(paths) => {
            made.text.push_str(SYSTEM_READS);
            made.each("allow file-read*", "subpath", "READ", paths);
        }
    }
    let write = "allow file-read* file-write*";
    made.each(write, "subpath", "WRITE", &policy.writable);
    made.each(write, "subpath", "TMP", std::slice::from_ref(&policy.tmp_dir));
    // Nothing can be put at another place: it is writable where it lies, and the program is told.
    let private: Vec<PathBuf> = policy.private.iter().map(|it| it.from.clone()).collect();
    made.each(write, "subpath", "PRIVATE", &private);
    if let Some(rules) = &policy.git {
        git(&mut made, rules);
    }
    match &policy.network {
        Network::None => {}
        // The only host part Seatbelt takes besides `*`.
        Network::Hosts(_) => made.text.push_str(&format!(
            "(allow network-outbound (remote ip \"localhost:{proxy_port}\"))\n"
        )),
        Network::Open => made.text.push_str(OPEN_NETWORK),
    }
    if policy.allow.unix {
        made.text.push_str("(allow network-outbound (remote unix-socket))\n");
    }
    let protected: Vec<PathBuf> = policy.protected.iter().map(|it| it.path.clone()).collect();
    made.each("deny file-write*", "subpath", "FIXED", &protected);
    let parents: Vec<PathBuf> =
        protected.iter().filter_map(|it| it.parent()).map(Path::to_owned).collect();
    made.each("deny file-write-unlink", "literal", "FIXED_PARENT", &parents);
    made.each("deny file-read* file-write*", "subpath", "HIDDEN", &policy.hidden);
    made.text.push_str("(deny file-write-setugid)\n");
    Ok(Profile { text: made.text, params: made.params })
}

struct Lines {
    text: String,
    params: Vec<(String, PathBuf)>,
}

impl Lines {
    /// One line for each path, which is named by a parameter.
    fn each(&mut self, verb: &str, filter: &str, name: &str, paths: &[PathBuf]) {
        for (number, path) in paths.iter().enumerate() {
            let name = format!("{name}_{number}");
            self.text.push_str(&format!("({verb} ({filter} (param \"{name}\")))\n"));
            self.params.push((name, path.clone()));
        }
    }
}

fn git(made: &mut Lines, rules: &GitRules) {
    match rules {
        GitRules::Worktree { worktree, common_dir, admin_dir, refs } => {
            let dir = match refs {
                Refs::Own { dir } => Path::new(dir),
                Refs::Shared { branch } => Path::new(branch).parent().unwrap_or(Path::new("")),
            };
            let objects = common_dir.join("objects");
            let writable = [
                admin_dir.clone(),
                objects.clone(),
                common_dir.join("refs/heads").join(dir),
                common_dir.join("logs/refs/heads").join(dir),
            ];
            made.each("allow file-write*", "subpath", "GIT", &writable);
            let fixed = [
                objects.join("pack"),
                objects.join("info"),
                admin_dir.join("commondir"),
                admin_dir.join("gitdir"),
                admin_dir.join("config.worktree"),
                worktree.join(".git"),
            ];
            made.each("deny file-write*", "subpath", "GIT_FIXED", &fixed);
        }
        GitRules::Checkout { git_dir, modules } => {
            let of = |dir: &PathBuf| {
                ["hooks", "config", "config.worktree", "info/attributes", "commondir"]
                    .map(|it| dir.join(it))
            };
            let dirs = || [git_dir].into_iter().chain(modules);
            let fixed: Vec<PathBuf> = dirs().flat_map(of).collect();
            made.each("deny file-write*", "subpath", "GIT_FIXED", &fixed);
            // No parent can be moved away.
            let parents: Vec<PathBuf> =
                dirs().flat_map(|dir| [dir.clone(), dir.join("info")]).collect();
            made.each("deny file-write-unlink", "literal", "GIT_PARENT", &parents);
        }
    }
}

#[cfg(test)]
mod tests;
