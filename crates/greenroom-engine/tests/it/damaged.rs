//! What a session shows after its own files were damaged between two daemons: never more than
//! before, and it is said.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::egress::{Edit, Filters, Line, LineFilter, Secrets, Sink};
use greenroom_engine::process::BoxFuture;
use greenroom_engine::store::SessionRecord;
use greenroom_engine::transcript::plain;
use greenroom_engine::wait::{Matcher, WaitFor, frame_text};
use greenroom_engine::{Seq, SessionHandle, SessionId};

use crate::stage::{Stage, spec};

const VALUE: &str = "hunter2-and-more";
const PATIENCE: Duration = Duration::from_secs(10);

/// Masks lines with `mask me`, and says so in its note.
struct Guard;

impl LineFilter for Guard {
    fn governs(&self, sink: Sink) -> bool {
        sink != Sink::AttachLocal
    }

    fn filter<'a>(&'a self, _: SessionId, lines: &'a [Line]) -> BoxFuture<'a, Vec<Edit>> {
        let edit =
            |line: &Line| if line.text.contains("mask me") { Edit::Mask } else { Edit::Pass };
        Box::pin(std::future::ready(lines.iter().map(edit).collect()))
    }

    fn note(&self) -> Option<Vec<u8>> {
        Some(b"guard".to_vec())
    }
}

struct Guards;

impl Filters for Guards {
    fn filter_for(
        &self,
        _: &SessionRecord,
        noted: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        assert!(noted.is_none_or(|noted| noted == b"guard"));
        Ok(Some(Arc::new(Guard)))
    }

    fn place(&self) -> Option<tokio::runtime::Handle> {
        None
    }
}

async fn shown(session: &SessionHandle) -> String {
    let end = session.change().seq;
    if end > Seq(0) {
        let answered = session.answered_beyond(Seq(end.0 - 1));
        tokio::time::timeout(PATIENCE, answered).await.expect("filters answer");
    }
    let page = session.output(Seq(0), 1 << 20).await.unwrap();
    let (frame, _) = session.frame().await.unwrap();
    let title = frame.get().title.clone().unwrap_or_default();
    format!("{}{}{title}", plain(page.bytes.get()), frame_text(frame.get()))
}

type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 5] = [
    ("missing", |path| fs::remove_file(path).unwrap()),
    ("empty", |path| fs::write(path, "").unwrap()),
    ("short", |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("flipped", |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x11;
        fs::write(path, bytes).unwrap();
    }),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
];

/// Prints a value, a line a guard hides, a title, and ends.
async fn printed(stage: &Stage) -> SessionId {
    let mut spec =
        spec("printf '\\033]0;my %s\\007' $TOKEN; echo \"plain; $TOKEN\"; echo 'mask me'");
    spec.env.insert("TOKEN".into(), VALUE.into());
    spec.hidden = vec![VALUE.into()];
    let session = stage.engine.create(spec).await.unwrap();
    let exit = WaitFor {
        matcher: Matcher::ProcessExited,
        since: None,
        timeout: PATIENCE,
        secrets: Secrets::Masked,
    };
    session.wait(exit).await.unwrap();
    let seen = shown(&session).await;
    assert!(!seen.contains(VALUE) && !seen.contains("mask me"), "{seen}");
    assert!(seen.contains("plain") && session.info().withheld.is_none(), "{seen}");
    session.id()
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_never_show_what_was_hidden() {
    for file in ["key", "s1/values", "s1/terms", "s1/answers"] {
        for (how, damage) in DAMAGES {
            let stage = Stage::with_filters(Arc::new(Guards));
            let id = printed(&stage).await;
            damage(&stage.dir.path().join(file));
            let stage = stage.next_daemon();
            let session = stage.engine.find(&id.to_string()).unwrap();
            let seen = shown(&session).await;
            assert!(!seen.contains("hunter2") && !seen.contains("mask me"), "{file} {how}: {seen}");
            // A filter that is there is asked again; nobody can be asked for values.
            let told = session.info().withheld;
            assert_eq!(told.is_some(), file != "s1/answers", "{file} {how}: {told:?}");
            assert_eq!(seen.contains("plain"), told.is_none(), "{file} {how}: {seen}");
            // The host goes on: a new session is as good as ever.
            printed_again(&stage).await;
        }
    }
}

async fn printed_again(stage: &Stage) {
    let mut spec = spec("echo plain $TOKEN");
    spec.env.insert("TOKEN".into(), VALUE.into());
    spec.hidden = vec![VALUE.into()];
    let session = stage.engine.create(spec).await.unwrap();
    tokio::time::timeout(PATIENCE, session.over()).await.unwrap();
    let seen = shown(&session).await;
    assert!(seen.contains("plain") && !seen.contains(VALUE), "{seen}");
}

/// Nobody here plays the role any more: that is no reason to show what was filtered.
#[tokio::test(flavor = "multi_thread")]
async fn filters_that_cannot_be_had_are_missed() {
    let mut stage = Stage::with_filters(Arc::new(Guards));
    let id = printed(&stage).await;
    stage.filters = None;
    let stage = stage.next_daemon();
    let session = stage.engine.find(&id.to_string()).unwrap();
    let seen = shown(&session).await;
    assert!(!seen.contains("mask me") && !seen.contains("plain"), "{seen}");
    assert!(session.info().withheld.is_some());
}

/// An older version noted nothing: its sessions are shown as they were.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_before_there_were_notes_is_shown() {
    let stage = Stage::with_filters(Arc::new(Guards));
    let id = printed(&stage).await;
    fs::remove_file(stage.dir.path().join("s1/terms")).unwrap();
    let stage = stage.next_daemon_of(false);
    let session = stage.engine.find(&id.to_string()).unwrap();
    let seen = shown(&session).await;
    assert!(seen.contains("plain") && !seen.contains("hunter2") && !seen.contains("mask me"));
    assert_eq!(session.info().withheld, None);
}
