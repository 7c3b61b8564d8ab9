//! What is refused before anything is bound.

use super::*;

fn private() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
    dir
}

#[test]
fn a_path_too_long_for_the_system_is_said_so() {
    let dir = private();
    let socket = dir.path().join("x".repeat(120));
    let error = listen(&dir.path().join("lock"), &socket).err().unwrap();
    let text = error.to_string();
    assert!(text.ends_with("the system allows 107: set a shorter GREENROOM_HOME"), "{text}");
    assert!(!dir.path().join("lock").exists());
}

#[test]
fn a_directory_open_to_others_is_refused() {
    let dir = private();
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o750)).unwrap();
    let error = listen(&open.join("lock"), &open.join("sock")).err().unwrap();
    assert!(matches!(error, ListenError::OpenDirectory { mode: 0o750, .. }));
}

#[test]
fn a_plain_file_in_the_way_stays() {
    let dir = private();
    let socket = dir.path().join("sock");
    std::fs::write(&socket, "precious").unwrap();
    let error = listen(&dir.path().join("lock"), &socket).err().unwrap();
    assert!(matches!(error, ListenError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn a_lock_is_held_once_and_names_its_holder() {
    let dir = private();
    let (lock, socket) = (dir.path().join("lock"), dir.path().join("sock"));
    let first = listen(&lock, &socket).unwrap();
    let error = listen(&lock, &socket).err().unwrap();
    let expected =
        format!("another keeper (pid {}) already holds {}", std::process::id(), lock.display());
    assert_eq!(error.to_string(), expected);
    // Free again, with a dead socket left behind.
    drop(first);
    listen(&lock, &socket).unwrap();
}
