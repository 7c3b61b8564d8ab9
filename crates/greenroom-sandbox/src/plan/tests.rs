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
    let first = |policy: &Policy| {
        let mut w = Writer::default();
        put_steps(&mut w, &compile(policy, &able()).unwrap().steps);
        w.finish()[0]
    };
    assert_eq!([first(&policy(Level::Full)), first(&policy(Level::Reduced))], [0, 1]);
    let piped = [Level::Full, Level::Reduced, Level::Bare].map(|level| first(&piped(level)));
    assert_eq!(piped, [2, 3, 4]);
}

fn payload() -> Payload {
    Payload {
        argv: vec!["sh".into(), "-c".into()],
        env: vec![("A".into(), "b".into())],
        cwd: "/w".into(),
        cols: 80,
        rows: 24,
    }
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
        let (steps, got) = unseal(plan.seal(&payload()).unwrap().as_fd()).unwrap();
        let env = plan.steps.environment(&payload().env);
        assert_eq!(got, Payload { env, ..payload() });
        let (unset_env, set_env, git_config) = (vec![], vec![], vec![]);
        assert_eq!(steps, Steps { unset_env, set_env, git_config, ..plan.steps });
    }
}

#[test]
fn what_can_still_change_is_not_read() {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("x", flags).unwrap();
    assert!(matches!(unseal(memfd.as_fd()), Err(SealError::Unsealed)));
    let file = tempfile::tempfile().unwrap();
    assert!(unseal(file.as_fd()).is_err());
}

#[test]
fn programs_that_cannot_be_run_are_refused_at_once() {
    let plan = compile(&policy(Level::Full), &able()).unwrap();
    let mut bad = vec![payload(), payload(), payload(), payload()];
    bad[0].argv.clear();
    bad[1].argv.push("a\0b".into());
    bad[2].env.push(("A=B".into(), "c".into()));
    bad[3].cwd = PathBuf::new();
    for payload in bad {
        assert!(matches!(plan.seal(&payload), Err(SealError::BadPayload(_))));
    }
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", payload());
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
        let mut w = Writer::default();
        w.u16(PLAN_VERSION);
        put_steps(&mut w, &plan.steps);
        put_payload(&mut w, &payload());
        let bytes = w.finish();
        prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}
