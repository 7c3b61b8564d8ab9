//! Round trips through a memfd, any bytes, what is refused.

use std::os::fd::AsFd;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn example() -> SpawnSpec {
    let launch = Launch::new(vec!["sh".into()], vec![("A".into(), "1".into())], "/", 80, 24);
    SpawnSpec { launch, ring_bytes: 69_632, flags: 0 }
}

proptest! {
    #[test]
    fn a_spec_comes_back(
        program in prop::collection::vec(1_u8.., 1..30),
        args in prop::collection::vec(prop::collection::vec(1_u8.., 0..30), 0..8),
        env in prop::collection::vec(("[A-Z_%]{1,9}", prop::collection::vec(1_u8.., 0..30)), 0..8),
        cwd in prop::collection::vec(1_u8.., 1..30),
        (cols, rows) in (1_u16.., 1_u16..),
        ring_bytes in MIN_RING_BYTES..=MAX_RING_BYTES,
    ) {
        let argv = [vec![program], args].concat().into_iter().map(OsString::from_vec).collect();
        let env = env.into_iter().map(|(name, value)| (name.into(), OsString::from_vec(value)));
        let cwd = OsString::from_vec(cwd);
        let launch = Launch::new(argv, env.collect(), cwd, cols, rows);
        let spec = SpawnSpec { launch, ring_bytes, flags: 0 };
        let memfd = spec.to_memfd().unwrap();
        prop_assert_eq!(SpawnSpec::from_memfd(memfd.as_fd()).unwrap(), spec);
    }

    #[test]
    fn any_bytes_are_no_panic(rest: Vec<u8>) {
        let mut bytes = SPEC_VERSION.to_le_bytes().to_vec();
        bytes.extend(rest);
        let _ = SpawnSpec::decode(&bytes);
    }

    #[test]
    fn a_cut_spec_is_an_error(at: prop::sample::Index) {
        let bytes = example().encode();
        prop_assert!(SpawnSpec::decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}

#[track_caller]
fn refused(change: impl FnOnce(&mut SpawnSpec), expected: &str) {
    let mut spec = example();
    change(&mut spec);
    assert_eq!(spec.to_memfd().unwrap_err().to_string(), expected);
}

#[test]
fn what_no_program_could_be_given_is_refused() {
    let bad = " in the spawn spec is empty, or holds a NUL byte or a misplaced '='";
    let (argv, env) = (format!("the argument list{bad}"), format!("the environment{bad}"));
    refused(|it| it.launch.argv.clear(), &argv);
    refused(|it| it.launch.argv[0].clear(), &argv);
    refused(|it| it.launch.argv.push("a\0b".into()), &argv);
    refused(|it| it.launch.cwd = "".into(), &format!("the working directory{bad}"));
    refused(|it| it.launch.env[0].0 = "A=B".into(), &env);
    refused(|it| it.launch.env[0].1 = "\0".into(), &env);
    refused(|it| it.ring_bytes = 1, "the ring size in the spawn spec is 1");
    refused(|it| it.ring_bytes = u32::MAX, "the ring size in the spawn spec is 4294967295");
    refused(|it| it.launch.cols = 0, "cols in the spawn spec is 0");
    refused(|it| it.flags = 4, "flags in the spawn spec is 4");
    let huge = |it: &mut SpawnSpec| it.launch.argv.push("x".repeat(MAX_SPEC_BYTES).into());
    refused(huge, "the spawn spec is 4194351 bytes, the limit is 4194304");
}

#[test]
fn debug_hides_arguments_and_environment() {
    let mut spec = example();
    spec.launch.argv.push("s3cret".into());
    spec.launch.env.push(("TOKEN".into(), "s3cret".into()));
    let text = format!("{spec:?}");
    assert!(text.contains("variables: 2"), "{text}");
    assert!(!text.contains("115") && !text.contains("s3cret"), "{text}");
}

#[test]
fn a_sealed_spec_cannot_change() {
    let memfd = example().to_memfd().unwrap();
    assert!(rustix::io::write(&memfd, b"x").is_err());
    assert!(rustix::fs::ftruncate(&memfd, 1).is_err());
}
