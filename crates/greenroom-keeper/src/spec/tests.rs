//! Round trips through a memfd, any bytes, what is refused.

use proptest::prelude::*;

use super::*;

fn example() -> SpawnSpec {
    SpawnSpec {
        argv: vec![b"sh".to_vec()],
        env: vec![(b"A".to_vec(), b"1".to_vec())],
        cwd: b"/".to_vec(),
        cols: 80,
        rows: 24,
        ring_bytes: 69_632,
        flags: 0,
    }
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
        let mut argv = vec![program];
        argv.extend(args);
        let env = env.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
        let spec = SpawnSpec { argv, env, cwd, cols, rows, ring_bytes, flags: 0 };
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
    refused(|it| it.argv.clear(), "the spawn spec has no program");
    refused(|it| it.argv[0].clear(), "the spawn spec has no program");
    refused(|it| it.cwd.clear(), "the spawn spec has no working directory");
    let nul = " in the spawn spec holds a NUL byte or a misplaced '='";
    refused(|it| it.argv.push(b"a\0b".to_vec()), &format!("argv{nul}"));
    refused(|it| it.env[0].0 = b"A=B".to_vec(), &format!("the environment{nul}"));
    refused(|it| it.env[0].1 = b"\0".to_vec(), &format!("the environment{nul}"));
    refused(|it| it.ring_bytes = 1, "the ring size in the spawn spec is 1");
    refused(|it| it.ring_bytes = u32::MAX, "the ring size in the spawn spec is 4294967295");
    refused(|it| it.cols = 0, "cols in the spawn spec is 0");
    refused(|it| it.flags = 4, "flags in the spawn spec is 4");
    let huge = |it: &mut SpawnSpec| it.argv.push(vec![b'x'; MAX_SPEC_BYTES]);
    refused(huge, "the spawn spec is 4194351 bytes, the limit is 4194304");
}

#[test]
fn debug_hides_arguments_and_environment() {
    let mut spec = example();
    spec.argv.push(b"s3cret".to_vec());
    spec.env.push((b"TOKEN".to_vec(), b"s3cret".to_vec()));
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
