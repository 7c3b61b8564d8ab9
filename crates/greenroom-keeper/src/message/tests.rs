//! Round trips, any bytes, limits.

use proptest::prelude::*;

use super::*;

fn id() -> impl Strategy<Value = SessionId> {
    any::<u64>().prop_map(SessionId)
}

fn worker() -> impl Strategy<Value = WorkerId> {
    any::<u64>().prop_map(WorkerId)
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
        (worker(), any::<bool>()).prop_map(|(id, watched)| ToKeeper::Work { id, watched }),
        worker().prop_map(|id| ToKeeper::EndWork { id }),
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
        |(numbers, last_exit, (workers, wardens))| {
            let (version, keeper_pid, keeper_started_unix_ms, generation, daemon_starts) = numbers;
            KeeperHello {
                version,
                keeper_pid,
                keeper_started_unix_ms,
                generation,
                daemon_starts,
                last_exit,
                workers,
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
            warden
        }),
        id().prop_map(|id| ToDaemon::Over { id }),
        (prop::collection::vec((id(), any::<i32>()), 0..=MAX_LIST), any::<bool>())
            .prop_map(|(wardens, more)| ToDaemon::Wardens { wardens, more }),
        (id(), prop::sample::select(&SpawnStep::ALL[..]), any::<i32>(), "[a-zü ]{0,50}")
            .prop_map(|(id, step, errno, why)| ToDaemon::SpawnFailed { id, step, errno, why }),
        id().prop_map(|id| ToDaemon::Listener { id }),
        (prop::collection::vec(entry(), 0..=MAX_LIST), any::<bool>())
            .prop_map(|(sessions, more)| ToDaemon::Sessions { sessions, more }),
        prop::collection::vec(id(), 0..=MAX_TAKE).prop_map(|ids| ToDaemon::Taken { ids }),
        (id(), status()).prop_map(|(id, status)| ToDaemon::Exited { id, status }),
        (id(), any::<i32>()).prop_map(|(id, errno)| ToDaemon::Signalled { id, errno }),
        prop::option::of("[a-zü ]{0,50}").prop_map(|why_not| ToDaemon::Replaced { why_not }),
        (worker(), any::<i32>(), any::<bool>()).prop_map(|(id, pid, listener)| ToDaemon::Working {
            id,
            pid,
            listener
        }),
        (worker(), prop::sample::select(&SpawnStep::ALL[..]), any::<i32>(), "[a-zü ]{0,50}")
            .prop_map(|(id, step, errno, why)| ToDaemon::WorkFailed { id, step, errno, why }),
        (worker(), status()).prop_map(|(id, status)| ToDaemon::WorkEnded { id, status }),
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
        let decoded = ToDaemon::decode(&bytes[..at.index(bytes.len())]);
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
        let _ = ToDaemon::decode(&bytes);
    }
}

#[test]
fn messages_of_a_version_before_sandboxes_are_understood() {
    let spawn = ToKeeper::Spawn { id: SessionId(7), with_cgroup: true, with_plan: false };
    let bytes = spawn.encode();
    assert_eq!(ToKeeper::decode(&bytes[..bytes.len() - 1]), Ok(spawn));
    let (id, step, errno) = (SessionId(7), SpawnStep::Cwd, 2);
    let failed = ToDaemon::SpawnFailed { id, step, errno, why: String::new() };
    let bytes = failed.encode();
    assert_eq!(ToDaemon::decode(&bytes[..bytes.len() - 4]), Ok(failed));
}

#[test]
fn counts_over_the_limit_are_refused_before_anything_is_read() {
    let mut bytes = 5_u16.to_le_bytes().to_vec();
    bytes.extend(u32::MAX.to_le_bytes());
    let error = ToKeeper::decode(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "id count is 4294967295, the limit is 60");
}

#[test]
fn an_unknown_kind_is_named() {
    assert_eq!(ToKeeper::decode(&[9, 9]), Err(DecodeError::UnknownKind(0x0909)));
    assert_eq!(ToDaemon::decode(&[9, 9, 1]), Err(DecodeError::UnknownKind(0x0909)));
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let message = ToDaemon::Replaced { why_not: Some("ü".repeat(MAX_REASON_BYTES)) };
    let Ok(ToDaemon::Replaced { why_not: Some(why) }) = ToDaemon::decode(&message.encode()) else {
        panic!("decodes");
    };
    assert_eq!(why, "ü".repeat(MAX_REASON_BYTES / 2));
}

#[test]
fn steps_keep_their_numbers() {
    for (number, step) in SpawnStep::ALL.into_iter().enumerate() {
        assert_eq!(step as usize, number, "{}", step.name());
    }
}
