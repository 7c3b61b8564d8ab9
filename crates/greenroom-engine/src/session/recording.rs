//! The journal as a recording: everything in order, with what was printed masked.
//!
//! In: items of the journal. Out: the same items; their bytes are as many as they were. An item
//! waits until the next one has decided its last bytes, so it keeps its own time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use greenroom_term::{Frame, Size};

use crate::egress::{Applying, Edits, Egress, Filtered, Raw, Redactor, Sink};
use crate::error::EngineError;
use crate::id::Seq;
use crate::journal::{Item, JournalReader, Note, ReplayFrom};
use crate::session::SessionHandle;

/// Takes items in order; output and keyframes come with their filtered bytes.
pub type RecordingSink<'a> = dyn FnMut(Item<'_>, Option<Filtered<&[u8]>>) -> ControlFlow<()> + 'a;

/// A view of the journal for exports and replays.
pub struct Recording {
    reader: JournalReader,
    egress: Egress,
    /// Nothing more will be printed.
    ended: bool,
}

impl SessionHandle {
    /// The session's journal as a recording.
    pub async fn recording(&self) -> Result<Recording, EngineError> {
        let ended = self.change().ended.is_some();
        let reader = self.settled_reader().await?;
        Ok(Recording { reader, egress: self.egress().clone(), ended })
    }
}

impl Recording {
    pub fn span(&self) -> (Seq, Seq) {
        self.reader.span()
    }

    /// A screen that was painted from what [`Recording::replay`] gave out.
    pub fn frame(&self, frame: Frame) -> Filtered<Arc<Frame>> {
        self.egress.frame(Raw::new(Arc::new(frame)))
    }

    /// Hands every item in order to `sink`; output comes filtered. Blocks. True if it ends early,
    /// where filters have not answered yet.
    pub fn replay(&self, sink: &mut RecordingSink<'_>) -> Result<bool, EngineError> {
        let governed = self.egress.governed().filter(|governed| governed.concerns(Sink::Recording));
        let limit = governed.as_ref().and_then(|governed| governed.limit(Sink::Recording));
        let mut masking = MaskedReplay {
            egress: &self.egress,
            redactor: self.egress.redactor_at(self.reader.span().0),
            waiting: VecDeque::new(),
            out: Vec::new(),
            sink,
            stopped: false,
            withheld: false,
            limit: limit.unwrap_or(Seq(u64::MAX)),
            applying: governed
                .map(|governed| Applying::new(governed.edits(Seq(0), Seq(u64::MAX)), true)),
        };
        self.reader.replay(ReplayFrom::Oldest, &mut |item| masking.item(item))?;
        masking.finish(self.ended);
        Ok(masking.withheld)
    }
}

/// An item that waits for its bytes to be decided.
enum Waiting {
    Output { seq: Seq, time_ns: u64, len: usize },
    Keyframe { seq: Seq, time_ns: u64, size: Size, bytes: Vec<u8> },
    Note { seq: Seq, time_ns: u64, note: Note },
    Gap { from: Seq, to: Seq },
}

struct MaskedReplay<'a, 'b> {
    egress: &'a Egress,
    redactor: Redactor,
    waiting: VecDeque<Waiting>,
    /// Decided bytes of the outputs that wait, from the first on.
    out: Vec<u8>,
    sink: &'a mut RecordingSink<'b>,
    stopped: bool,
    /// There is more, but it may not be shown yet.
    withheld: bool,
    /// Nothing from here on may be shown yet.
    limit: Seq,
    /// What filters answered; a recording keeps every byte's number.
    applying: Option<Applying>,
}

impl MaskedReplay<'_, '_> {
    fn item(&mut self, item: Item<'_>) -> ControlFlow<()> {
        let waiting = match item {
            Item::Output { seq, time_ns, bytes } => {
                self.redactor.feed(bytes, &mut self.out);
                Waiting::Output { seq, time_ns, len: bytes.len() }
            }
            Item::Keyframe { seq, time_ns, size, bytes } => {
                // Bytes are missing before it, or it is the start.
                self.redactor.skip_to(seq, &mut self.out);
                Waiting::Keyframe { seq, time_ns, size, bytes: bytes.to_vec() }
            }
            Item::Gap { from, to } => {
                self.redactor.skip_to(to, &mut self.out);
                Waiting::Gap { from, to }
            }
            Item::Note { seq, time_ns, note } => {
                let note = match note.clone() {
                    Note::Mark(text) => Note::Mark(self.egress.text(Raw::new(text)).into_inner()),
                    other => other,
                };
                Waiting::Note { seq, time_ns, note }
            }
        };
        self.waiting.push_back(waiting);
        self.give();
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn finish(&mut self, ended: bool) {
        if ended {
            self.redactor.finish(&mut self.out);
        } else {
            self.redactor.expire(&mut self.out);
        }
        self.give();
    }

    /// Gives out what has all of its bytes.
    fn give(&mut self) {
        let (mut used, mut edited) = (0, Vec::new());
        while let Some(first) = self.waiting.front().filter(|_| !self.stopped) {
            let (item, bytes) = match first {
                Waiting::Output { len, .. } if used + len > self.out.len() => break,
                Waiting::Output { seq, .. } if *seq >= self.limit => {
                    (self.stopped, self.withheld) = (true, true);
                    break;
                }
                Waiting::Output { seq, time_ns, len } => {
                    let shown = usize::try_from(self.limit.since(*seq)).unwrap_or(usize::MAX);
                    let shown = shown.min(*len);
                    self.withheld = shown < *len;
                    let bytes = &self.out[used..used + shown];
                    used += len;
                    edited.clear();
                    let bytes = match &mut self.applying {
                        Some(applying) => {
                            applying.feed(*seq, bytes, Seq(0), &mut edited);
                            edited.as_slice()
                        }
                        None => bytes,
                    };
                    let item = Item::Output { seq: *seq, time_ns: *time_ns, bytes };
                    (item, Some(self.egress.made_of_filtered(bytes)))
                }
                Waiting::Keyframe { seq, time_ns, size, bytes } => {
                    let masked = self.egress.bytes(Raw::new(bytes.clone()));
                    let mut bytes = masked.into_inner();
                    if self.limit < Seq(u64::MAX) {
                        bytes = unanswered(&bytes);
                    }
                    let (seq, time_ns, size) = (*seq, *time_ns, *size);
                    let item = Item::Keyframe { seq, time_ns, size, bytes: &bytes };
                    let filtered = self.egress.made_of_filtered(bytes.as_slice());
                    self.stopped = (self.sink)(item, Some(filtered)).is_break();
                    self.waiting.pop_front();
                    continue;
                }
                Waiting::Note { seq, time_ns, note } => {
                    (Item::Note { seq: *seq, time_ns: *time_ns, note }, None)
                }
                Waiting::Gap { from, to } => (Item::Gap { from: *from, to: *to }, None),
            };
            self.stopped = (self.sink)(item, bytes).is_break() || self.withheld;
            self.waiting.pop_front();
        }
        self.out.drain(..used);
    }
}

/// A picture of output that is gone, and with it what filters said: none of its text is shown.
fn unanswered(keyframe: &[u8]) -> Vec<u8> {
    let edits = Edits { floor: u64::MAX, list: Vec::new() };
    let mut out = Vec::with_capacity(keyframe.len());
    Applying::new(edits, true).feed(Seq(0), keyframe, Seq(0), &mut out);
    out
}
