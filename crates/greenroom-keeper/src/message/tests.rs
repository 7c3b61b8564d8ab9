//! Round trips, any bytes, limits.

use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn id() -> impl Strategy<Value = SessionId> {
    any::<u64>().prop_map(SessionId)
}

fn piped() -> impl Strategy<Value = PipedId> {
    any::<u64>().prop_map(PipedId)
}

fn status() -> impl Strategy<Value = ExitStatus> {
    prop_oneof![
        any::<i32>().prop_map(ExitStatus::Code),
        (any::<i32>(), any::<bool>())
            .prop_map(|(signo, core_dumped)| ExitStatus::Signal { signo, core_dumped }),
    ]
}

fn to_keeper() -> impl Strategy<Value = ToKeeper> {
    let target = prop_oneof![
        Just(SignalTarget::Leader),
        Just(SignalTarget::Group),
        Just(SignalTarget::Foreground),
    ];
    prop_oneof![
        (any::<u16>(), any::<i32>()).prop_map(|(version, pid)| ToKeeper::Hello { version, pid }),
        Just(ToKeeper::Ready),
        (id(), any::<bool>(), any::<bool>()).prop_map(|(id, with_cgroup, with_plan)| {
            ToKeeper::Spawn { id, with_cgroup, with_plan }
        }),
        Just(ToKeeper::List),
        prop::collection::vec(id(), 0..=MAX_TAKE).prop_map(|ids| ToKeeper::Take { ids }),
        (id(), any::<i32>(), target).prop_map(|(id, signo, to)| ToKeeper::Signal { id, signo, to }),
        id().prop_map(|id| ToKeeper::Release { id }),
        prop::collection::vec(any::<u8>(), 0..=MAX_PATH_BYTES).prop_map(|path| {
            ToKeeper::Replace { path: PathBuf::from(std::ffi::OsString::from_vec(path)) }
        }),
        Just(ToKeeper::Shutdown),
        (piped(), any::<bool>()).prop_map(|(id, watched)| ToKeeper::StartPiped { id, watched }),
        piped().prop_map(|id| ToKeeper::EndPiped { id }),
        Just(ToKeeper::Wardens),
        id().prop_map(|id| ToKeeper::End { id }),
    ]
}

fn entry() -> impl Strategy<Value = SessionEntry> {
    let state = prop_oneof![
        Just(SessionState::Starting),
        Just(SessionState::Running),
        status().prop_map(SessionState::Exited),
    ];
    (id(), any::<i32>(), state).prop_map(|(id, pid, state)| SessionEntry { id, pid, state })
}

fn hello() -> impl Strategy<Value = KeeperHello> {
    let last = prop::option::of(
        (status(), any::<u64>()).prop_map(|(status, lived_ms)| LastExit { status, lived_ms }),
    );
    (any::<(u16, i32, u64, u32, u32)>(), last, any::<(bool, bool)>()).prop_map(
        |(numbers, last_exit, (piped, wardens))| {
            let (version, keeper_pid, keeper_started_unix_ms, generation, daemon_starts) = numbers;
            KeeperHello {
                version,
                keeper_pid,
                keeper_started_unix_ms,
                generation,
                daemon_starts,
                last_exit,
                piped,
                wardens,
            }
        },
    )
}

fn to_daemon() -> impl Strategy<Value = ToDaemon> {
    prop_oneof![
        hello().prop_map(ToDaemon::Hello),
        (id(), any::<i32>(), any::<i32>()).prop_map(|(id, pid, warden)| ToDaemon::Spawned {
            id,
            pid,
            fds: (),
            warden
        }),
        id().prop_map(|id| ToDaemon::Over { id }),
        (prop::collection::vec((id(), any::<i32>()), 0..=MAX_LIST), any::<bool>())
            .prop_map(|(wardens, more)| ToDaemon::Wardens { wardens, more }),
        (id(), prop::sample::select(&SpawnStep::ALL[..]), any::<i32>(), "[a-zü ]{0,50}")
            .prop_map(|(id, step, errno, why)| ToDaemon::SpawnFailed { id, step, errno, why }),
        id().prop_map(|id| ToDaemon::Listener { id, listener: () }),
        (prop::collection::vec(entry(), 0..=MAX_LIST), any::<bool>())
            .prop_map(|(sessions, more)| ToDaemon::Sessions { sessions, more }),
        prop::collection::vec(id().prop_map(|id| (id, ())), 0..=MAX_TAKE)
            .prop_map(|sessions| ToDaemon::Taken { sessions }),
        (id(), status()).prop_map(|(id, status)| ToDaemon::Exited { id, status }),
        (id(), any::<i32>()).prop_map(|(id, errno)| ToDaemon::Signalled { id, errno }),
        prop::result::maybe_err(Just(()), "[a-zü ]{0,50}")
            .prop_map(|result| ToDaemon::Replaced { result }),
        (piped(), any::<i32>(), prop::option::of(Just(())))
            .prop_map(|(id, pid, listener)| ToDaemon::PipedStarted { id, pid, listener }),
        (piped(), prop::sample::select(&SpawnStep::ALL[..]), any::<i32>(), "[a-zü ]{0,50}")
            .prop_map(|(id, step, errno, why)| ToDaemon::PipedFailed { id, step, errno, why }),
        (piped(), status()).prop_map(|(id, status)| ToDaemon::PipedEnded { id, status }),
    ]
}

