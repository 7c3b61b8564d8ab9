//! A plan in plain words: what is enforced by which layer, and what is not.
//!
//! In: a [`Plan`]. Out: an [`Explanation`], to be printed or serialised. Only what the plan's steps
//! do is claimed, not what the policy wished; what is not protected is always part of it. Absent on
//! purpose: advice.

use std::fmt;
use std::path::Path;

use crate::plan::{NetworkStep, PROXY_PORT, Place, Plan};
use crate::policy::{GitRules, Level, Network, Reads, Refs};

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Explanation {
    pub level: Level,
    pub rules: Vec<Rule>,
    /// Sentences about what this session could still do.
    pub not_protected: Vec<String>,
}

/// One thing that is enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rule {
    pub subject: &'static str,
    pub rule: String,
    /// The layers that hold it.
    pub held_by: String,
}

pub fn explain(plan: &Plan) -> Explanation {
    let full = plan.steps.level == Level::Full;
    if plan.steps.level == Level::Bare {
        return bare(plan);
    }
    let mut rules = Vec::new();
    files(plan, full, &mut rules);
    network(plan, full, &mut rules);
    let mut add = |subject, rule: &str, held_by: &str| {
        rules.push(Rule { subject, rule: rule.into(), held_by: held_by.into() });
    };
    if full {
        add(
            "processes",
            "sees and signals its own only; all end with the session",
            "pid namespace",
        );
        add("terminals", "its own only", "own devpts");
    } else {
        let by = if landlock_abi(plan) >= 6 { "landlock, seccomp" } else { "seccomp" };
        add("processes", "cannot trace, read or slow down others", by);
    }
    add("privileges", "no capabilities, no set-user-id programs", "no new privileges, seccomp");
    add("kernel", "no mounts, namespaces, modules, keys, bpf, io_uring", "seccomp");
    if !plan.policy.spawn {
        add("programs", "starts no other process", "seccomp, landlock");
    }
    add("limits", &limits(plan), "rlimit");
    Explanation { level: plan.steps.level, rules, not_protected: not_protected(plan, full) }
}

fn limits(plan: &Plan) -> String {
    let named = |(resource, value): &(u32, u64)| format!("{}={value}", limit_name(*resource));
    let limits: Vec<String> = plan.steps.limits.iter().map(named).collect();
    limits.join(" ")
}

/// What is left without a fence.
fn bare(plan: &Plan) -> Explanation {
    let rule = |subject, rule: &str, held_by: &str| Rule {
        subject,
        rule: rule.into(),
        held_by: held_by.into(),
    };
    let rules = vec![
        rule("privileges", "no set-user-id programs", "no new privileges"),
        rule("processes", "all end with the program", "a process that watches over it"),
        rule("limits", &limits(plan), "rlimit"),
    ];
    let not_protected =
        vec!["everything else: it may read, change and reach whatever you may".to_owned()];
    Explanation { level: Level::Bare, rules, not_protected }
}

fn landlock_abi(plan: &Plan) -> u32 {
    plan.steps.landlock.as_ref().map_or(0, |rules| rules.abi)
}

fn files(plan: &Plan, full: bool, rules: &mut Vec<Rule>) {
    let mut add = |subject, rule: String, held_by: &str| {
        rules.push(Rule { subject, rule, held_by: held_by.into() });
    };
    let landlock = if plan.steps.landlock.is_some() { ", landlock" } else { "" };
    let mounts = format!("mounts{landlock}");
    let writes = if full { mounts.as_str() } else { "landlock" };
    if full {
        for mount in &plan.steps.mounts {
            let unsure = if mount.optional { " (if it is there)" } else { "" };
            let at = format!("{}{unsure}", mount.at.display());
            match &mount.what {
                Place::Writable => add("write", at, writes),
                Place::ReadOnly => add("fixed", at, "mounts"),
                Place::OthersReadOnly { except } => {
                    add("fixed", format!("{at}/* except {}", except.display()), "mounts");
                }
                Place::Masked => add("hidden", at, "mounts"),
                // Only on the way to something hidden.
                Place::Without { names } if names.is_empty() => {}
                Place::Without { names } => {
                    let names: Vec<_> = names.iter().map(|it| it.display().to_string()).collect();
                    let rule = format!("in {}: {}", mount.at.display(), names.join(", "));
                    add("hidden", rule, "mounts");
                }
                Place::Replaced { from } => {
                    add("write", format!("{at} (its own: {})", from.display()), writes);
                }
                Place::View { from } => {
                    add("fixed", format!("{at} (as in {})", from.display()), "mounts");
                }
                Place::Pinned => {}
            }
        }
        add("write", "/dev/shm (its own)".into(), writes);
    } else if let Some(landlock) = &plan.steps.landlock {
        for path in landlock.write.iter().chain(&landlock.objects) {
            add("write", path.display().to_string(), writes);
        }
        for path in &landlock.except {
            add("hidden", format!("{} (contents; names can be listed)", path.display()), writes);
        }
    }
    let read = match (&plan.policy.reads, &plan.steps.landlock) {
        (Reads::Only(paths), Some(_)) => {
            format!("programs and libraries of the system, {}", list(paths))
        }
        _ => "whatever you may read, except what is hidden".to_owned(),
    };
    add("read", read, if plan.steps.landlock.is_some() { "landlock" } else { "mounts" });
}

