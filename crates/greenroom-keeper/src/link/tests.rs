//! Datagrams and fds over a real socket pair, with peers that misbehave.

use std::os::fd::AsRawFd;

use super::*;
use crate::message::ToDaemon;

fn pair() -> (Endpoint, KeeperLink) {
    let (keeper, daemon) = Endpoint::pair().unwrap();
    (keeper, KeeperLink::new(daemon).unwrap())
}

fn say(keeper: &Endpoint, message: &ToDaemon, fds: usize) {
    let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let fds = vec![file.as_fd(); fds];
    keeper.send(&message.encode(), &fds, SendFlags::empty()).unwrap();
}

fn taken(count: usize) -> ToDaemon {
    ToDaemon::Taken { sessions: (0..count as u64).map(|id| (SessionId(id), ())).collect() }
}

#[test]
fn the_largest_take_fits_one_message_and_its_fds_are_cloexec() {
    let (keeper, daemon) = pair();
    say(&keeper, &taken(MAX_TAKE), MAX_FDS);
    let Some(KeeperEvent::Taken { sessions }) = daemon.recv().unwrap() else {
        panic!("expected taken");
    };
    assert_eq!(sessions.len(), MAX_TAKE);
    for (_, fds) in sessions {
        let flags = rustix::io::fcntl_getfd(&fds.ring).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn a_wrong_number_of_fds_is_an_error_and_leaks_none() {
    let (keeper, daemon) = pair();
    for (sessions, fds) in [(1, 0), (1, 3), (1, 5), (0, 1)] {
        say(&keeper, &taken(sessions), fds);
        let error = daemon.recv().unwrap_err();
        assert!(matches!(error, LinkError::FdCount { got, .. } if got == fds));
    }
    say(&keeper, &taken(0), 0);
    assert!(daemon.recv().unwrap().is_some(), "the link goes on");
}

#[test]
fn unknown_kinds_and_malformed_messages_are_told_apart() {
    let (keeper, daemon) = pair();
    keeper.send(&[0xaa, 0xbb, 1], &[], SendFlags::empty()).unwrap();
    let event = daemon.recv().unwrap();
    assert!(matches!(event, Some(KeeperEvent::Unknown { kind: 0xbbaa })));
    keeper.send(&[130, 0, 1], &[], SendFlags::empty()).unwrap();
    assert!(matches!(daemon.recv(), Err(LinkError::Malformed(_))));
    let long = vec![0; MAX_MESSAGE_BYTES + 1];
    keeper.send(&long, &[], SendFlags::empty()).unwrap();
    assert!(matches!(daemon.recv(), Err(LinkError::Truncated)));
}

#[test]
fn the_end_is_no_error() {
    let (keeper, daemon) = pair();
    daemon.ready().unwrap();
    drop(keeper);
    assert!(daemon.recv().unwrap().is_none());
    assert!(matches!(daemon.ready(), Err(LinkError::Io { step: "send", .. })));
}

#[test]
fn only_a_seqpacket_socket_is_a_link() {
    let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let number = file.as_raw_fd();
    let error = KeeperLink::new(file).unwrap_err();
    assert!(matches!(error, LinkError::NotALink(it) if it == number));
}

#[test]
fn a_take_over_the_limit_is_refused_here() {
    let (_keeper, daemon) = pair();
    let ids = vec![SessionId(1); MAX_TAKE + 1];
    assert!(matches!(daemon.take(&ids), Err(LinkError::TakeTooLarge { count: 61 })));
}

#[test]
fn one_thread_receives_while_another_sends() {
    fn shared<T: Send + Sync>() {}
    shared::<KeeperLink>();
    let (keeper, daemon) = pair();
    let sender = daemon.try_clone().unwrap();
    let receiving = std::thread::spawn(move || daemon.recv().unwrap().is_some());
    sender.list().unwrap();
    let (bytes, _) = keeper.recv(RecvFlags::empty()).unwrap().unwrap();
    assert_eq!(ToKeeper::decode(&bytes), Ok(ToKeeper::List));
    say(&keeper, &taken(0), 0);
    assert!(receiving.join().unwrap());
}
