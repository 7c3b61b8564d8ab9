//! The program's environment: what must not get in, what tells it where it is.
//!
//! In: the complete environment the session would have outside. Out: the one it gets. Pure. Absent
//! on purpose: secrets as such; values pass through and are never shown.

use std::ffi::{OsStr, OsString};

use crate::plan::{PROXY_PORT, Steps};
use crate::policy::{GitRules, Level, Network, Policy};

/// Names the level, inside.
pub const SANDBOX_VARIABLE: &str = "GREENROOM_SANDBOX";

/// Ways to other programs' sockets and displays. They lead nowhere inside, and programs hang on
/// some of them.
const SOCKETS: [&str; 12] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DOCKER_HOST",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Housekeeping of git needs what a worktree's session may not write. Large fetches stay loose:
/// packs are protected.
const GIT_CONFIG: [(&str, &str); 4] = [
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.unpackLimit", "1000000"),
    ("core.fsmonitor", "false"),
];

pub(crate) fn unset(policy: &Policy) -> Vec<OsString> {
    if policy.allow.unix { Vec::new() } else { SOCKETS.map(OsString::from).to_vec() }
}

pub(crate) fn set(policy: &Policy) -> Vec<(OsString, OsString)> {
    let mut set: Vec<(OsString, OsString)> =
        vec![(SANDBOX_VARIABLE.into(), policy.level.name().into())];
    set.push((
        "TMPDIR".into(),
        match policy.level {
            Level::Full => "/tmp".into(),
            Level::Reduced | Level::Bare => policy.tmp_dir.clone().into(),
        },
    ));
    if let Network::Hosts(_) = policy.network {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        // Not socks5h for ALL_PROXY: Python's httpx stops at the name if a package for it is
        // missing.
        for name in [
            "HTTP_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
            "npm_config_proxy",
            "npm_config_https_proxy",
            "PIP_PROXY",
            "CARGO_HTTP_PROXY",
        ] {
            set.push((name.into(), proxy.clone().into()));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            set.push((name.into(), "localhost,127.0.0.1,::1".into()));
        }
        set.push(("NODE_USE_ENV_PROXY".into(), "1".into()));
    }
    set
}

pub(crate) fn git_config(policy: &Policy) -> Vec<(String, String)> {
    match policy.git {
        Some(GitRules::Worktree { .. }) => {
            GIT_CONFIG.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
        }
        _ => Vec::new(),
    }
}

impl Steps {
    /// What the program gets instead of `outside`. A variable given twice counts once, the last
    /// time.
    pub fn environment(&self, outside: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = Vec::with_capacity(outside.len() + 16);
        let mut put = |name: &OsStr, value: &OsStr| {
            match env.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = value.to_owned(),
                None => env.push((name.to_owned(), value.to_owned())),
            };
        };
        for (name, value) in outside.iter().filter(|(name, _)| !self.unset_env.contains(name)) {
            put(name, value);
        }
        for (name, value) in &self.set_env {
            put(name, value);
        }
        if !self.git_config.is_empty() {
            // After what the caller set the same way.
            let count = outside.iter().rfind(|(name, _)| name == "GIT_CONFIG_COUNT");
            let given = count.and_then(|(_, value)| value.to_str()?.parse::<usize>().ok());
            let given = given.unwrap_or(0).min(MAX_GIVEN_CONFIG);
            for (number, (key, value)) in (given..).zip(&self.git_config) {
                put(format!("GIT_CONFIG_KEY_{number}").as_ref(), key.as_ref());
                put(format!("GIT_CONFIG_VALUE_{number}").as_ref(), value.as_ref());
            }
            let count = (given + self.git_config.len()).to_string();
            put("GIT_CONFIG_COUNT".as_ref(), count.as_ref());
        }
        env
    }
}

/// More settings than anybody passes by environment; beyond it the caller's count is not believed.
const MAX_GIVEN_CONFIG: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{HostPattern, Refs};
    use crate::probe::tests::able;

    fn inside(change: impl FnOnce(&mut Policy), outside: &[(&str, &str)]) -> Vec<String> {
        let mut policy = Policy::new(Level::Full, "/w", "/state/tmp");
        change(&mut policy);
        let steps = crate::plan::compile(&policy, &able()).unwrap().steps;
        let outside: Vec<_> = outside.iter().map(|(k, v)| (k.into(), v.into())).collect();
        let env = steps.environment(&outside);
        env.iter().map(|(k, v)| format!("{}={}", k.display(), v.display())).collect()
    }

    #[test]
    fn sockets_stay_outside_and_the_level_is_told() {
        let env = inside(|_| {}, &[("SSH_AUTH_SOCK", "/x"), ("TMPDIR", "/var/tmp"), ("A", "1")]);
        assert_eq!(env, ["TMPDIR=/tmp", "A=1", "GREENROOM_SANDBOX=full"]);
        let env = inside(|it| it.allow.unix = true, &[("SSH_AUTH_SOCK", "/x")]);
        assert!(env.contains(&"SSH_AUTH_SOCK=/x".to_owned()));
    }

    #[test]
    fn a_claim_about_the_level_from_outside_does_not_count() {
        let env = inside(|_| {}, &[("GREENROOM_SANDBOX", "none"), ("GREENROOM_SANDBOX", "off")]);
        assert_eq!(env, ["GREENROOM_SANDBOX=full", "TMPDIR=/tmp"]);
    }

    #[test]
    fn allowed_hosts_bring_the_proxy() {
        let hosts = vec![HostPattern::parse("example.com").unwrap()];
        let env =
            inside(|it| it.network = Network::Hosts(hosts), &[("https_proxy", "http://other")]);
        assert!(env.contains(&"https_proxy=http://127.0.0.1:3128".to_owned()), "{env:?}");
        assert!(!env.iter().any(|it| it.contains("other")));
    }

    #[test]
    fn git_settings_come_after_the_callers() {
        let env = inside(
            |it| {
                it.git = Some(GitRules::Worktree {
                    worktree: "/w".into(),
                    common_dir: "/r/.git".into(),
                    admin_dir: "/r/.git/worktrees/w".into(),
                    refs: Refs::Own { dir: "s1".into() },
                });
            },
            &[("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "c")],
        );
        assert!(env.contains(&"GIT_CONFIG_KEY_0=a.b".to_owned()));
        assert!(env.contains(&"GIT_CONFIG_KEY_1=gc.auto".to_owned()));
        assert!(env.contains(&"GIT_CONFIG_COUNT=5".to_owned()), "{env:?}");
    }
}
