//! How an actor comes to life: fresh, after a crash of the daemon, or for a
//! session that has ended and is only read.

use std::path::Path;
use std::sync::Arc;

use greenroom_term::{Screen, Size};
use tokio::sync::mpsc;

use crate::events::Fact;
use crate::id::Seq;
use crate::journal::{Journal, Note, RingFds, open_ended};
use crate::session::Shared;
use crate::session::actor::{Actor, Msg, Source};
use crate::session::handle::blocking;
use crate::session::rebuild;
use crate::session::screen::SessionScreen;
use crate::session::terminal::Master;

pub(crate) enum Boot {
    New { source: Box<Source>, screen: SessionScreen },
    Recover { master: Master, ring: RingFds },
    Ended,
}

impl Boot {
    pub(crate) fn master(&self) -> Option<Master> {
        match self {
            Boot::New { source, .. } => Some(source.master.clone()),
            Boot::Recover { master, .. } => Some(master.clone()),
            Boot::Ended => None,
        }
    }
}

/// `None` when nobody ever asked for it, or it could not be brought back; the reason was emitted.
pub(crate) async fn actor(
    shared: Arc<Shared>,
    rx: mpsc::Receiver<Msg>,
    boot: Boot,
    dir: &Path,
) -> Option<Actor> {
    match boot {
        Boot::New { source, screen } => {
            let reader = source.journal.reader();
            Some(Actor::new(shared, rx, Some(*source), reader, screen))
        }
        Boot::Recover { master, ring } => recover(shared, rx, master, ring, dir).await,
        Boot::Ended => ended(shared, rx, dir).await,
    }
}

async fn recover(
    shared: Arc<Shared>,
    rx: mpsc::Receiver<Msg>,
    master: Master,
    ring: RingFds,
    dir: &Path,
) -> Option<Actor> {
    let parts = shared.parts.clone();
    let path = dir.to_owned();
    // What the kernel says counts: a resize may have died with its daemon.
    let size = window_size(&master).unwrap_or(shared.record().size);
    let recovered = blocking(move || {
        let (mut journal, report) =
            Journal::recover(&path, ring, parts.limits, &parts.spiller, size)?;
        journal.note(Note::Reattached);
        journal.note(Note::Resize(size));
        let lost = (!report.lost.is_empty()).then(|| format!("{:?}", report.lost));
        Ok((journal, lost))
    })
    .await;
    let (journal, lost) = match recovered {
        Ok(recovered) => recovered,
        Err(error) => {
            tracing::error!(session = %shared.id, %error, "bringing a session back");
            shared.emit(Fact::Recovered { seq: Seq(0), lost: Some(error.to_string()) });
            return None;
        }
    };
    let reader = journal.reader();
    let (_, tail) = journal.span();
    reader.flush(tail).await;
    let rebuilt = {
        let reader = reader.clone();
        blocking(move || Ok(rebuild::screen(&reader, size)?)).await
    };
    let (screen, lost) = match rebuilt {
        Ok((screen, _)) if !screen.is_broken() => (screen, lost),
        Ok(_) => (Screen::new(size), Some("the screen: its engine failed".to_owned())),
        Err(error) => (Screen::new(size), Some(format!("the screen: {error}"))),
    };
    shared.resized(screen.size());
    shared.resumed(tail, screen.input_modes(), screen.title().map(str::to_owned));
    shared.emit(Fact::Recovered { seq: tail, lost });
    let screen = SessionScreen::of(screen, tail);
    Some(Actor::new(shared, rx, Some(Source { master, journal }), reader, screen))
}

fn window_size(master: &Master) -> Option<Size> {
    let window = rustix::termios::tcgetwinsize(master.get_ref()).ok()?;
    Size::new(window.ws_col, window.ws_row)
}

/// An ended session costs nothing until somebody asks it something.
async fn ended(shared: Arc<Shared>, mut rx: mpsc::Receiver<Msg>, dir: &Path) -> Option<Actor> {
    let first = loop {
        match rx.recv().await? {
            Msg::Close { reply } => {
                let _ = reply.send(());
                return None;
            }
            Msg::Exited(_) => {}
            asking => break asking,
        }
    };
    let size = shared.record().size;
    let path = dir.to_owned();
    let opened = blocking(move || {
        let reader = open_ended(&path)?;
        let (screen, end) = rebuild::screen(&reader, size)?;
        Ok((reader, screen, end))
    })
    .await;
    match opened {
        Ok((reader, screen, end)) => {
            shared.resumed(end, screen.input_modes(), screen.title().map(str::to_owned));
            let mut actor = Actor::new(shared, rx, None, reader, SessionScreen::of(screen, end));
            actor.handle(first);
            Some(actor)
        }
        Err(error) => {
            tracing::warn!(session = %shared.id, %error, "reading an ended session");
            None
        }
    }
}
