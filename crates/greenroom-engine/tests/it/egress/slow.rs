//! A filter that is slower than its session: readers and waits get all of it, or are told how much
//! is missing.

use super::*;

/// A session that has read a line, beside a filter that does not answer yet.
async fn unanswered(stage: &Stage, script: &str) -> (SessionHandle, Arc<Guard>) {
    let guard = Arc::new(Guard::default());
    guard.closed.store(true, Ordering::SeqCst);
    let session = stage.engine.create(secret(script)).await.unwrap();
    session.govern(Some(guard.clone())).unwrap();
    session.write(None, b"\r").await.unwrap();
    (session, guard)
}

/// The whole recording as text, and whether it ends where nobody has answered yet.
async fn recorded(session: &SessionHandle) -> (String, bool) {
    let mut bytes = Vec::new();
    let recording = session.recording().await.unwrap();
    let withheld = recording.replay(&mut |_, some| {
        bytes.extend_from_slice(some.map_or(&[][..], |some| some.into_inner()));
        ControlFlow::Continue(())
    });
    (plain(&bytes), withheld.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_slow_filter_nothing_looks_complete_that_is_not() {
    let stage = Stage::new();
    let (session, guard) = unanswered(&stage, "read x; printf 'one\\ntwo\\n'").await;
    session.over().await;
    let tail = session.tail().await.unwrap();
    // What is missing is counted, and counting ends in time.
    let now = tokio::time::Instant::now();
    let behind = session.caught_up(Sink::Transcript, tail, now + Duration::from_millis(20)).await;
    assert_eq!(behind, tail.0);
    assert_eq!(recorded(&session).await, (String::new(), true));
    // The end of the program is seen without a picture; a text that nobody answered for is not
    // "ended first".
    let short = |matcher| WaitFor { matcher, timeout: Duration::from_millis(50), ..exit() };
    let matched = session.wait(short(Matcher::ProcessExited)).await.unwrap();
    assert!(matched.frame.is_none());
    // However long it could wait.
    assert!(session.wait(exit()).await.unwrap().frame.is_none());
    assert!(now.elapsed() < PATIENCE / 2, "{:?}", now.elapsed());
    let two = Matcher::TranscriptContains { text: "two".to_owned(), ignore_case: false };
    match session.wait(short(two.clone())).await {
        Err(WaitError::Timeout(seen)) => assert_eq!(seen.behind, tail.0),
        other => panic!("{:?}", other.err()),
    }
    // A reader that waits longer than the filter gets all of it, also after the end.
    let late = {
        let (session, two) = (session.clone(), two.clone());
        tokio::spawn(async move { session.wait(WaitFor { matcher: two, ..exit() }).await })
    };
    guard.closed.store(false, Ordering::SeqCst);
    guard.open.notify_waiters();
    guard.open.notify_one();
    assert!(late.await.unwrap().is_ok());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    assert_eq!(session.caught_up(Sink::Recording, tail, deadline).await, 0);
    let (text, withheld) = recorded(&session).await;
    assert!(text.ends_with("one\ntwo\n") && !withheld, "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_filter_is_free_when_it_is_taken_away() {
    let stage = Stage::new();
    let (session, guard) = unanswered(&stage, "read x; echo one; read x").await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let waiting = {
        let session = session.clone();
        tokio::spawn(async move { session.caught_up(Sink::Transcript, Seq(3), deadline).await })
    };
    while guard.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    session.govern(None).unwrap();
    assert_eq!(waiting.await.unwrap(), 0);
    assert!(tokio::time::Instant::now() < deadline);
}
