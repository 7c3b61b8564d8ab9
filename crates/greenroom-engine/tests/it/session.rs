//! Sessions on real PTYs, through the handle only.

use std::time::Duration;

use greenroom_engine::egress::Secrets;
use greenroom_engine::process::ExitStatus;
use greenroom_engine::session::{Ladder, Push, SubscriberKind};
use greenroom_engine::wait::{Matcher, Outcome, WaitError, WaitFor, pattern};
use greenroom_engine::{EngineError, Seq, SessionHandle, SessionState};
use greenroom_term::{KeyPress, Screen, Size};

use crate::stage::{PATIENCE, Stage, run, spec};

fn text(text: &str) -> WaitFor {
    until(Matcher::ContainsText { text: text.to_owned(), ignore_case: false })
}

fn until(matcher: Matcher) -> WaitFor {
    WaitFor { matcher, since: None, timeout: PATIENCE, secrets: Secrets::Masked }
}

async fn screen(session: &SessionHandle) -> String {
    let (frame, _) = session.frame().await.unwrap();
    greenroom_engine::wait::frame_text(frame.get())
}

async fn exit_of(session: &SessionHandle) -> ExitStatus {
    let matched = session.wait(until(Matcher::ProcessExited)).await.unwrap();
    match matched.outcome.into_inner() {
        Outcome::ProcessExited { status: Some(status) } => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn typing_is_echoed_and_read_back() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("cat").await;
        session.write(None, b"hello\r").await.unwrap();
        session.wait(text("hello\nhello")).await.unwrap();
        let page = session.output(Seq(0), 1 << 20).await.unwrap();
        assert_eq!(page.bytes.get(), b"hello\r\nhello\r\n");
        assert_eq!((page.next, page.dropped), (Seq(14), 0));
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn last_words_and_status_are_kept() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("printf 'bye\\n'; exit 7").await;
        assert_eq!(exit_of(&session).await, ExitStatus::Code(7));
        assert_eq!(screen(&session).await, "bye");
        assert!(matches!(session.info().state, SessionState::Exited { .. }));
        let refused = session.write(None, b"x").await;
        assert!(matches!(refused, Err(EngineError::Ended { .. })), "{refused:?}");
        stage.engine.remove(session.id()).await.unwrap();
        assert!(!stage.processes.holds(session.id()));
        assert!(stage.engine.find("s1").is_err());
        let facts = stage.events.facts().join("\n");
        assert!(facts.contains("Exited { status: Code(7)"), "{facts}");
    });
}

#[test]
fn a_wait_ends_with_the_session() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("read line; exit 3").await;
        let waiting = {
            let session = session.clone();
            tokio::spawn(async move { session.wait(text("never")).await })
        };
        session.write(None, b"\r").await.unwrap();
        let ended = waiting.await.unwrap();
        assert!(matches!(ended, Err(WaitError::Ended { status: ExitStatus::Code(3), .. })));
    });
}

