//! Marks in the output become events, but not faster than anybody reads them.
//!
//! Titles, bells and progress are states: only the latest of each [`COALESCE`] goes out. The others
//! are facts of their own and pass, up to a bounded number per window.

use std::sync::Arc;
use std::time::Duration;

use greenroom_term::Mark;
use tokio::time::Instant;

use crate::egress::Raw;
use crate::events::Fact;
use crate::session::Shared;

/// Spinners in titles change ten times a second; people do not read that fast.
const COALESCE: Duration = Duration::from_millis(250);

/// Notifications and prompt marks let through per [`COALESCE`]: a shell that
/// runs a script of short commands stays below, a flood does not.
const FACTS_PER_WINDOW: u32 = 64;

#[derive(Default)]
pub(crate) struct MarkGate {
    title: Option<String>,
    bell: bool,
    progress: Option<(u8, Option<u8>)>,
    window_ends: Option<Instant>,
    facts: u32,
}

impl MarkGate {
    /// Takes marks of one turn; answers when [`MarkGate::flush`] is due.
    pub(super) fn take(
        &mut self,
        shared: &Arc<Shared>,
        marks: Vec<Mark>,
        now: Instant,
    ) -> Option<Instant> {
        if self.window_ends.is_none_or(|ends| ends <= now) {
            self.window_ends = Some(now + COALESCE);
            self.facts = 0;
        }
        for mark in marks {
            match mark {
                Mark::Bell => self.bell = true,
                Mark::Title(title) => self.title = Some(title),
                Mark::Progress { state, percent } => self.progress = Some((state, percent)),
                other => self.fact(shared, other),
            }
        }
        self.window_ends.filter(|_| self.bell || self.title.is_some() || self.progress.is_some())
    }

    pub(super) fn flush(&mut self, shared: &Arc<Shared>) {
        if let Some(title) = self.title.take() {
            shared.announce(Fact::Title(shared.egress.text(Raw::new(title))));
        }
        if std::mem::take(&mut self.bell) {
            shared.emit(Fact::Bell);
        }
        if let Some((state, percent)) = self.progress.take() {
            shared.emit(Fact::Progress { state, percent });
        }
    }

    fn fact(&mut self, shared: &Arc<Shared>, mark: Mark) {
        self.facts += 1;
        if self.facts > FACTS_PER_WINDOW {
            shared.count_dropped_mark();
            return;
        }
        let out = |text: String| shared.egress.text(Raw::new(text));
        let fact = match mark {
            Mark::Cwd(path) => Fact::Cwd(out(path)),
            Mark::Notify { title, body } => {
                Fact::Notified { title: title.map(out), body: out(body) }
            }
            Mark::Clipboard { selection, data } => {
                Fact::ClipboardSet { selection, data: shared.egress.bytes(Raw::new(data)) }
            }
            Mark::PromptStart => return shared.emit(Fact::PromptStarted),
            Mark::CommandStart => return shared.emit(Fact::CommandStarted),
            Mark::CommandEnd { exit } => return shared.emit(Fact::CommandEnded { exit }),
            Mark::PromptEnd | Mark::Bell | Mark::Title(_) | Mark::Progress { .. } => return,
        };
        shared.announce(fact);
    }
}
