//! What is bound, what is refused before that, and the second way.

use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn a_path_too_long_for_an_address_is_bound_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = KeeperPaths::below(dir.path());
    let deep = dir.path().join("x".repeat(60)).join("y".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    paths.socket = deep.join("run/sock");
    let bound = BoundSocket::open(&paths).unwrap();
    assert!(bound.is_reachable(&paths.socket));
    connect(&paths.socket).unwrap();
    let error = BoundSocket::open(&paths).err().unwrap();
    assert!(matches!(error, ListenError::Live { .. }), "{error}");
    drop(bound);
    BoundSocket::open(&paths).unwrap();
}

#[test]
fn a_plain_file_in_the_way_stays() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    private_directory(&paths.socket).unwrap();
    std::fs::write(&paths.socket, "precious").unwrap();
    let error = BoundSocket::open(&paths).err().unwrap();
    assert!(matches!(error, ListenError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&paths.socket).unwrap(), "precious");
    move_aside(&paths.socket);
    let bound = BoundSocket::open(&paths).unwrap();
    let aside = dir.path().join("run/sock.aside");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "precious");
    std::fs::remove_file(&paths.socket).unwrap();
    assert!(!bound.is_reachable(&paths.socket));
}

#[test]
fn a_socket_that_is_not_this_one_is_not_reachable() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    let bound = BoundSocket::open(&paths).unwrap();
    std::fs::remove_file(&paths.socket).unwrap();
    let _other = UnixListener::bind(&paths.socket).unwrap();
    assert!(!bound.is_reachable(&paths.socket));
}

#[test]
fn the_second_way_leads_to_the_socket_and_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    let _bound = BoundSocket::open(&paths).unwrap();
    let alias = dir.path().join("login/greenroom/sock");
    assert!(make_alias(&alias, &paths.socket).unwrap());
    assert!(!make_alias(&alias, &paths.socket).unwrap(), "nothing to do");
    connect(&alias).unwrap();
    std::fs::remove_dir_all(dir.path().join("login")).unwrap();
    assert!(make_alias(&alias, &paths.socket).unwrap());
    connect(&alias).unwrap();
    // A dead socket of an earlier version gives way.
    std::fs::remove_file(&alias).unwrap();
    drop(UnixListener::bind(&alias).unwrap());
    assert!(make_alias(&alias, &paths.socket).unwrap());
    connect(&alias).unwrap();
    remove_alias(&alias, Path::new("/another"));
    assert!(alias.exists());
    remove_alias(&alias, &paths.socket);
    assert!(!alias.exists());
}

#[test]
fn what_is_somebody_elses_stays() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    let alias = dir.path().join("login/greenroom/sock");
    private_directory(&alias).unwrap();
    let live = UnixListener::bind(&alias).unwrap();
    make_alias(&alias, &paths.socket).unwrap();
    assert!(std::fs::symlink_metadata(&alias).unwrap().file_type().is_socket());
    drop(live);
    std::fs::remove_file(&alias).unwrap();
    std::fs::write(&alias, "a file").unwrap();
    make_alias(&alias, &paths.socket).unwrap();
    assert_eq!(std::fs::read_to_string(&alias).unwrap(), "a file");
    if rustix::process::geteuid().is_root() {
        std::fs::remove_file(&alias).unwrap();
        let login = dir.path().join("login/greenroom");
        std::os::unix::fs::chown(&login, Some(65534), None).unwrap();
        assert!(!make_alias(&alias, &paths.socket).unwrap());
        assert_eq!(std::fs::read_dir(login).unwrap().count(), 1, "only the token's link of before");
    }
}
