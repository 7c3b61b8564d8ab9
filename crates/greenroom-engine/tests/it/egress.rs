//! What leaves a session, through every door, with a real program that prints its own secret.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenroom_engine::egress::{Edit, Filters, Line, LineFilter, Secrets, Sink};
use greenroom_engine::process::BoxFuture;
use greenroom_engine::session::{Push, SubscriberKind, Subscription};
use greenroom_engine::store::SessionRecord;
use greenroom_engine::transcript::plain;
use greenroom_engine::wait::{Matcher, WaitError, WaitFor, frame_text};
use greenroom_engine::{Seq, SessionHandle, SessionId, SessionSpec};

use greenroom_term::{Screen, Size};

use crate::stage::{Stage, spec};

mod slow;

const VALUE: &str = "hunter2-and-more";
const PATIENCE: Duration = Duration::from_secs(10);

fn secret(script: &str) -> SessionSpec {
    let mut spec = spec(script);
    spec.env.insert("TOKEN".into(), VALUE.into());
    spec.hidden = vec![VALUE.into()];
    spec
}

fn exit() -> WaitFor {
    let matcher = Matcher::ProcessExited;
    WaitFor { matcher, since: None, timeout: PATIENCE, secrets: Secrets::Masked }
}

/// Everything the session shows, through every door.
async fn shown(session: &SessionHandle) -> Vec<(&'static str, String)> {
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    let (frame, _) = session.frame().await.unwrap();
    let (rows, _) = session.scrollback(Secrets::Masked, 0, 100).await.unwrap();
    let mut recorded = Vec::new();
    let recording = session.recording().await.unwrap();
    recording
        .replay(&mut |_, bytes| {
            recorded.extend_from_slice(bytes.map_or(&[][..], |bytes| bytes.into_inner()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let rows: String = rows.get().iter().map(|row| row.text() + "\n").collect();
    vec![
        ("page", plain(page.bytes.get())),
        ("screen", frame_text(frame.get())),
        ("title", frame.get().title.clone().unwrap_or_default()),
        ("scrollback", rows),
        ("recording", plain(&recorded)),
        ("recorded bytes", String::from_utf8_lossy(&recorded).into_owned()),
    ]
}

fn assert_hidden(doors: &[(&'static str, String)]) {
    for (door, text) in doors {
        assert!(!text.contains("hunter"), "{door}: {text}");
        assert!(!text.contains("and-more"), "{door}: {text}");
    }
}

const PRINTS: &str = r#"printf 'a %s b\n' "$TOKEN"; printf '\033]0;t %s\007' "$TOKEN"
    printf '\033[31m%.9s\033[0m%s\n' "$TOKEN" "${TOKEN#?????????}"
    printf '%070d%s\n' 0 "$TOKEN"; printf '\033]9;n %s\007' "$TOKEN""#;

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_the_session_leaves_through_no_door() {
    let stage = Stage::new();
    let session = stage.engine.create(secret(PRINTS)).await.unwrap();
    session.wait(exit()).await.unwrap();
    let doors = shown(&session).await;
    assert_hidden(&doors);
    assert!(doors[0].1.contains(&format!("a {} b", "*".repeat(VALUE.len()))), "{doors:?}");
    // On the screen it is wrapped over two rows.
    assert!(doors[1].1.contains("0**********\n******"), "{}", doors[1].1);
    let told = stage.events.facts();
    assert!(told.iter().any(|fact| fact.contains("t ****")), "{told:?}");
    assert!(!told.iter().any(|fact| fact.contains("hunter")), "{told:?}");
    let (bare, _) = session.frame_as(Secrets::Unmasked).await.unwrap();
    assert!(frame_text(bare.get()).contains(VALUE), "who may see it sees it");

    // Another daemon knows it, too, although the program is gone.
    let id = session.id();
    drop(session);
    let stage = stage.next_daemon();
    let session = stage.engine.find(&id.to_string()).unwrap();
    assert_hidden(&shown(&session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_and_a_wait_do_not_see_it_however_slowly_it_is_printed() {
    let stage = Stage::new();
    let script = r#"i=1; while [ $i -le 16 ]; do printf '%s' "$(printf '%s' "$TOKEN" | cut -c$i)"
        i=$((i + 1)); done; printf '\nend\n'; read x"#;
    let session = stage.engine.create(secret(script)).await.unwrap();
    let mut subscriber = session.subscribe(SubscriberKind::Stream).await.unwrap();
    let end = Matcher::TranscriptContains { text: "end".into(), ignore_case: false };
    let wait =
        WaitFor { matcher: end, since: Some(Seq(0)), timeout: PATIENCE, secrets: Secrets::Masked };
    let matched = session.wait(wait).await.unwrap();
    assert!(!matched.transcript_tail.get().contains("ter2"), "{}", matched.transcript_tail.get());
    assert!(!frame_text(matched.frame.as_ref().unwrap().get()).contains("ter2"));
    let mut seen = Vec::new();
    while !plain(&seen).contains("end") {
        match tokio::time::timeout(PATIENCE, subscriber.next()).await.unwrap() {
            Some(Push::Output { bytes, .. }) => seen.extend_from_slice(bytes.get()),
            other => panic!("{other:?}"),
        }
    }
    // A pause may let out three characters, no more.
    assert!(!plain(&seen).contains("hunt"), "{}", plain(&seen));
    // Nor can a matcher be used to guess it.
    let guess = Matcher::ContainsText { text: "hunter2".into(), ignore_case: false };
    let wait =
        WaitFor { matcher: guess, since: None, timeout: Duration::ZERO, secrets: Secrets::Masked };
    let Err(WaitError::Timeout(seen)) = session.wait(wait).await else { panic!("it matched") };
    assert!(!seen.last_text.get().contains("ter2"));
}

/// Answers by what a line says; waits while told to.
#[derive(Default)]
struct Guard {
    asked: Mutex<Vec<String>>,
    closed: AtomicBool,
    calls: AtomicUsize,
    open: tokio::sync::Notify,
    foregone: Mutex<Option<Edit>>,
    off: AtomicBool,
}

impl LineFilter for Guard {
    fn foregone(&self) -> Option<Edit> {
        self.foregone.lock().unwrap().clone()
    }

    fn governs(&self, sink: Sink) -> bool {
        !matches!(sink, Sink::AttachLocal) && !self.off.load(Ordering::SeqCst)
    }

    fn filter<'a>(&'a self, _: SessionId, lines: &'a [Line]) -> BoxFuture<'a, Vec<Edit>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            while self.closed.load(Ordering::SeqCst) {
                self.open.notified().await;
            }
            self.asked.lock().unwrap().extend(lines.iter().map(|line| line.text.clone()));
            let verdict = |line: &Line| match line.text.as_str() {
                text if text.contains("mask") => Edit::Mask,
                text if text.contains("drop") => Edit::Drop,
                text if text.contains("swap") => Edit::Replace("SWAPPED BY GUARD".into()),
                text if text.contains("leak") => Edit::Replace(format!("{VALUE} {text}")),
                _ => Edit::Pass,
            };
            lines.iter().map(verdict).collect()
        })
    }
}

/// A session that printed `LINES` under a guard that has answered for all of them, and where it
/// ended.
async fn answered(stage: &Stage) -> (SessionHandle, Arc<Guard>, Seq) {
    let session = stage.engine.create(secret(LINES)).await.unwrap();
    let guard = Arc::new(Guard::default());
    session.govern(Some(guard.clone())).unwrap();
    session.wait(exit()).await.unwrap();
    let end = session.change().seq;
    tokio::time::timeout(PATIENCE, session.answered_beyond(Seq(end.0 - 1))).await.unwrap();
    (session, guard, end)
}

const LINES: &str = "printf 'one\\nmask me\\ndrop me\\nswap me\\nleak\\nlast\\n'";

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_decides_what_readers_see_and_a_restart_does_not_forget() {
    let stage = Stage::new();
    let (session, _, end) = answered(&stage).await;
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    let expected = format!("one\n*******\nSWAPPED BY GUARD\n{} leak\nlast\n", "*".repeat(16));
    assert_eq!(plain(page.bytes.get()), expected);
    assert_eq!((page.next, page.tail), (end, end));
    let (frame, _) = session.frame().await.unwrap();
    let screen = frame_text(frame.get());
    assert!(screen.contains("SWAPPED") && !screen.contains("me") && !screen.contains("hunter"));
    let doors = shown(&session).await;
    assert!(!doors.iter().any(|(_, text)| text.contains("mask me") || text.contains("drop me")));
    // A page that begins within a line shows no more of it.
    for from in 0..end.0 {
        let page = session.output(Seq(from), 1 << 20).await.unwrap();
        let text = plain(page.bytes.get());
        assert!(!text.contains("me\n") && !text.contains("hunter"), "from {from}: {text}");
    }
    let id = session.id();
    drop(session);
    let stage = stage.next_daemon();
    let session = stage.engine.find(&id.to_string()).unwrap();
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    assert_eq!(plain(page.bytes.get()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_does_not_answer_holds_up_readers_and_nobody_else() {
    let stage = Stage::new();
    let session = stage.engine.create(secret("seq 1 20000; read x; echo done")).await.unwrap();
    let guard = Arc::new(Guard::default());
    guard.closed.store(true, Ordering::SeqCst);
    session.govern(Some(guard.clone())).unwrap();
    // The program runs on, its screen is painted, and who is not governed sees it.
    let mut changes = session.changes();
    // To the last line: what is typed earlier is echoed among them.
    let printed = (1..=20000).map(|n: u64| n.to_string().len() as u64 + 2).sum();
    let all = changes.wait_for(|change| change.seq.0 >= printed);
    tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap();
    session.write(None, b"\n").await.unwrap();
    tokio::time::timeout(PATIENCE, session.over()).await.unwrap();
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    assert_eq!((page.bytes.get().len(), page.next, page.tail), (0, Seq(0), Seq(0)));
    let (bare, _) = session.frame_as(Secrets::Unmasked).await.unwrap();
    assert!(frame_text(bare.get()).contains("done"));
    assert!(guard.calls.load(Ordering::SeqCst) <= 4, "no more questions than may be under way");
    // It wakes up: everything comes, in order.
    guard.closed.store(false, Ordering::SeqCst);
    guard.open.notify_waiters();
    let end = session.change().seq;
    tokio::time::timeout(PATIENCE, session.answered_beyond(Seq(end.0 - 1))).await.unwrap();
    let mut text = Vec::new();
    let mut at = Seq(0);
    while at < end {
        let page = session.output(at, 1 << 16).await.unwrap();
        text.extend_from_slice(page.bytes.get());
        assert!(page.next > at, "stuck at {at}");
        at = page.next;
    }
    let expected: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    assert!(plain(&text).starts_with(&expected));
    // Each line once; questions under way at the same time answer in any order.
    let asked = guard.asked.lock().unwrap().clone();
    let mut numbers: Vec<u32> = asked.iter().filter_map(|line| line.parse().ok()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=20000));
}

/// New output passes, what was hidden stays hidden.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_hid_stays_hidden_when_it_is_turned_off() {
    let stage = Stage::new();
    let (session, guard, _) = answered(&stage).await;
    guard.off.store(true, Ordering::SeqCst);
    let seen = seen_now(&session).await;
    assert!(!seen.contains("mask me") && !seen.contains("drop me"), "{seen}");
}

/// Masked or passed by the page, until it has an opinion again.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_whose_answer_is_known_is_not_asked() {
    let stage = Stage::new();
    let script = "printf 'one\\n\\033[1mtwo\\033[m\\n'; read x; echo three; read x; echo swap";
    let session = stage.engine.create(secret(script)).await.unwrap();
    let guard = Arc::new(Guard::default());
    *guard.foregone.lock().unwrap() = Some(Edit::Mask);
    session.govern(Some(guard.clone())).unwrap();
    let answered = async |line: &str| {
        let text = Matcher::ContainsText { text: line.into(), ignore_case: false };
        let wait =
            WaitFor { matcher: text, since: None, timeout: PATIENCE, secrets: Secrets::Unmasked };
        session.wait(wait).await.unwrap();
        let end = session.change().seq;
        tokio::time::timeout(PATIENCE, session.answered_beyond(Seq(end.0 - 1))).await.unwrap();
    };
    answered("two").await;
    *guard.foregone.lock().unwrap() = Some(Edit::Pass);
    session.write(None, b"\n").await.unwrap();
    answered("three").await;
    assert_eq!(guard.calls.load(Ordering::SeqCst), 0);
    *guard.foregone.lock().unwrap() = None;
    session.write(None, b"\n").await.unwrap();
    session.wait(exit()).await.unwrap();
    answered("swap").await;
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    let shown: Vec<_> = plain(page.bytes.get()).split_whitespace().map(str::to_owned).collect();
    assert_eq!(shown, ["***", "***", "three", "SWAPPED", "BY", "GUARD"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_no_facts_of_filters_that_keep_up() {
    let stage = Stage::new();
    let session = stage.engine.create(secret("printf 'prompt without end'; read x")).await.unwrap();
    session.govern(Some(Arc::new(Guard::default()))).unwrap();
    // A line without an end is asked about after a pause.
    tokio::time::timeout(PATIENCE, session.answered_beyond(Seq(17))).await.unwrap();
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    assert_eq!(plain(page.bytes.get()), "prompt without end");
    assert!(!stage.events.facts().iter().any(|fact| fact.contains("FiltersBehind")));
}

/// Everybody is filtered by the same guard.
struct All(Arc<dyn LineFilter>);

impl Filters for All {
    fn filter_for(
        &self,
        _: &SessionRecord,
        _: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        Ok(Some(self.0.clone()))
    }

    fn place(&self) -> Option<tokio::runtime::Handle> {
        None
    }
}

/// What governed readers see in this instant, through every door that asks no filter itself.
async fn seen_now(session: &SessionHandle) -> String {
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    let mut seen = page.bytes.into_inner();
    let recording = session.recording().await.unwrap();
    recording
        .replay(&mut |_, bytes| {
            seen.extend_from_slice(bytes.map_or(&[][..], |bytes| bytes.into_inner()));
            ControlFlow::Continue(())
        })
        .unwrap();
    plain(&seen)
}

/// A filter that never answers: whatever a reader sees was seen before the filter was there.
#[tokio::test(flavor = "multi_thread")]
async fn no_reader_is_faster_than_the_filter_at_the_start_of_a_session() {
    let guard = Arc::new(Guard::default());
    guard.closed.store(true, Ordering::SeqCst);
    let stage = Stage::with_filters(Arc::new(All(guard)));
    for _ in 0..50 {
        let session = stage.engine.create(secret("echo mask me; read x")).await.unwrap();
        assert!(session.is_governed(Sink::Stream) && session.is_governed(Sink::Snapshot));
        let mut changes = session.changes();
        while changes.borrow_and_update().seq < Seq(9) {
            assert_eq!(seen_now(&session).await, "");
            let changed = tokio::time::timeout(PATIENCE, changes.changed());
            changed.await.unwrap().unwrap();
        }
        assert_eq!(seen_now(&session).await, "");
        session.write(None, b"\n").await.unwrap();
        tokio::time::timeout(PATIENCE, session.over()).await.unwrap();
        assert_eq!(seen_now(&session).await, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_answers_is_asked_before_anybody_reads() {
    let guard = Arc::new(Guard::default());
    let stage = Stage::with_filters(Arc::new(All(guard)));
    for _ in 0..50 {
        let session = stage.engine.create(secret("echo mask me; echo last")).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("last") {
            seen = seen_now(&session).await;
            assert!(!seen.contains("me"), "{seen}");
            let (frame, _) = session.frame().await.unwrap();
            assert!(!frame_text(frame.get()).contains("me"));
        }
    }
}

/// The same when another daemon takes sessions over: one that runs, and one that has ended and was
/// never filtered.
#[tokio::test(flavor = "multi_thread")]
async fn no_reader_is_faster_than_the_filter_after_a_restart() {
    let mut stage = Stage::new();
    let ended = stage.engine.create(secret("echo mask me; echo last")).await.unwrap().id();
    let script = "echo mask me; read x; echo swap me; read x";
    let runs = stage.engine.create(secret(script)).await.unwrap();
    stage.engine.find(&ended.to_string()).unwrap().wait(exit()).await.unwrap();
    let mut changes = runs.changes();
    changes.wait_for(|change| change.seq >= Seq(9)).await.unwrap();
    let runs = runs.id();
    let guard = Arc::new(Guard::default());
    guard.closed.store(true, Ordering::SeqCst);
    stage.filters = Some(Arc::new(All(guard.clone())));
    let stage = stage.next_daemon();
    let [ended, runs] = [ended, runs].map(|id| stage.engine.find(&id.to_string()).unwrap());
    for _ in 0..20 {
        assert_eq!(seen_now(&runs).await, "");
        assert_eq!(seen_now(&ended).await, "");
    }
    runs.write(None, b"\n").await.unwrap();
    guard.closed.store(false, Ordering::SeqCst);
    guard.open.notify_waiters();
    for (session, last) in [(&ended, "last"), (&runs, "SWAPPED")] {
        let mut seen = String::new();
        let all = async {
            while !seen.contains(last) {
                seen = seen_now(session).await;
                assert!(!seen.contains("me"), "{seen}");
            }
        };
        tokio::time::timeout(PATIENCE, all).await.unwrap();
    }
}

/// Governs the sinks it is told to, with the words of [`Guard`].
struct Only(Guard, &'static [Sink]);

impl LineFilter for Only {
    fn governs(&self, sink: Sink) -> bool {
        self.1.contains(&sink)
    }

    fn filter<'a>(&'a self, id: SessionId, lines: &'a [Line]) -> BoxFuture<'a, Vec<Edit>> {
        self.0.filter(id, lines)
    }
}

fn only(sinks: &'static [Sink]) -> (Stage, Arc<Only>) {
    let only = Arc::new(Only(Guard::default(), sinks));
    (Stage::with_filters(Arc::new(All(only.clone()))), only)
}

fn viewer() -> SubscriberKind {
    SubscriberKind::Viewer { size: Size::new(80, 24).unwrap(), read_only: false }
}

/// What a viewer's terminal shows, from everything it was sent until it shows `text` or the session
/// is over.
async fn viewed(viewer: &mut Subscription, text: &str) -> (Vec<u8>, String) {
    let mut screen = Screen::new(Size::new(80, 24).unwrap());
    let mut sent = Vec::new();
    while !screen.text().contains(text) {
        match tokio::time::timeout(PATIENCE, viewer.next()).await.expect(text) {
            Some(Push::Output { bytes, .. }) => {
                sent.extend_from_slice(bytes.get());
                screen.feed(bytes.get());
            }
            Some(Push::Keyframe { bytes, .. }) => {
                sent.extend_from_slice(bytes.get());
                screen = Screen::restore(Size::new(80, 24).unwrap(), bytes.get());
            }
            Some(Push::Exited { .. }) | None => break,
            Some(_) => {}
        }
    }
    (sent, screen.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_governed_viewer_sees_what_filters_leave() {
    let (stage, only) = only(&[Sink::AttachRemote]);
    let script = format!("read x; {LINES}; printf 'in two'; read x; echo 'mask me again'; read x");
    let session = stage.engine.create(secret(&script)).await.unwrap();
    let mut remote = session.subscribe_to(viewer(), Some(Sink::AttachRemote)).await.unwrap();
    let mut local = session.subscribe_to(viewer(), Some(Sink::AttachLocal)).await.unwrap();
    session.write(None, b"\n").await.unwrap();
    let (sent, screen) = viewed(&mut remote, "in two").await;
    assert!(screen.contains("one\n**** **\n\nSWAPPED BY GUARD\n"), "{screen}");
    assert!(screen.contains(&format!("{} leak\nlast\n", "*".repeat(16))), "{screen}");
    let text = String::from_utf8_lossy(&sent);
    assert!(!text.contains("me") && !text.contains("hunter"), "{text}");
    // Rows are asked about once, not with every picture; lines by themselves.
    let asked = only.0.asked.lock().unwrap().clone();
    assert!(asked.iter().filter(|line| *line == "one").count() <= 2, "{asked:?}");
    session.write(None, b"\n").await.unwrap();
    let (sent, screen) = viewed(&mut remote, "**** ** *****").await;
    assert!(!String::from_utf8_lossy(&sent).contains("me"), "{screen}");
    // The human at this machine is not governed by this one.
    assert!(viewed(&mut local, "mask me again").await.1.contains("mask me again"));
    // The end comes after the last picture.
    session.write(None, b"\n").await.unwrap();
    let mut last = Vec::new();
    while let Some(push) = tokio::time::timeout(PATIENCE, remote.next()).await.unwrap() {
        last.push(push);
        if matches!(last.last(), Some(Push::Exited { .. })) {
            break;
        }
    }
    assert!(last.iter().any(|push| matches!(push, Push::Keyframe { .. })), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_waits_for_a_filter_that_does_not_answer_and_the_session_does_not() {
    let (stage, only) = only(&[Sink::AttachRemote]);
    only.0.closed.store(true, Ordering::SeqCst);
    let session = stage.engine.create(secret("seq 1 5000; echo mask me; read x")).await.unwrap();
    let mut remote = session.subscribe_to(viewer(), Some(Sink::AttachRemote)).await.unwrap();
    let mut changes = session.changes();
    let all = changes.wait_for(|change| change.seq.0 > 28_000);
    tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap();
    while let Some(push) = remote.try_next() {
        assert!(!matches!(push, Push::Output { .. } | Push::Keyframe { .. }), "{push:?}");
    }
    only.0.closed.store(false, Ordering::SeqCst);
    only.0.open.notify_waiters();
    let (sent, _) = viewed(&mut remote, "**** **").await;
    assert!(!String::from_utf8_lossy(&sent).contains("me"));
    // A filter that never answers does not keep the end from its viewer.
    only.0.closed.store(true, Ordering::SeqCst);
    session.write(None, b"\n").await.unwrap();
    viewed(&mut remote, "never shown").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_viewer_is_governed_where_it_is_named() {
    let (stage, _) = only(&[Sink::AttachLocal]);
    let script = format!("{LINES}; echo {VALUE}; echo end; read x");
    let session = stage.engine.create(secret(&script)).await.unwrap();
    let mut local = session.subscribe(viewer()).await.unwrap();
    let (sent, screen) = viewed(&mut local, "end").await;
    // Filters see what the rules left, and so does whoever they filter for.
    let text = String::from_utf8_lossy(&sent);
    assert!(!text.contains("me") && !text.contains("hunter"), "{screen}");
    // Nobody answers for the others.
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    assert!(plain(page.bytes.get()).contains("mask me"));
}

const TELLS: &str = r"printf '\033]0;swap title\007\033]9;mask note\007\033]7;file:///drop/me\007'
    printf '\033]9;plain note\007'; sleep 0.4; printf '\033]0;mask title\007'; read x";

#[tokio::test(flavor = "multi_thread")]
async fn what_events_say_is_governed() {
    let (stage, only) = only(&[Sink::Event, Sink::Snapshot]);
    only.0.closed.store(true, Ordering::SeqCst);
    let session = stage.engine.create(secret(TELLS)).await.unwrap();
    let mut changes = session.changes();
    let all = changes.wait_for(|change| change.seq.0 >= 79);
    tokio::time::timeout(PATIENCE, all).await.unwrap().unwrap();
    let told = stage.events.facts();
    assert!(!told.iter().any(|fact| fact.contains("note") || fact.contains("title")), "{told:?}");
    assert_eq!(session.info().title, None);
    only.0.closed.store(false, Ordering::SeqCst);
    only.0.open.notify_waiters();
    let stars = || session.info().title.is_some_and(|title| title.get() == "**** *****");
    let titled = changes.wait_for(|_| stars());
    tokio::time::timeout(PATIENCE, titled).await.unwrap().unwrap();
    let told = stage.events.facts().join("\n");
    for expected in ["SWAPPED BY GUARD", "**** ****", "plain note", "**** *****"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    for hidden in ["swap title", "mask note", "drop", "mask title"] {
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
    let (frame, _) = session.frame().await.unwrap();
    assert_eq!(frame.get().title.as_deref(), Some("**** *****"));
    // Another daemon asks again before it says the title, and tells no event of it.
    let (id, titles) = (session.id(), told.matches("Title(").count());
    drop(session);
    let stage = stage.next_daemon();
    let session = stage.engine.find(&id.to_string()).unwrap();
    let mut changes = session.changes();
    let titled = changes.wait_for(|_| session.info().title.is_some());
    tokio::time::timeout(PATIENCE, titled).await.unwrap().unwrap();
    assert_eq!(session.info().title.unwrap().get(), "**** *****");
    assert_eq!(stage.events.facts().join("\n").matches("Title(").count(), titles);
}

/// A viewer who comes when only a part of a secret was printed, and stays until the rest is.
#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_who_joins_in_the_middle_sees_no_beginning() {
    let stage = Stage::new();
    for (first, rest) in [
        (&VALUE[..9], &VALUE[9..]),
        ("ghp_A1b2C3d4E5f6G7h8I9j0", "K1l2M3n4O5p6Q7r8"),
        ("sk-ant-api03-Zq8L", "m2Xv7Nw4Rt6Yb1Kc9Pd3Fg5Hj0Sa"),
    ] {
        let script =
            format!("stty -echo; printf 'go {first}'; read x; printf '{rest}\\nend\\n'; read x");
        let session = stage.engine.create(secret(&script)).await.unwrap();
        let mut changes = session.changes();
        let printed = changes.wait_for(|change| change.seq.0 >= 3 + first.len() as u64);
        tokio::time::timeout(PATIENCE, printed).await.unwrap().unwrap();
        let sink = Some(Sink::AttachRemote);
        let mut same = session.subscribe_to(viewer(), sink).await.unwrap();
        let smaller = SubscriberKind::Viewer { size: Size::new(70, 20).unwrap(), read_only: true };
        let mut painted = session.subscribe_to(smaller, sink).await.unwrap();
        let (frame, _) = session.frame().await.unwrap();
        let hidden = &first[first.len() - 4..];
        assert!(!frame_text(frame.get()).contains(hidden), "{}", frame_text(frame.get()));
        for viewer in [&mut same, &mut painted] {
            let (sent, screen) = viewed(viewer, "go").await;
            assert!(!String::from_utf8_lossy(&sent).contains(hidden), "{screen}");
        }
        session.write(None, b"\n").await.unwrap();
        for viewer in [&mut same, &mut painted] {
            let (sent, screen) = viewed(viewer, "end").await;
            let sent = String::from_utf8_lossy(&sent);
            assert!(!sent.contains(hidden) && !sent.contains(&rest[..4]), "{screen}");
        }
    }
}

/// Gives up early on a filter that is behind.
struct Impatient(Arc<dyn LineFilter>);

impl Filters for Impatient {
    fn filter_for(
        &self,
        _: &SessionRecord,
        _: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        Ok(Some(self.0.clone()))
    }

    fn place(&self) -> Option<tokio::runtime::Handle> {
        None
    }

    fn behind_max(&self) -> u64 {
        64 * 1024
    }
}

/// The last lines are asked about; what lies too far before them is masked, and an event says
/// where.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_too_far_behind_is_not_asked_about_the_middle() {
    let guard = Arc::new(Guard::default());
    guard.closed.store(true, Ordering::SeqCst);
    let stage = Stage::with_filters(Arc::new(Impatient(guard.clone())));
    let session = stage.engine.create(secret("seq 100001 150000; echo last")).await.unwrap();
    tokio::time::timeout(PATIENCE, session.over()).await.unwrap();
    let before = plain(session.output(Seq(0), 1 << 20).await.unwrap().bytes.get());
    assert!(before.chars().all(|c| "*\n".contains(c)), "{}", &before[..before.len().min(200)]);
    guard.closed.store(false, Ordering::SeqCst);
    guard.open.notify_waiters();
    let end = session.change().seq;
    tokio::time::timeout(PATIENCE, session.answered_beyond(Seq(end.0 - 1))).await.unwrap();
    let text = plain(session.output(Seq(0), 1 << 20).await.unwrap().bytes.get());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[49_999], lines[50_000]), (50_001, "150000", "last"));
    let asked: HashSet<String> = guard.asked.lock().unwrap().iter().cloned().collect();
    let masked = lines.iter().filter(|line| **line == "******").count();
    assert!(masked > 20_000, "{masked} of 50000");
    for (number, line) in (100_001..=150_000).zip(&lines) {
        let whole = *line == number.to_string();
        assert!(whole || line.contains('*'), "{line}");
        assert!(!whole || asked.contains(&number.to_string()), "{line} was shown unasked");
    }
    let told = stage.events.facts();
    let behind = told.iter().filter(|fact| fact.contains("FiltersBehind")).count();
    assert!(behind >= 1, "{told:?}");
}
