//! Connecting: nobody there, not yet there, no longer there.

use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use greenroom_client::{Client, Options, is_listening};

use crate::fake_host::{FakeHost, within};

#[tokio::test]
async fn a_missing_socket_is_told_at_once_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no.sock");
    let error = tokio::time::timeout(Duration::from_secs(5), Client::connect(&path))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("cannot reach the host at {}: ", path.display())),
        "{error}"
    );
    assert_eq!(error.exit(), 7);
    assert!(error.hint().is_some());
    assert!(!is_listening(&path).await);
}

#[tokio::test]
async fn a_dead_socket_is_tried_until_patience_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.sock");
    drop(StdListener::bind(&path).unwrap());
    assert!(!is_listening(&path).await);
    within(Client::connect_now(&path)).await.unwrap_err();
    let options = Options { patience: Duration::from_millis(20), ..Options::default() };
    within(Client::connect_with(&path, options)).await.unwrap_err();
}

#[tokio::test]
async fn a_host_that_comes_up_meanwhile_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("late.sock");
    drop(StdListener::bind(&path).unwrap());
    let connecting = tokio::spawn({
        let path = path.clone();
        async move { Client::connect(&path).await.is_ok() }
    });
    tokio::task::yield_now().await;
    // In the place of the dead one, in one step: the path is never missing.
    let fresh = dir.path().join("fresh.sock");
    let _listener = tokio::net::UnixListener::bind(&fresh).unwrap();
    std::fs::rename(&fresh, &path).unwrap();
    assert!(within(connecting).await.unwrap());
}

#[tokio::test]
async fn a_live_host_is_seen() {
    let host = FakeHost::new();
    assert!(is_listening(&host.path()).await);
    within(Client::connect_now(host.path())).await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_an_error() {
    let error = within(Client::connect(format!("/tmp/{}", "x".repeat(200)))).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot reach the host at /tmp/xxx"), "{error}");
}

#[tokio::test]
async fn a_client_is_one_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let _client = within(Client::connect_now(&path)).await.unwrap();
    assert!(listener.accept().is_ok());
    assert!(listener.accept().is_err(), "the second connection of one client");
}

#[tokio::test]
async fn a_path_too_long_for_an_address_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("x".repeat(60)).join("y".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("sock")).unwrap();
    std::fs::rename(dir.path().join("sock"), deep.join("sock")).unwrap();
    within(Client::connect_now(deep.join("sock"))).await.unwrap();
}