proptest! {
    #[test]
    fn what_the_daemon_says_comes_back(message in to_keeper(), later in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = message.encode();
        prop_assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        // A newer peer may add fields.
        bytes.extend(later);
        prop_assert_eq!(ToKeeper::decode(&bytes), Ok(message));
    }

    #[test]
    fn what_the_keeper_says_comes_back(message in to_daemon(), later in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = message.encode();
        prop_assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        bytes.extend(later);
        prop_assert_eq!(ToDaemon::decode(&bytes), Ok(message));
    }

    #[test]
    fn a_message_cut_anywhere_is_an_error(message in to_daemon(), at: prop::sample::Index) {
        let bytes = message.encode();
        let decoded = ToDaemon::<(), ()>::decode(&bytes[..at.index(bytes.len())]);
        // Where an older keeper's message ended, this one may be cut.
        let older = match &decoded {
            Ok(ToDaemon::SpawnFailed { why, .. }) => why.is_empty(),
            Ok(ToDaemon::Hello(hello)) => !hello.wardens,
            Ok(ToDaemon::Spawned { warden, .. }) => *warden == 0,
            _ => false,
        };
        prop_assert!(decoded.is_err() || older);
    }

    #[test]
    fn any_bytes_are_no_panic(kind in 0_u16..145, rest: Vec<u8>) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(rest);
        let _ = ToKeeper::decode(&bytes);
        let _ = ToDaemon::<(), ()>::decode(&bytes);
    }
}

#[test]
fn messages_of_a_version_before_sandboxes_are_understood() {
    let spawn = ToKeeper::Spawn { id: SessionId(7), with_cgroup: true, with_plan: false };
    let bytes = spawn.encode();
    assert_eq!(ToKeeper::decode(&bytes[..bytes.len() - 1]), Ok(spawn));
    let (id, step, errno) = (SessionId(7), SpawnStep::Cwd, 2);
    let failed: ToDaemon = ToDaemon::SpawnFailed { id, step, errno, why: String::new() };
    let bytes = failed.encode();
    assert_eq!(ToDaemon::decode(&bytes[..bytes.len() - 4]), Ok(failed));
}

#[test]
fn counts_over_the_limit_are_refused_before_anything_is_read() {
    let mut bytes = 5_u16.to_le_bytes().to_vec();
    bytes.extend(u32::MAX.to_le_bytes());
    let error = ToKeeper::decode(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "ids has the length 4294967295, the limit is 60");
}

#[test]
fn an_unknown_kind_is_named() {
    let (field, value) = (greenroom_sandbox::wire::KIND, 0x0909);
    assert_eq!(ToKeeper::decode(&[9, 9]), Err(WireError::BadValue { field, value }));
    assert_eq!(ToDaemon::<(), ()>::decode(&[9, 9, 1]), Ok(ToDaemon::Unknown { kind: 0x0909 }));
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    assert_eq!(reason("x".repeat(9)), "x".repeat(9));
    assert_eq!(reason(format!("x{}", "ü".repeat(MAX_REASON_BYTES))).len(), MAX_REASON_BYTES - 1);
}

#[test]
fn steps_keep_their_numbers() {
    for (number, step) in SpawnStep::ALL.into_iter().enumerate() {
        assert_eq!(step as usize, number, "{}", step.name());
    }
}

/// A keeper or a daemon of another build reads these bytes.
#[test]
fn messages_lie_on_the_wire_as_they_always_did() {
    let status = ExitStatus::Signal { signo: 9, core_dumped: true };
    let id = SessionId(7);
    let told: [(ToDaemon, &str); 6] = [
        (
            ToDaemon::Spawned { id, pid: 3, fds: (), warden: 2 },
            "8200 0700000000000000 03000000 02000000",
        ),
        (ToDaemon::Taken { sessions: vec![(id, ())] }, "8500 01000000 0700000000000000"),
        (ToDaemon::Exited { id, status }, "8600 0700000000000000 03 09000000"),
        (ToDaemon::Replaced { result: Ok(()) }, "8800 01 00000000"),
        (ToDaemon::Replaced { result: Err("no".into()) }, "8800 00 02000000 6e6f"),
        (
            ToDaemon::PipedStarted { id: PipedId(1), pid: 3, listener: Some(()) },
            "8a00 0100000000000000 03000000 01",
        ),
    ];
    for (message, expected) in told {
        let hex: String = message.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""), "{message:?}");
    }
}