fn list(paths: &[std::path::PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}

fn network(plan: &Plan, full: bool, rules: &mut Vec<Rule>) {
    let (rule, held_by) = match (&plan.policy.network, plan.steps.network) {
        (Network::Hosts(hosts), NetworkStep::OwnWithListener) => {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            let rule = format!(
                "a loopback of its own; through the proxy on port {PROXY_PORT}: {}",
                hosts.join(", ")
            );
            (rule, "network namespace, the daemon's proxy")
        }
        (_, NetworkStep::Own | NetworkStep::OwnWithListener) => {
            ("a loopback of its own, nothing else".to_owned(), "network namespace, seccomp")
        }
        (Network::Open, _) => ("the machine's: TCP and UDP anywhere".to_owned(), "seccomp"),
        _ => ("none, not even loopback".to_owned(), "seccomp, landlock"),
    };
    rules.push(Rule { subject: "network", rule, held_by: held_by.into() });
    let unix = match (plan.policy.allow.unix, full) {
        (true, _) => "allowed",
        (false, true) => "refused, and /run is hidden",
        (false, false) => "refused",
    };
    rules.push(Rule { subject: "unix sockets", rule: unix.into(), held_by: "seccomp".into() });
}

fn not_protected(plan: &Plan, full: bool) -> Vec<String> {
    let policy = &plan.policy;
    let mut not = vec![];
    let mut say = |text: &str| not.push(text.to_owned());
    if policy.reads == Reads::All {
        say("what it can read and is not hidden; with any network it could send that away");
    }
    say("what you run of its results later: build scripts, hooks of tools, committed code");
    say("files it can write that have another name outside (hard links made before)");
    if plan.steps.landlock.is_none() {
        say("a second fence around paths: Landlock is missing, mounts alone hold them");
    }
    if policy.network == Network::Open {
        say("the network: services of this machine and of your network can be reached");
    }
    if policy.allow.unix {
        say("unix sockets at visible paths: docker, agents, desktop services");
    }
    if policy.allow.debug {
        say("its own processes from each other: tracing is allowed");
    }
    if !full {
        say("modes, times and attributes of your files elsewhere (contents are protected)");
        say("other programs' files in /tmp and /dev/shm");
        say("processes it leaves running after the session");
        say("protected paths inside of what it may write: .git/hooks and .git/config among them");
        if landlock_abi(plan) < 6 {
            say("your other processes from its signals (Landlock 6, Linux 6.12)");
        }
    }
    if let Some(GitRules::Worktree { refs: Refs::Shared { branch }, .. }) = &policy.git {
        let dir = Path::new(branch).parent().unwrap_or(Path::new("")).display().to_string();
        let which = if full { "made there after its start" } else { "beside its own" };
        say(&format!("branches below refs/heads/{dir} {which}"));
    }
    say("the kernel: it is shared, this is no virtual machine");
    not
}

#[cfg(target_os = "linux")]
fn limit_name(resource: u32) -> String {
    match resource {
        libc::RLIMIT_CORE => "core".into(),
        libc::RLIMIT_MSGQUEUE => "message_queue".into(),
        libc::RLIMIT_NOFILE => "open_files".into(),
        libc::RLIMIT_FSIZE => "file_bytes".into(),
        libc::RLIMIT_AS => "address_bytes".into(),
        libc::RLIMIT_DATA => "data_bytes".into(),
        libc::RLIMIT_CPU => "cpu_seconds".into(),
        libc::RLIMIT_NPROC => "processes".into(),
        other => other.to_string(),
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_name(resource: u32) -> String {
    resource.to_string()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "sandbox level {}", self.level)?;
        let width = self.rules.iter().map(|rule| rule.subject.len()).max().unwrap_or(0);
        for Rule { subject, rule, held_by } in &self.rules {
            writeln!(f, "  {subject:width$}  {rule}  [{held_by}]")?;
        }
        writeln!(f, "not protected:")?;
        for sentence in &self.not_protected {
            writeln!(f, "  - {sentence}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
