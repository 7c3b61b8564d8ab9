//! The actor's window: whose size it takes, and what that brings into view.

use greenroom_term::{Screen, Size};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::events::Fact;
use crate::id::Seq;
use crate::journal::Note;
use crate::session::actor::{Actor, Msg};
use crate::session::rebuild;

/// A screen that comes back regrown is caught up with at most this much, which the ring still has.
const REGROW_CATCH_UP: u64 = 64 * 1024;

impl Actor {
    pub(super) fn take_size(&mut self, size: Option<Size>) {
        if let Some(size) = size {
            self.resize(size);
        }
    }

    pub(super) fn resize(&mut self, size: Size) {
        if size == self.screen.size() {
            return;
        }
        self.note(Note::Resize(size));
        if let Some(source) = &self.source {
            let window =
                Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 };
            if let Err(error) = tcsetwinsize(source.master.get_ref(), window) {
                tracing::warn!(session = %self.shared.id, %error, "setting the window size");
            }
        }
        let taller = size.rows() > self.screen.size().rows();
        let wider = size.cols() != self.screen.size().cols();
        self.screen.resize(size);
        self.shared.resized(size);
        self.shared.emit(Fact::Resized { size });
        self.resync_viewers();
        if (taller || wider) && self.source.is_some() && !self.screen.alternate() {
            self.regrow(size);
        }
        self.publish();
    }

    /// Asks for the lines above the screen, off this task: they are on disk.
    pub(super) fn regrow(&self, size: Size) {
        let seq = self.screen.seq();
        let reader = self.reader.clone();
        let tx = self.shared.tx.clone();
        tokio::spawn(async move {
            reader.flush(seq).await;
            let regrown = tokio::task::spawn_blocking(move || rebuild::regrown(&reader, seq, size));
            if let Ok(Some(screen)) = regrown.await {
                let screen = Box::new(screen);
                let _ = tx.send(Msg::Regrown { screen, seq }).await;
            }
        });
    }

    pub(super) fn regrown(&mut self, mut screen: Screen, seq: Seq) {
        let Some(source) = &mut self.source else { return };
        let now = self.screen.seq();
        let outdated = now.since(seq) > REGROW_CATCH_UP || screen.size() != self.screen.size();
        if outdated || self.screen.alternate() {
            return;
        }
        let (first, second) = source.journal.bytes(seq, now);
        screen.feed(first);
        screen.feed(second);
        screen.take_replies();
        screen.take_marks();
        if screen.is_broken() {
            return;
        }
        self.screen.replace(screen, now);
        // A restart must find this picture, not the one without the lines.
        source.journal.roll(self.screen.keyframe(), self.screen.size());
        self.resync_viewers();
        self.shared.changed_visibly();
    }
}
