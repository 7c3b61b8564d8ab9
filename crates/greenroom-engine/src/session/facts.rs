//! Facts with words of the program in them: titles, notifications, directories, clipboard writes.
//!
//! They went through the built-in rules. Where a filter governs events it is asked about the words,
//! on a task of its own, in the order they came: the actor waits for nobody. In: facts. Out: the
//! same, as filters want them told, or none. Bounded: what does not fit the queue is dropped and
//! counted with the marks.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::mpsc;

use crate::egress::{Egress, Filtered, Origin, Sink, spawn_beside};
use crate::events::Fact;
use crate::id::{Seq, SessionId};
use crate::session::Shared;

/// Facts that wait for a filter: a second of a flood of marks.
const QUEUE: usize = 256;

/// The facts of one session that wait for its filters.
#[derive(Default)]
pub(crate) struct FactQueue(OnceLock<mpsc::Sender<QueuedFact>>);

struct QueuedFact {
    fact: Fact,
    seq: Seq,
    /// Known before: it is kept, but no event.
    quietly: bool,
}

impl Shared {
    /// Tells a fact with words of the program in it, once filters have agreed.
    pub(crate) fn announce(self: &Arc<Self>, fact: Fact) {
        self.announce_as(fact, false);
    }

    /// The title a session had before this daemon was there.
    pub(crate) fn had_title(self: &Arc<Self>, title: Filtered<String>) {
        self.announce_as(Fact::Title(title), true);
    }

    fn announce_as(self: &Arc<Self>, fact: Fact, quietly: bool) {
        let queued = QueuedFact { fact, seq: self.change().seq, quietly };
        if !self.egress.is_governed(Sink::Event) {
            return self.agreed(queued.fact, quietly);
        }
        let queue = self.facts.0.get_or_init(|| {
            let (tx, rx) = mpsc::channel(QUEUE);
            let asking = ask(Arc::downgrade(self), self.id, self.egress.clone(), rx);
            spawn_beside(self.parts.filters.as_ref(), asking);
            tx
        });
        if queue.try_send(queued).is_err() {
            self.count_dropped_mark();
        }
    }

    fn agreed(&self, fact: Fact, quietly: bool) {
        let title = match &fact {
            Fact::Title(title) if self.has_title(title) => return,
            Fact::Title(title) => Some(title.clone()),
            _ => None,
        };
        if !quietly {
            self.emit(fact);
        }
        // Last: whoever sees the new title finds its event.
        if let Some(title) = title {
            self.set_title(title);
        }
    }
}

/// Ends with the session: the queue is its own.
async fn ask(
    shared: Weak<Shared>,
    id: SessionId,
    egress: Egress,
    mut queue: mpsc::Receiver<QueuedFact>,
) {
    while let Some(QueuedFact { fact, seq, quietly }) = queue.recv().await {
        let fact = governed(&egress, Origin { session: id, seq }, fact).await;
        let Some(shared) = shared.upgrade() else { return };
        if let Some(fact) = fact {
            shared.agreed(fact, quietly);
        }
    }
}

/// The fact as filters want it told; `None` if they dropped what it says.
async fn governed(egress: &Egress, origin: Origin, fact: Fact) -> Option<Fact> {
    let text = async |text| egress.governed_text(Sink::Event, origin, text).await;
    Some(match fact {
        Fact::Title(title) => Fact::Title(text(title).await?),
        Fact::Cwd(path) => Fact::Cwd(text(path).await?),
        Fact::Notified { title, body } => {
            let title = match title {
                Some(title) => text(title).await,
                None => None,
            };
            Fact::Notified { title, body: text(body).await? }
        }
        Fact::ClipboardSet { selection, data } => {
            // What is no text cannot be judged.
            let hidden = |bytes: Vec<u8>| "*".repeat(bytes.len());
            let data = data.map(|bytes| {
                String::from_utf8(bytes).unwrap_or_else(|error| hidden(error.into_bytes()))
            });
            let data = text(data).await?.map(String::into_bytes);
            Fact::ClipboardSet { selection, data }
        }
        other => other,
    })
}