#[test]
fn a_timeout_carries_what_was_there() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("printf 'Do you want to proceed?'; cat").await;
        session.wait(text("proceed")).await.unwrap();
        let wait = WaitFor { timeout: Duration::from_millis(30), ..text("want to continue") };
        let Err(WaitError::Timeout(evidence)) = session.wait(wait).await else { panic!() };
        assert_eq!(evidence.last_text.get(), "Do you want to proceed?");
        assert_eq!(evidence.nearest.as_ref().unwrap().get(), "Do you want to proceed?");
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn transcript_matchers_see_what_scrolled_by() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("echo needle-41; seq 1 500; cat").await;
        session.wait(text("500")).await.unwrap();
        let seen = session
            .wait(until(Matcher::TranscriptRegex(pattern("needle-([0-9]+)", false).unwrap())))
            .await
            .unwrap();
        let Outcome::TranscriptRegex { capture, .. } = seen.outcome.into_inner() else { panic!() };
        assert_eq!(capture, "41");
        session.write(None, b"later\r").await.unwrap();
        let later = Matcher::TranscriptContains { text: "LATER".into(), ignore_case: true };
        session.wait(until(later)).await.unwrap();
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn stability_counts_from_before_the_wait() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("echo up; cat").await;
        session.wait(text("up")).await.unwrap();
        let stable = |ms| until(Matcher::ScreenStable { min: Duration::from_millis(ms) });
        session.wait(stable(120)).await.unwrap();
        // The screen was still for 120 ms already: this one looks once and need not wait.
        let once = WaitFor { timeout: Duration::ZERO, ..stable(100) };
        session.wait(once).await.unwrap();
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn snapshot_and_subscription_are_one_act() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("seq 1 200000; sleep 0.3; echo done; cat").await;
        let size = Size::new(80, 24).unwrap();
        let mut viewer =
            session.subscribe(SubscriberKind::Viewer { size, read_only: true }).await.unwrap();
        let mut mirror = Screen::new(size);
        let mut at = None;
        while !mirror.text().contains("done") {
            match viewer.next().await.unwrap() {
                Push::Keyframe { seq, size, bytes } => {
                    mirror = Screen::restore(size, bytes.get());
                    at = Some(seq);
                }
                Push::Output { seq, bytes } => {
                    assert_eq!(Some(seq), at, "a gap or an overlap");
                    mirror.feed(bytes.get());
                    at = Some(seq.plus(bytes.get().len() as u64));
                }
                _ => {}
            }
        }
        let (frame, _) = session.frame().await.unwrap();
        assert_eq!(frame.get().rows, mirror.frame().rows);
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn a_subscriber_that_stops_reading_changes_nothing() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("read go; seq 1 300000; echo end-of-it; cat").await;
        let size = Size::new(80, 24).unwrap();
        let mut stuck =
            session.subscribe(SubscriberKind::Viewer { size, read_only: true }).await.unwrap();
        let mut stream = session.subscribe(SubscriberKind::Stream).await.unwrap();
        session.write(None, b"\r").await.unwrap();
        session.wait(text("end-of-it")).await.unwrap();
        // It reads again: first what was queued, then a fresh picture.
        let mut last_keyframe = None;
        let mut tail = Seq(0);
        while last_keyframe.is_none() || tail < session.change().seq {
            match stuck.next().await.unwrap() {
                Push::Keyframe { seq, bytes, .. } => {
                    tail = seq;
                    last_keyframe = Some(bytes);
                }
                Push::Output { seq, bytes } => tail = seq.plus(bytes.get().len() as u64),
                _ => {}
            }
        }
        let mirror = Screen::restore(size, last_keyframe.unwrap().get());
        assert!(mirror.text().contains("end-of-it"), "{}", mirror.text());
        // A stream is told exactly what it missed.
        let mut at = stream.start;
        while at < session.change().seq {
            match stream.next().await.unwrap() {
                Push::Output { seq, bytes } => {
                    assert_eq!(seq, at);
                    at = seq.plus(bytes.get().len() as u64);
                }
                Push::Lagged { from, to } => {
                    assert_eq!(from, at);
                    at = to;
                }
                _ => {}
            }
        }
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn no_reader_sees_half_a_synchronized_frame() {
    run(async {
        let stage = Stage::new();
        let script = r"printf '\033[?2026hhalf'; read go; printf ' whole\033[?2026l'; cat";
        let session = stage.sh(script).await;
        let mut changes = session.changes();
        changes.wait_for(|change| change.seq >= Seq(12)).await.unwrap();
        let reading = {
            let session = session.clone();
            tokio::spawn(async move { screen(&session).await })
        };
        session.write(None, b"\r").await.unwrap();
        let seen = reading.await.unwrap();
        assert!(seen.contains("whole"), "{seen:?}");
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn the_last_typist_owns_the_size() {
    run(async {
        let stage = Stage::new();
        let session =
            stage.sh("trap 'stty size' WINCH; echo ready; while :; do read line; done").await;
        session.wait(text("ready")).await.unwrap();
        let viewer = |cols, rows| {
            let size = Size::new(cols, rows).unwrap();
            session.subscribe(SubscriberKind::Viewer { size, read_only: false })
        };
        let first = viewer(100, 30).await.unwrap();
        session.wait(text("30 100")).await.unwrap();
        let second = viewer(90, 20).await.unwrap();
        assert_eq!(session.info().record.size, Size::new(100, 30).unwrap());
        session.write(Some(second.client), b"\r").await.unwrap();
        session.wait(text("20 90")).await.unwrap();
        drop(second);
        session.wait(text("30 100\n")).await.unwrap();
        assert_eq!(session.info().clients, 1);
        drop(first);
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn keys_follow_the_terminals_modes() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh(r"stty raw -echo; printf '\033[?1hok'; exec od -An -c").await;
        session.wait(text("ok")).await.unwrap();
        let keys: Vec<KeyPress> =
            ["up", "up", "up", "up", "up", "a"].map(|k| k.parse().unwrap()).into();
        session.press(None, &keys).await.unwrap();
        session
            .wait(until(Matcher::ScreenRegex(pattern(r"033 +O +A +033 +O +A", false).unwrap())))
            .await
            .unwrap();
        session.kill(Ladder { signal: Some(9), ..Ladder::default() }).await.unwrap();
    });
}

#[test]
fn a_program_that_reads_nothing_is_told_of() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("stty raw -echo; echo deaf; exec sleep 1000").await;
        session.wait(text("deaf")).await.unwrap();
        let mut refused = None;
        for _ in 0..40 {
            if let Err(error) = session.write_now(None, &[b'x'; 64 * 1024]) {
                refused = Some(error);
                break;
            }
        }
        assert!(matches!(refused, Some(EngineError::Input { .. })), "{refused:?}");
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn queries_are_answered_without_any_client() {
    run(async {
        let stage = Stage::new();
        let script = r"stty raw -echo min 1 time 50; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c; cat";
        let session = stage.sh(script).await;
        let answered = Matcher::ScreenRegex(pattern(r"033 +\[ +1 +; +1 +R", false).unwrap());
        session.wait(until(answered)).await.unwrap();
        session.kill(Ladder { signal: Some(9), ..Ladder::default() }).await.unwrap();
    });
}

#[test]
fn a_new_daemon_takes_over_where_the_old_one_died() {
    let (stage, before) = run(async {
        let stage = Stage::new();
        let script = r"printf '\033[31mred\033[0m one\n'; read a; echo two; read b; exit 5";
        let session = stage.sh(script).await;
        session.wait(text("one")).await.unwrap();
        let before = session.frame().await.unwrap().0;
        (stage, before)
    });
    let stage = run(async {
        let stage = stage.next_daemon();
        let session = stage.engine.find("s1").unwrap();
        let after = session.frame().await.unwrap().0;
        assert_eq!(before.get().rows, after.get().rows);
        session.write(None, b"\r").await.unwrap();
        session.wait(text("two")).await.unwrap();
        // It may also end while nobody is there.
        session.write(None, b"\r").await.unwrap();
        stage
    });
    run(async {
        let stage = stage.next_daemon();
        let session = stage.engine.find("s1").unwrap();
        assert_eq!(exit_of(&session).await, ExitStatus::Code(5));
        assert!(screen(&session).await.contains("two"));
    });
}

#[test]
fn an_ended_session_is_readable_by_the_next_daemon() {
    let stage = run(async {
        let stage = Stage::new();
        let session = stage.sh("echo kept; exit 0").await;
        exit_of(&session).await;
        while stage.processes.holds(session.id()) {
            tokio::task::yield_now().await;
        }
        stage
    });
    run(async {
        let stage = stage.next_daemon();
        let session = stage.engine.find("s1").unwrap();
        assert_eq!(screen(&session).await, "kept");
        assert_eq!(session.output(Seq(0), 100).await.unwrap().bytes.get(), b"kept\r\n");
        stage.engine.remove(session.id()).await.unwrap();
    });
}

/// Waits until the keeper may forget the session: its end is on record and its output in files.
async fn settled(stage: &Stage, session: &SessionHandle) {
    exit_of(session).await;
    stage.processes.released(session.id()).await;
}

#[test]
fn the_next_daemon_knows_sizes_and_times_without_reading() {
    let (stage, before) = run(async {
        let stage = Stage::new();
        let ended = stage.sh("echo kept").await;
        settled(&stage, &ended).await;
        let running = stage.sh("echo waits; read x").await;
        running.wait(text("waits")).await.unwrap();
        // Both are in files, or the ring's part would be new to the next daemon.
        running.output(Seq(0), 100).await.unwrap();
        let before = [ended, running].map(|session| session.info());
        (stage, before)
    });
    run(async {
        let stage = stage.next_daemon();
        let after = stage.engine.list();
        assert_eq!(after.len(), 2);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((after.seq, after.first_seq), (before.seq, Seq(0)), "{}", after.record.id);
            let (was, is) = (before.last_output.unwrap(), after.last_output.unwrap());
            let apart = was.duration_since(is).or_else(|_| is.duration_since(was)).unwrap();
            assert!(apart < Duration::from_secs(2), "{apart:?}");
        }
        let running = stage.engine.find("s2").unwrap();
        running.kill(Ladder::default()).await.unwrap();
    });
}

const SEGMENT: u64 = 64 * 1024;

/// Prints five segments and waits to be told to print five more.
async fn five_segments(stage: &Stage) -> SessionHandle {
    let five = "head -c 327680 /dev/zero | tr '\\0' x";
    stage.sh(&format!("stty -opost -echo; {five}; echo DONE; read x; {five}; echo MORE")).await
}

fn files_of(stage: &Stage, session: &SessionHandle) -> u64 {
    let dir = stage.dir.path().join(session.id().to_string());
    let len = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
    std::fs::read_dir(dir).map_or(0, |entries| entries.map(len).sum())
}

/// Until the helper has done what it was told.
async fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_total_budget_holds_across_daemons_and_removals() {
    let limits =
        greenroom_engine::journal::Limits { session_bytes: 16 * SEGMENT, segment_bytes: SEGMENT };
    let stage = run(async {
        let stage = Stage::with_budget(limits, 16 * SEGMENT);
        for _ in 0..2 {
            let session = five_segments(&stage).await;
            session.wait(text("DONE")).await.unwrap();
            session.kill(Ladder::default()).await.unwrap();
            settled(&stage, &session).await;
        }
        stage
    });
    run(async {
        let stage = stage.next_daemon();
        let [first, second] = ["s1", "s2"].map(|id| stage.engine.find(id).unwrap());
        assert!(
            files_of(&stage, &first) >= 5 * SEGMENT && files_of(&stage, &second) >= 5 * SEGMENT
        );
        // What ended under the last daemon counts: another ten segments are too much.
        let third = five_segments(&stage).await;
        third.wait(text("DONE")).await.unwrap();
        third.write(None, b"\r").await.unwrap();
        third.wait(text("MORE")).await.unwrap();
        settled(&stage, &third).await;
        let total =
            || -> u64 { [&first, &second, &third].map(|one| files_of(&stage, one)).iter().sum() };
        until_true("the oldest output goes", || total() <= 18 * SEGMENT).await;
        assert!(files_of(&stage, &first) < 5 * SEGMENT || files_of(&stage, &second) < 5 * SEGMENT);
        // It is told before anybody reads them.
        for session in [&first, &second].into_iter().filter(|it| files_of(&stage, it) < 5 * SEGMENT)
        {
            until_true("it is told", || session.info().first_seq > Seq(0)).await;
        }
        // What is removed does not count any more: as much again has room.
        for session in [&first, &second] {
            stage.engine.remove(session.id()).await.unwrap();
        }
        let kept = files_of(&stage, &third);
        let fourth = five_segments(&stage).await;
        fourth.wait(text("DONE")).await.unwrap();
        fourth.kill(Ladder::default()).await.unwrap();
        settled(&stage, &fourth).await;
        assert_eq!((files_of(&stage, &third), kept >= 9 * SEGMENT), (kept, true));
    });
}

#[test]
fn sessions_are_found_by_id_name_and_prefix() {
    run(async {
        let stage = Stage::new();
        for name in ["build", "bundle", "web"] {
            let named = greenroom_engine::SessionSpec { name: Some(name.into()), ..spec("cat") };
            stage.engine.create(named).await.unwrap();
        }
        let found = |text: &str| stage.engine.find(text).map(|session| session.id().0);
        assert_eq!(found("s2").unwrap(), 2);
        assert_eq!(found("web").unwrap(), 3);
        assert_eq!(found("bun").unwrap(), 2);
        assert!(matches!(found("bu"), Err(EngineError::Ambiguous { .. })));
        let Err(EngineError::NotFound { nearest, .. }) = found("builder") else { panic!() };
        assert_eq!(nearest.as_deref(), Some("build"));
        let taken = greenroom_engine::SessionSpec { name: Some("web".into()), ..spec("cat") };
        assert!(matches!(stage.engine.create(taken).await, Err(EngineError::NameTaken { .. })));
        stage
            .engine
            .rename(found("web").map(greenroom_engine::SessionId).unwrap(), "site")
            .await
            .unwrap();
        assert_eq!(found("site").unwrap(), 3);
        stage.engine.end_all(Ladder::default()).await;
    });
}

#[test]
fn sessions_end_and_can_be_removed_while_no_record_can_be_written() {
    run(async {
        let stage = Stage::new();
        let session = stage.engine.create(spec("cat")).await.unwrap();
        let id = session.id();
        stage.store.full.store(true, std::sync::atomic::Ordering::Relaxed);
        stage.engine.end_all(Ladder::default()).await;
        assert!(session.change().ended.is_some());
        stage.engine.remove(id).await.unwrap();
        assert!(!stage.dir.path().join(id.to_string()).exists(), "its files make room");
        // The disk has room again: what was removed does not come back.
        stage.store.full.store(false, std::sync::atomic::Ordering::Relaxed);
        stage.processes.released(id).await;
        assert!(!stage.store.records.lock().unwrap().contains_key(&id));
    });
}

#[test]
fn what_cannot_start_leaves_nothing() {
    run(async {
        let stage = Stage::new();
        let missing = greenroom_engine::SessionSpec { cwd: "/no/such/dir".into(), ..spec("true") };
        let refused = stage.engine.create(missing).await;
        let Err(EngineError::BadSpec(why)) = refused else { panic!() };
        assert!(why.contains("/no/such/dir"), "{why}");
        assert!(stage.engine.list().is_empty());
        assert!(stage.store.records.lock().unwrap().is_empty());
    });
}

#[test]
fn scrollback_is_a_view_of_the_journal() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("seq 1 100; cat").await;
        session.wait(text("100")).await.unwrap();
        let (rows, total) = session.scrollback(Secrets::Masked, 0, 3).await.unwrap();
        let lines: Vec<String> = rows.get().iter().map(greenroom_term::Row::text).collect();
        assert_eq!(lines, ["1", "2", "3"]);
        assert_eq!(total, 77);
        session.kill(Ladder::default()).await.unwrap();
    });
}

#[test]
fn a_taller_window_brings_lines_back() {
    run(async {
        let stage = Stage::new();
        let session = stage.sh("seq 1 100; printf end; cat").await;
        session.wait(text("100\nend")).await.unwrap();
        assert!(!screen(&session).await.contains("70\n"));
        session.resize(Size::new(80, 40).unwrap()).await.unwrap();
        session.wait(text("70\n")).await.unwrap();
        session.write(None, b"x\r").await.unwrap();
        session.wait(text("endx\nx")).await.unwrap();
        assert!(screen(&session).await.starts_with("64\n65\n"), "{}", screen(&session).await);
        session.kill(Ladder::default()).await.unwrap();
    });
}
