use proptest::prelude::*;

use super::*;
use crate::plan::{Mount, Place};
use crate::policy::{GitRules, HostPattern, Private, Protected, Refs};
use crate::probe::Trial;
use crate::probe::tests::able;

fn session() -> Policy {
    Policy { home: Some("/home/u".into()), ..Policy::new(Level::Full, "/home/u/p", "/s/tmp") }
}

fn mounts(policy: &Policy) -> String {
    let shown = |it: &Mount| {
        let what = match &it.what {
            Place::Writable => "write".to_owned(),
            Place::ReadOnly => "fixed".to_owned(),
            Place::Pinned => "pin".to_owned(),
            Place::OthersReadOnly { except } => format!("fixed but {}", except.display()),
            Place::Masked => "mask".to_owned(),
            Place::Without { names } => {
                let names: Vec<_> = names.iter().map(|it| it.display().to_string()).collect();
                format!("without {} in", names.join(","))
            }
            Place::Replaced { from } => format!("is {}", from.display()),
            Place::View { from } => format!("shows {}", from.display()),
        };
        format!("{what} {}{}", it.at.display(), if it.optional { "?" } else { "" })
    };
    let plan = compile(policy, &able()).unwrap();
    plan.steps.mounts.iter().map(shown).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn refused(policy: &Policy, part: &str) {
    let error = compile(policy, &able()).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn what_is_private_covers_the_users_and_cannot_be_moved() {
    let private = |at: &str, views: &[(&str, &str)]| Private {
        at: at.into(),
        from: "/s/agents/x".into(),
        views: views.iter().map(|(name, from)| (name.into(), from.into())).collect(),
    };
    let all = vec![
        private("/home/u/.agent", &[("skills", "/home/u/dots/skills")]),
        private("/home/u/p/sub/.agent", &[]),
    ];
    let policy = Policy { private: all, hidden: vec!["/home/u/.ssh".into()], ..session() };
    insta::assert_snapshot!(mounts(&policy), @"
    mask /run?
    is /s/tmp /tmp
    without .ssh in /home/u?
    fixed /run/current-system?
    fixed /run/booted-system?
    fixed /run/opengl-driver?
    write /home/u/p
    is /s/agents/x /home/u/.agent
    shows /home/u/dots/skills /home/u/.agent/skills?
    pin /home/u/p/sub?
    is /s/agents/x /home/u/p/sub/.agent
    ");
    let landlock =
        |policy: &Policy| compile(policy, &able()).unwrap().steps.landlock.unwrap().write;
    assert!(landlock(&policy).contains(&PathBuf::from("/home/u/.agent")));
    let reduced = landlock(&Policy { level: Level::Reduced, ..policy.clone() });
    assert!(reduced.contains(&PathBuf::from("/s/agents/x")));
    assert!(!reduced.contains(&PathBuf::from("/home/u/.agent")));
    refused(&Policy { hidden: vec!["/home/u/.agent".into()], ..policy }, "both");
}

#[test]
fn a_session_with_hidden_and_protected_paths() {
    let policy = Policy {
        hidden: vec!["/home/u/.ssh".into(), "/home/u/p/x/secret".into()],
        protected: vec![
            Protected::existing("/home/u/p/.vscode/tasks.json"),
            Protected::existing("/usr/bin"),
        ],
        writable: vec!["/home/u/p".into(), "/home/u/p/sub".into()],
        ..session()
    };
    insta::assert_snapshot!(mounts(&policy), @"
    mask /run?
    is /s/tmp /tmp
    without .ssh in /home/u?
    fixed /run/current-system?
    fixed /run/booted-system?
    fixed /run/opengl-driver?
    write /home/u/p
    pin /home/u/p/.vscode?
    pin /home/u/p/x?
    mask /home/u/p/x/secret?
    fixed /home/u/p/.vscode/tasks.json?
    ");
}

/// Also where nothing is yet, and in every directory on the way.
#[test]
fn below_home_names_are_hidden() {
    let hidden = [".ssh", ".config/gh", ".config/git/credentials", ".local/state/gr", ".m2/x"];
    let policy = Policy {
        hidden: hidden
            .iter()
            .map(|it| Path::new("/home/u").join(it))
            .chain(["/s".into()])
            .collect(),
        visible: vec!["/home/u/.ssh/config".into(), "/home/u/.config/ok".into()],
        writable: vec!["/home/u/.local/state/gr/w".into(), "/home/u/.m2".into()],
        ..session()
    };
    insta::assert_snapshot!(mounts(&policy), @"
    mask /run?
    is /s/tmp /tmp
    mask /s?
    without .ssh in /home/u?
    fixed /run/current-system?
    fixed /run/booted-system?
    fixed /run/opengl-driver?
    without gh in /home/u/.config?
    without  in /home/u/.local?
    write /home/u/.m2
    mask /home/u/.m2/x?
    without credentials in /home/u/.config/git?
    without gr in /home/u/.local/state?
    fixed /home/u/.ssh/config?
    write /home/u/.local/state/gr/w
    ");
}

/// `/tmp` is the session's own: what is hidden in a home there is not seen, and neither is the rest
/// of it.
#[test]
fn a_home_below_what_is_replaced_stays_unseen() {
    let (home, hidden) = (Some("/tmp/h".into()), vec!["/tmp/h/.ssh".into(), "/tmp/h/.c/gh".into()]);
    let visible = vec!["/tmp/h/.c/ok".into()];
    let policy = Policy { home, hidden, visible, ..Policy::new(Level::Full, "/tmp/h/p", "/s/tmp") };
    let mounts = mounts(&policy);
    assert!(!mounts.contains("without") && mounts.contains("write /tmp/h/p"), "{mounts}");
    assert!(mounts.contains("fixed /tmp/h/.c/ok?"), "{mounts}");
}

/// Services and containers have such a home.
#[test]
fn a_home_that_is_the_root_is_not_replaced() {
    let (home, hidden) = (Some("/".into()), vec!["/.ssh".into(), "/.config/gh".into()]);
    let mounts = mounts(&Policy { home, hidden, ..Policy::new(Level::Full, "/p", "/s/tmp") });
    assert!(mounts.contains("mask /.ssh?") && !mounts.contains("without"), "{mounts}");
}

#[test]
fn a_worktree_in_the_hidden_state_directory() {
    let policy = Policy {
        hidden: vec!["/state".into()],
        git: Some(GitRules::Worktree {
            worktree: "/state/worktrees/w".into(),
            common_dir: "/home/u/r/.git".into(),
            admin_dir: "/home/u/r/.git/worktrees/w".into(),
            refs: Refs::Shared { branch: "greenroom/x".into() },
        }),
        ..Policy::new(Level::Full, "/state/worktrees/w", "/state/tmp/1")
    };
    insta::assert_snapshot!(mounts(&policy), @"
    mask /run?
    is /state/tmp/1 /tmp
    mask /state?
    fixed /run/current-system?
    fixed /run/booted-system?
    fixed /run/opengl-driver?
    write /state/worktrees/w
    fixed /state/worktrees/w/.git
    write /home/u/r/.git/objects
    write /home/u/r/.git/worktrees/w
    fixed /home/u/r/.git/objects/pack
    fixed /home/u/r/.git/objects/info
    write /home/u/r/.git/refs/heads/greenroom
    fixed /home/u/r/.git/worktrees/w/commondir
    fixed /home/u/r/.git/worktrees/w/gitdir
    fixed /home/u/r/.git/worktrees/w/config.worktree
    fixed but x /home/u/r/.git/refs/heads/greenroom
    write /home/u/r/.git/logs/refs/heads/greenroom
    fixed but x /home/u/r/.git/logs/refs/heads/greenroom
    ");
}

#[test]
fn too_wide_and_contradicting_policies_are_refused() {
    let writable = |path: &str| Policy { writable: vec![path.into()], ..session() };
    refused(&writable("/"), "root directory");
    refused(&writable("/home/u"), "your home directory: start");
    refused(&writable("/home"), "your home directory is in it");
    refused(&writable("/tmp"), "belongs to the system");
    refused(&writable("relative"), "not an absolute path");
    refused(&writable("/a/../b"), "not an absolute path");
    refused(&writable("/a/./b"), "not an absolute path");
    refused(&writable("/a//b"), "not an absolute path");
    refused(&Policy { hidden: vec!["/home/u/p".into()], ..session() }, "both hidden and writable");
    let hosts = Network::Hosts(vec![HostPattern::parse("a.b").unwrap()]);
    refused(
        &Policy { network: hosts, level: Level::Reduced, ..session() },
        "need sandbox level full",
    );
}

#[test]
fn git_data_elsewhere_and_strange_branches_are_refused() {
    let git = |admin: &str, branch: &str| Policy {
        git: Some(GitRules::Worktree {
            worktree: "/home/u/p".into(),
            common_dir: "/r/.git".into(),
            admin_dir: admin.into(),
            refs: Refs::Shared { branch: branch.into() },
        }),
        ..session()
    };
    refused(&git("/elsewhere/w", "a/b"), "not below /r/.git/worktrees");
    refused(&git("/r/.git/worktrees/a/b", "a/b"), "not below");
    for branch in ["", "a/../../hooks", "/a", "a//b", ".a", "a/.b", "a.lock", "a\nb", "a b", "a:b"]
    {
        refused(&git("/r/.git/worktrees/w", branch), "no branch");
    }
    let modules = vec!["/elsewhere".into()];
    let outside = GitRules::Checkout { git_dir: "/home/u/p/.git".into(), modules };
    refused(&Policy { git: Some(outside), ..session() }, "not below");
}

#[test]
fn root_has_level_full_only() {
    let probe = Probe { uid: 0, ..able() };
    let reduced = Policy { level: Level::Reduced, ..session() };
    assert_eq!(compile(&reduced, &probe).unwrap_err(), Refused::ReducedAsRoot);
    assert!(compile(&session(), &probe).is_ok());
}

fn lacking(layers: &[Layer]) -> Probe {
    let fail = |trial: Trial| match layers.contains(&trial.layer) {
        true => {
            Trial { outcome: TrialResult::Failed { errno: 1, step: "make one".into() }, ..trial }
        }
        false => trial,
    };
    let able = able();
    Probe { trials: able.trials.into_iter().map(fail).collect(), ..able }
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let error = compile(&session(), &lacking(&[Layer::UserNamespace])).unwrap_err();
    insta::assert_snapshot!(error, @"sandbox level full cannot be enforced on this machine; user namespace: cannot make one: Operation not permitted (os error 1)");
    let Refused::Missing(missing) = error else { panic!("{error}") };
    insta::assert_snapshot!(missing.remedies().join("\n"), @"
    Ubuntu 23.10 and later: allow greenroom user namespaces with the AppArmor profile in docs/sandbox.md
    other systems: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone must not be 0
    in a container: run greenroom on the host, or start the container with user namespaces and an unmasked /proc
    use --sandbox=reduced, which this machine can enforce (weaker: see docs/sandbox.md)
    leave out --sandbox to run without a sandbox
    ");
    let old = Probe { landlock_abi: 2, ..able() };
    let error = compile(&session(), &old).unwrap_err();
    insta::assert_snapshot!(error, @"sandbox level full cannot be enforced on this machine; landlock: version 2 is too old, 3 is needed (Linux 6.2)");
}

#[test]
fn level_full_without_landlock_is_there_for_those_who_ask() {
    let old = Probe { landlock_abi: 2, ..able() };
    let plan = compile(&Policy { without_landlock: true, ..session() }, &old).unwrap();
    assert_eq!(plan.steps.landlock, None);
    let reduced = Policy { without_landlock: true, level: Level::Reduced, ..session() };
    assert!(compile(&reduced, &old).is_err(), "level reduced stands on it");
}

#[test]
fn an_open_network_needs_no_network_namespace() {
    let probe = lacking(&[Layer::NetworkNamespace, Layer::Loopback]);
    assert!(compile(&session(), &probe).is_err());
    let plan = compile(&Policy { network: Network::Open, ..session() }, &probe).unwrap();
    assert_eq!(plan.steps.network, NetworkStep::Host);
}

fn path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec("[abc]", 1..5)
        .prop_map(|parts| PathBuf::from(format!("/{}", parts.join("/"))))
}

proptest! {
    /// In every plan: shallow before deep; nothing protected is left writable, nor a parent of it
    /// movable.
    #[test]
    fn protected_paths_are_always_pinned(
        writable in proptest::collection::vec(path(), 1..4),
        protected in proptest::collection::vec(path(), 0..4),
        hidden in proptest::collection::vec(path(), 0..3),
    ) {
        let policy = Policy {
            writable: writable.clone(),
            protected: protected.iter().map(Protected::existing).collect(),
            hidden: hidden.clone(),
            ..Policy::new(Level::Full, "/w", "/t")
        };
        let Ok(plan) = compile(&policy, &able()) else { return Ok(()) };
        let mounts = &plan.steps.mounts;
        let depths: Vec<usize> = mounts.iter().map(|it| it.at.components().count()).collect();
        prop_assert!(depths.is_sorted());
        let at = |path: &Path| mounts.iter().find(|it| it.at == path).map(|it| &it.what);
        let nearest = |path: &Path| path.ancestors().find_map(at);
        for path in &protected {
            prop_assert!(!matches!(nearest(path), Some(Place::Writable | Place::Pinned)), "{path:?}");
        }
        for path in protected.iter().chain(&hidden) {
            // Every parent up to the writable root is a mount of its own.
            for parent in path.ancestors().skip(1) {
                match nearest(parent) {
                    Some(Place::Writable | Place::Pinned) => prop_assert!(at(parent).is_some(), "{parent:?}"),
                    _ => break,
                }
            }
        }
        for path in &writable {
            let covered = hidden.iter().chain(&protected).any(|it| path.starts_with(it));
            prop_assert!(covered || matches!(nearest(path), Some(Place::Writable | Place::Pinned)), "{path:?}");
        }
    }
}

#[test]
fn without_a_fence_there_are_only_limits_and_no_session() {
    let bare = Policy { level: Level::Bare, ..session() };
    refused(&bare, "not for sessions");
    let mut bare = Policy { pipes: true, ..bare };
    bare.limits.processes = Some(9);
    // Where nothing works at all.
    let mut probe = able();
    probe.landlock_abi = 0;
    probe.trials.retain(|trial| trial.layer == Layer::NoNewPrivileges);
    let steps = compile(&bare, &probe).unwrap().steps;
    assert!(steps.mounts.is_empty() && steps.landlock.is_none() && steps.filter.is_empty());
    assert_eq!((steps.network, steps.processes), (NetworkStep::Host, Some(9)));
    let hosts = Network::Hosts(vec![HostPattern::parse("a.b").unwrap()]);
    refused(&Policy { network: hosts, ..bare }, "need sandbox level full");
}

#[test]
fn processes_are_counted_by_the_kernel_or_by_us() {
    let mut policy = Policy { pipes: true, ..session() };
    policy.limits.processes = Some(9);
    let nproc = (libc::RLIMIT_NPROC, 9);
    for (level, uid, kernel, ours) in [
        (Level::Full, 1000, true, None),
        // The kernel does not count root's.
        (Level::Full, 0, true, Some(9)),
        (Level::Reduced, 1000, false, Some(9)),
        (Level::Bare, 0, false, Some(9)),
    ] {
        let policy = Policy { level, ..policy.clone() };
        let steps = compile(&policy, &Probe { uid, ..able() }).unwrap().steps;
        assert_eq!((steps.limits.contains(&nproc), steps.processes), (kernel, ours), "{level}");
    }
}

#[test]
fn what_is_protected_as_a_whole_has_nothing_writable_in_it() {
    let protected = ["/c/c/c", "/c", "/c/c/a"].map(Protected::existing).to_vec();
    let policy =
        Policy { writable: vec!["/c".into()], protected, ..Policy::new(Level::Full, "/w", "/t") };
    let text = mounts(&policy);
    assert!(text.contains("fixed /c?") && !text.contains("pin"), "{text}");
}
