use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;
use crate::policy::{GitRules, HostPattern, Network, Protected, Refs};
use crate::probe::tests::able;

fn policy(level: Level) -> Policy {
    Policy {
        hidden: vec!["/h".into()],
        protected: vec![Protected::file("/w/a/b")],
        git: Some(GitRules::Worktree {
            worktree: "/w".into(),
            common_dir: "/r/.git".into(),
            admin_dir: "/r/.git/worktrees/w".into(),
            refs: Refs::Shared { branch: "greenroom/x".into() },
        }),
        ..Policy::new(level, "/w", "/t")
    }
}

fn piped(level: Level) -> Policy {
    let limits = crate::policy::Limits { processes: Some(9), ..Default::default() };
    Policy { pipes: true, limits, ..policy(level) }
}

/// A stage from before there were programs on pipes reads what it always did, and refuses the rest.
#[test]
fn plans_for_terminals_have_not_changed_their_first_byte() {
    let first = |policy: &Policy| compile(policy, &able()).unwrap().steps.encode()[0];
    assert_eq!([first(&policy(Level::Full)), first(&policy(Level::Reduced))], [0, 1]);
    let piped = [Level::Full, Level::Reduced, Level::Bare].map(|level| first(&piped(level)));
    assert_eq!(piped, [2, 3, 4]);
}

/// A stage of another build reads these bytes.
#[test]
fn steps_lie_on_the_wire_as_they_always_did() {
    fn check(value: &impl Wire, expected: &str) {
        let hex: String = value.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }
    let what = Place::OthersReadOnly { except: "b".into() };
    check(&Mount { at: "/a".into(), what, optional: true }, "02000000 2f61 01 03 01000000 62");
    let names = vec!["x".into(), "y".into()];
    check(&Place::Without { names }, "06 02000000 01000000 78 01000000 79");
    let make = Make { path: "/c".into(), what: MakeWhat::File(b".\n".to_vec()) };
    check(&make, "02000000 2f63 01 02000000 2e0a");
    check(&[NetworkStep::Host, NetworkStep::Own, NetworkStep::OwnWithListener], "00 01 02");
    let rules = LandlockRules {
        abi: 7,
        read: vec!["/".into()],
        except: vec![],
        write: vec![],
        objects: None,
        execute: Some(vec![]),
        deny_tcp: true,
    };
    check(&rules, "07000000 01000000 01000000 2f 00000000 00000000 00 01 00000000 01");
}

fn launch() -> Launch {
    Launch::new(vec!["sh".into(), "-c".into()], vec![("A".into(), "b".into())], "/w", 80, 24)
}

#[test]
fn a_sealed_plan_comes_back_as_it_was() {
    let hosts = Network::Hosts(vec![HostPattern::parse("a.b").unwrap()]);
    for policy in [
        policy(Level::Full),
        policy(Level::Reduced),
        Policy { network: hosts, ..policy(Level::Full) },
        piped(Level::Full),
        piped(Level::Reduced),
        piped(Level::Bare),
    ] {
        let plan = compile(&policy, &able()).unwrap();
        let (steps, got) = unseal(plan.seal(&launch()).unwrap().as_fd()).unwrap();
        let env = plan.steps.environment(&launch().env);
        assert_eq!(got, Launch { env, ..launch() });
        let (unset_env, set_env, git_config) = (vec![], vec![], vec![]);
        assert_eq!(steps, Steps { unset_env, set_env, git_config, ..plan.steps });
    }
}

#[test]
fn what_can_still_change_is_not_read() {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("x", flags).unwrap();
    assert!(matches!(unseal(memfd.as_fd()), Err(SealError::Memfd(MemfdError::Unsealed(_)))));
    let file = tempfile::tempfile().unwrap();
    assert!(unseal(file.as_fd()).is_err());
}

#[test]
fn programs_that_cannot_be_run_are_refused_at_once() {
    let plan = compile(&policy(Level::Full), &able()).unwrap();
    let mut bad = vec![launch(), launch(), launch(), launch()];
    bad[0].argv.clear();
    bad[1].argv.push("a\0b".into());
    bad[2].env.push(("A=B".into(), "c".into()));
    bad[3].cwd = PathBuf::new();
    for launch in bad {
        assert!(matches!(plan.seal(&launch), Err(SealError::BadLaunch(_))));
    }
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", launch());
    assert!(!shown.contains("\"b\"") && !shown.contains("sh"), "{shown}");
}

proptest! {
    #[test]
    fn any_bytes_are_no_panic(mut bytes: Vec<u8>) {
        let _ = decode(&bytes);
        bytes.splice(0..0, PLAN_VERSION.to_le_bytes());
        let _ = decode(&bytes);
    }

    #[test]
    fn a_plan_cut_anywhere_is_an_error(at: prop::sample::Index) {
        let plan = compile(&policy(Level::Full), &able()).unwrap();
        let bytes = Writer::default().put(&PLAN_VERSION).put(&plan.steps).put(&launch()).finish();
        prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}
