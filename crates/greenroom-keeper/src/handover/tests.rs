//! Round trips, any bytes, other versions.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;
use crate::message::PipedId;

fn os() -> impl Strategy<Value = OsString> {
    prop::collection::vec(any::<u8>(), 0..60).prop_map(OsString::from_vec)
}

fn fd() -> impl Strategy<Value = RawFd> {
    0..100_000_i32
}

fn session() -> impl Strategy<Value = HeldSession> {
    let exit = prop::option::of(any::<i32>().prop_map(ExitStatus::Code));
    let fds = ([fd(), fd(), fd(), fd()], [(); 3].map(|()| prop::option::of(fd())));
    let held = (any::<bool>(), prop::option::of((1..i32::MAX, any::<u64>())));
    (any::<u64>(), any::<i32>(), held, fds, exit).prop_map(
        |(id, pid, (held, program), (fds, more), exit)| HeldSession {
            id: SessionId(id),
            pid,
            program: program.map(|(pid, start_time)| Process { pid, start_time }),
            held,
            fds,
            status_fd: more[0],
            exit,
            inner_fd: more[1],
            listener_fd: more[2],
        },
    )
}

fn piped() -> impl Strategy<Value = HeldPiped> {
    any::<(u64, i32, bool)>().prop_map(|(id, pid, watched)| HeldPiped {
        id: PipedId(id),
        pid,
        watched,
    })
}

fn handover() -> impl Strategy<Value = Handover> {
    let places = (os(), os(), os(), os(), prop::collection::vec(os(), 0..5));
    let limits = (prop::option::of(0..u64::MAX), prop::option::of(0..u64::MAX));
    let held = (fd(), fd(), prop::option::of(fd()), prop::option::of(fd()));
    let last = prop::option::of(any::<(i32, u64)>());
    let numbers = any::<(u32, u64, bool, u32, u32, bool)>();
    let running = prop::option::of((1..i32::MAX, any::<u64>()));
    let sessions = prop::collection::vec(session(), 0..20);
    let warden = any::<(u64, i32)>().prop_map(|(id, pid)| (SessionId(id), pid));
    let wardens = prop::collection::vec(warden, 0..9);
    let reports = prop::option::of((fd(), fd()));
    let held_all =
        (sessions, prop::collection::vec(piped(), 0..9), wardens, reports, any::<bool>());
    (places, limits, held, last, numbers, running, held_all).prop_map(
        |(places, nofile, held, last, numbers, running, all)| Handover {
            generation: numbers.0,
            started_unix_ms: numbers.1,
            foreground: numbers.2,
            socket: places.0,
            lock: places.1,
            log: places.2,
            daemon_log: places.3,
            daemon: places.4,
            nofile,
            lock_fd: held.0,
            listener_fd: held.1,
            link_fd: held.2,
            ready_fd: held.3,
            running,
            starts: numbers.3,
            last_exit: last.map(|(signo, lived_ms)| LastExit {
                status: ExitStatus::Signal { signo, core_dumped: true },
                lived_ms,
            }),
            young_deaths: numbers.4,
            ever_ready: numbers.5,
            // Without sessions nothing of this is said.
            reports: all.3.filter(|_| !all.0.is_empty() || !all.2.is_empty()),
            strays_tolerated: all.4 && (!all.0.is_empty() || !all.2.is_empty()),
            sessions: all.0,
            piped: all.1,
            wardens: all.2,
        },
    )
}

/// As an image before wardens would have left it.
fn without_wardens(handover: &mut Handover) {
    for session in &mut handover.sessions {
        (session.held, session.program) = (false, None);
    }
    handover.wardens.clear();
    handover.reports = None;
    // Their orphans are the keeper's children, and live on.
    handover.strays_tolerated = !handover.sessions.is_empty();
}

proptest! {
    #[test]
    fn the_state_comes_back(handover in handover()) {
        let memfd = handover.to_memfd().unwrap();
        let read = Handover::from_memfd(memfd.as_fd()).unwrap();
        prop_assert_eq!(&read, &handover);
        let sessions = &handover.sessions;
        let more = |it: &HeldSession| [it.status_fd, it.inner_fd, it.listener_fd];
        let status = sessions.iter().flat_map(more).flatten().count();
        let reports = 2 * handover.reports.iter().count();
        let others =
            2 + reports + handover.link_fd.iter().count() + handover.ready_fd.iter().count();
        prop_assert_eq!(read.fds().len(), others + 4 * sessions.len() + status);
    }

    /// An image before sandboxes can be replaced by this one.
    #[test]
    fn the_state_of_version_1_is_read(mut handover in handover()) {
        for session in &mut handover.sessions {
            (session.inner_fd, session.listener_fd) = (None, None);
        }
        handover.piped.clear();
        without_wardens(&mut handover);
        prop_assert_eq!(Handover::decode(&handover.encode_as(1)), Ok(handover));
    }

    /// And one before piped programs.
    #[test]
    fn the_state_of_version_2_is_read(mut handover in handover()) {
        handover.piped.clear();
        without_wardens(&mut handover);
        prop_assert_eq!(Handover::decode(&handover.encode_as(2)), Ok(handover));
    }

    /// And one before wardens.
    #[test]
    fn the_state_of_version_3_is_read(mut handover in handover()) {
        without_wardens(&mut handover);
        prop_assert_eq!(Handover::decode(&handover.encode_as(3)), Ok(handover));
    }

    #[test]
    fn any_bytes_are_no_panic(rest: Vec<u8>) {
        let mut bytes = HANDOVER_VERSION.to_le_bytes().to_vec();
        bytes.extend(rest);
        let _ = Handover::decode(&bytes);
    }

    #[test]
    fn a_cut_state_is_an_error(handover in handover(), at: prop::sample::Index) {
        let bytes = handover.encode();
        prop_assert!(Handover::decode(&bytes[..at.index(bytes.len())]).is_err());
    }
}

#[test]
fn another_version_is_refused() {
    let error = Handover::decode(&9_u16.to_le_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "version 9 of the keeper's state, this build reads 4");
}
