//! What is bound, what is refused before that, and the second way.

use std::os::unix::net::UnixListener;

use super::*;

fn seat(dir: &Path) -> Seat {
    let run = dir.join("run");
    Seat {
        state: dir.join("state"),
        lock: run.join("lock"),
        socket: run.join("sock"),
        alias: None,
        elders: Vec::new(),
    }
}

#[test]
fn a_path_too_long_for_an_address_is_bound_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut seat = seat(dir.path());
    let deep = dir.path().join("x".repeat(60)).join("y".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    seat.socket = deep.join("run/sock");
    let door = Door::open(&seat).unwrap();
    assert!(door.is_reachable(&seat.socket));
    connect(&seat.socket).unwrap();
    let error = Door::open(&seat).err().unwrap();
    assert!(matches!(error, ListenError::Live { .. }), "{error}");
    drop(door);
    Door::open(&seat).unwrap();
}

#[test]
fn a_plain_file_in_the_way_stays() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    private_directory(&seat.socket).unwrap();
    std::fs::write(&seat.socket, "precious").unwrap();
    let error = Door::open(&seat).err().unwrap();
    assert!(matches!(error, ListenError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&seat.socket).unwrap(), "precious");
    move_aside(&seat.socket);
    let door = Door::open(&seat).unwrap();
    let aside = dir.path().join("run/sock.aside");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "precious");
    std::fs::remove_file(&seat.socket).unwrap();
    assert!(!door.is_reachable(&seat.socket));
}

#[test]
fn a_socket_that_is_not_this_one_is_not_reachable() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    let door = Door::open(&seat).unwrap();
    std::fs::remove_file(&seat.socket).unwrap();
    let _other = UnixListener::bind(&seat.socket).unwrap();
    assert!(!door.is_reachable(&seat.socket));
}

#[test]
fn the_second_way_leads_to_the_socket_and_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    let _door = Door::open(&seat).unwrap();
    let alias = dir.path().join("login/greenroom/sock");
    assert!(lead(&alias, &seat.socket).unwrap());
    assert!(!lead(&alias, &seat.socket).unwrap(), "nothing to do");
    connect(&alias).unwrap();
    std::fs::remove_dir_all(dir.path().join("login")).unwrap();
    assert!(lead(&alias, &seat.socket).unwrap());
    connect(&alias).unwrap();
    // A dead socket of an earlier version gives way.
    std::fs::remove_file(&alias).unwrap();
    drop(UnixListener::bind(&alias).unwrap());
    assert!(lead(&alias, &seat.socket).unwrap());
    connect(&alias).unwrap();
    unlead(&alias, Path::new("/another"));
    assert!(alias.exists());
    unlead(&alias, &seat.socket);
    assert!(!alias.exists());
}

#[test]
fn what_is_somebody_elses_stays() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    let alias = dir.path().join("login/greenroom/sock");
    private_directory(&alias).unwrap();
    let live = UnixListener::bind(&alias).unwrap();
    lead(&alias, &seat.socket).unwrap();
    assert!(std::fs::symlink_metadata(&alias).unwrap().file_type().is_socket());
    drop(live);
    std::fs::remove_file(&alias).unwrap();
    std::fs::write(&alias, "a file").unwrap();
    lead(&alias, &seat.socket).unwrap();
    assert_eq!(std::fs::read_to_string(&alias).unwrap(), "a file");
    if rustix::process::geteuid().is_root() {
        std::fs::remove_file(&alias).unwrap();
        let login = dir.path().join("login/greenroom");
        std::os::unix::fs::chown(&login, Some(65534), None).unwrap();
        assert!(!lead(&alias, &seat.socket).unwrap());
        assert_eq!(std::fs::read_dir(login).unwrap().count(), 1, "only the token's link of before");
    }
}
