//! The boundary every text crosses on its way out of the core.
//!
//! Inside, what a program printed is [`Raw`]: it cannot be serialised and its `Debug` hides the
//! content. What may leave is [`Filtered`]. [`Egress`] is the one place that turns one into the
//! other; a sink that takes `Filtered<T>` therefore cannot be reached by a text that no filter saw.
//!
//! Four layers: the terminal's [`Tokenizer`](greenroom_term::Tokenizer) (text and what is between),
//! [`rules`] and [`literals`] (what is a secret), both in [`redactor`] for streams and [`grid`] for
//! screens, always on; then [`filter`]s from outside, whose answers are kept in a [`ledger`].
//! Deliberately absent: any other way to make a `Filtered`, and anything that could make the
//! session wait: all of this runs where the reader is.

mod apply;
mod charset;
mod extra;
mod filter;
mod finder;
mod grid;
mod ledger;
mod lines;
mod literals;
mod redactor;
mod rules;
mod scanner;
mod terms;
mod test_file;
mod vault;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use greenroom_term::{AnnotatedKeyframe, Frame, Row};
use tokio::task::AbortHandle;

pub(crate) use apply::Applying;
pub use extra::{EXTRAS_MAX, Extra, ExtraError, LENGTH_MAX};
pub(crate) use filter::spawn_beside;
pub use filter::{BEHIND_MAX, Edit, Filters, Line, LineFilter, Unit};
pub(crate) use ledger::{Edits, Ledger};
pub(crate) use lines::{Assembler, Placed};
pub use literals::{Literals, VALUE_MIN};
pub use redactor::{EXPIRE, HOLD_MAX, LOOK_AHEAD, LOOK_BACK, Masked, PAUSE, Redactor, Shield};
pub use rules::Rules;
pub use scanner::VALUE;
pub(crate) use terms::Terms;
pub use test_file::{Spotted, spot};
pub(crate) use vault::random;
pub use vault::{HostKey, LoadedKey};

use crate::id::{Seq, SessionId};
use crate::lock::lock;

/// Text or bytes of a session as the program printed them.
#[derive(Clone)]
pub struct Raw<T>(T);

impl<T> Raw<T> {
    pub fn new(value: T) -> Raw<T> {
        Raw(value)
    }

    /// For whoever masks it, or asks filters about it, before it is shown.
    pub(crate) fn inside(self) -> T {
        self.0
    }
}

impl<T: AsRef<[u8]>> Raw<T> {
    /// How much there is.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().len()
    }
}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raw(hidden)")
    }
}

/// Text or bytes that went through [`Egress`] and may reach a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered<T>(T);

impl<T> Filtered<T> {
    pub fn get(&self) -> &T {
        &self.0
    }

    pub fn into_inner(self) -> T {
        self.0
    }

    /// A part or another form of it is as filtered as the whole.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Filtered<U> {
        Filtered(form(self.0))
    }
}

/// Who will read what is let out; decides which filters apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    /// The attach stream of the human at this machine; raw unless the configuration says otherwise.
    AttachLocal,
    /// An attach stream that leaves the machine or goes to a browser.
    AttachRemote,
    /// Output pushed to a subscriber of the client API.
    Stream,
    /// Pages of output, scrollback, and what a wait saw in them.
    Transcript,
    /// Recordings and exports.
    Recording,
    /// Screens, and what a wait saw on them.
    Snapshot,
    /// Titles, notifications and other facts in the event log; hook payloads and alerts.
    Event,
    /// The host's own logs and error texts.
    Log,
}

impl Sink {
    /// Every sink there is.
    pub const ALL: [Sink; 8] = [
        Sink::AttachLocal,
        Sink::AttachRemote,
        Sink::Stream,
        Sink::Transcript,
        Sink::Recording,
        Sink::Snapshot,
        Sink::Event,
        Sink::Log,
    ];
}

/// What a reader sees of secrets: masks, or what they hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrets {
    #[default]
    Masked,
    /// Only for a caller who may see secrets: whoever builds this has checked that.
    Unmasked,
}

/// What a text belongs to: the session, and how much of its output a reader has seen with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub session: SessionId,
    pub seq: Seq,
}

/// A replacement is no longer than this: a filter that answers with a book gets a mask.
const REPLACE_MAX: usize = 64 * 1024;

/// Rows of one question to a filter.
const ROWS_AT_ONCE: usize = 256;

/// What filters said about the rows of a screen, by their text: the next screen has most of them
/// again.
#[derive(Default)]
pub(crate) struct RowAnswers(HashMap<String, Edit>);

/// How a host filters.
#[derive(Clone, Debug)]
pub struct Redaction {
    /// For all sessions that were given no values.
    common: Arc<Shield>,
    /// The local human's own attach stream, too.
    attach: bool,
    /// For the values that sessions are given.
    pub(crate) key: HostKey,
}

impl Redaction {
    pub fn new(rules: Arc<Rules>, attach: bool, key: HostKey) -> Redaction {
        Redaction { common: Arc::new(Shield::new(rules, Literals::default())), attach, key }
    }
}

/// The filters of one session.
#[derive(Clone)]
pub struct Egress(Arc<Inner>);

struct Inner {
    shield: Arc<Shield>,
    attach: bool,
    /// Why nothing of the session may be shown.
    withheld: Option<String>,
    governed: RwLock<Option<Arc<Governed>>>,
}

/// A session with filters from outside.
pub(crate) struct Governed {
    /// `None`: there are no more, but what they answered holds.
    filter: Option<Arc<dyn LineFilter>>,
    /// What its answers were meant for when it came: they hold there, also when it is turned off.
    meant_for: Vec<Sink>,
    ledger: Arc<Ledger>,
    worker: Mutex<Option<AbortHandle>>,
}

impl Governed {
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Answers are gone and nobody is there to give them again.
    pub(crate) fn forgotten(&self) -> bool {
        let answers =
            |filter: &Arc<dyn LineFilter>| Sink::ALL.into_iter().any(|sink| filter.governs(sink));
        self.ledger.has_lost() && !self.filter.as_ref().is_some_and(answers)
    }

    /// What was answered about a part of the output. Where answers are gone for good, everything is
    /// masked.
    pub(crate) fn edits(&self, from: Seq, to: Seq) -> Edits {
        if self.forgotten() {
            Edits { floor: u64::MAX, list: Vec::new() }
        } else {
            self.ledger.edits(from, to)
        }
    }

    pub(crate) fn filter(&self) -> Arc<dyn LineFilter> {
        self.filter.clone().expect("a worker has a filter")
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    pub(crate) fn worked_by(&self, task: AbortHandle) {
        *lock(&self.worker) = Some(task);
    }

    /// Beyond this nothing may be shown; `None` if nobody answers for it.
    pub(crate) fn limit(&self, sink: Sink) -> Option<Seq> {
        let governs = self.filter.as_ref().is_some_and(|filter| filter.governs(sink));
        governs.then(|| self.ledger.answered())
    }

    /// Whether what was answered holds for `sink`. Without a filter nobody says any more for which
    /// it was meant.
    pub(crate) fn concerns(&self, sink: Sink) -> bool {
        let governs = |filter: &Arc<dyn LineFilter>| filter.governs(sink);
        self.meant_for.contains(&sink) || self.filter.as_ref().is_none_or(governs)
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("attach", &self.0.attach).finish_non_exhaustive()
    }
}

impl Egress {
    pub fn new(redaction: &Redaction, literals: Literals) -> Egress {
        Egress::noted(redaction, literals, false)
    }

    /// The same with the local human's own stream filtered if either says so.
    pub(crate) fn noted(redaction: &Redaction, literals: Literals, attach: bool) -> Egress {
        let shield = if literals.is_empty() {
            redaction.common.clone()
        } else {
            Arc::new(redaction.common.with(literals))
        };
        Egress::of(shield, redaction.attach || attach, None)
    }

    /// For a session of which it is not known what must be hidden: all text is masked, and `why` is
    /// told.
    pub(crate) fn withheld(redaction: &Redaction, attach: bool, why: String) -> Egress {
        let attach = redaction.attach || attach;
        Egress::of(Arc::new(redaction.common.opaque()), attach, Some(why))
    }

    /// Why readers see masks where they would see text if all were well.
    pub(crate) fn trouble(&self) -> Option<String> {
        let absent = || self.governed()?.filter.as_ref()?.absent();
        self.0.withheld.clone().or_else(absent).or_else(|| {
            let lost = self.governed()?.forgotten();
            lost.then(|| "what filters answered about it is lost".to_owned())
        })
    }

    /// The built-in rules alone, for texts that belong to no session.
    pub fn built_in() -> Egress {
        static SHIELD: OnceLock<Arc<Shield>> = OnceLock::new();
        let made = || Arc::new(Shield::new(Rules::built_in(), Literals::default()));
        Egress::of(SHIELD.get_or_init(made).clone(), true, None)
    }

    fn of(shield: Arc<Shield>, attach: bool, withheld: Option<String>) -> Egress {
        Egress(Arc::new(Inner { shield, attach, withheld, governed: RwLock::default() }))
    }

    /// Whether the local human's own stream is filtered.
    pub(crate) fn filters_attach(&self) -> bool {
        self.0.attach
    }

    pub(crate) fn shield(&self) -> Arc<Shield> {
        self.0.shield.clone()
    }

    /// A stream to `sink` from `at` on; `None` if it is not filtered.
    pub fn redactor(&self, sink: Sink, at: Seq) -> Option<Redactor> {
        (sink != Sink::AttachLocal || self.0.attach).then(|| self.redactor_at(at))
    }

    pub(crate) fn redactor_at(&self, at: Seq) -> Redactor {
        Redactor::new(self.shield(), at)
    }

    /// Has `filter` answer for what governed sinks show. What was answered before is in `dir`.
    pub(crate) fn govern(&self, filter: Arc<dyn LineFilter>, dir: &Path) -> std::io::Result<()> {
        let ledger = match self.governed() {
            Some(governed) => governed.ledger.clone(),
            None => Arc::new(Ledger::open(dir)?),
        };
        self.governed_by(Some(filter), ledger);
        Ok(())
    }

    /// The same, with answers that the next daemon will not know: better than to show what nobody
    /// answered for.
    pub(crate) fn govern_in_memory(&self, filter: Arc<dyn LineFilter>) {
        self.governed_by(Some(filter), Arc::new(Ledger::in_memory()));
    }

    /// Applies what an earlier daemon's filters answered, if they did. `must`: they did, whether or
    /// not it is there.
    pub(crate) fn recall(&self, dir: &Path, must: bool) -> std::io::Result<()> {
        let exists = Ledger::exists(dir);
        if exists || must {
            let ledger = Arc::new(Ledger::open(dir)?);
            if !exists {
                ledger.lose();
            }
            self.governed_by(None, ledger);
        }
        Ok(())
    }

    /// Answers are gone, and there is no place to keep new ones.
    pub(crate) fn recall_nothing(&self) {
        self.governed_by(None, Arc::new(Ledger::in_memory()));
    }

    /// Nobody answers for new output any more.
    pub(crate) fn free(&self) {
        if let Some(governed) = self.governed() {
            self.governed_by(None, governed.ledger.clone());
        }
    }

    /// From now on `filter` answers, or nobody does. What is in the ledger holds either way.
    fn governed_by(&self, filter: Option<Arc<dyn LineFilter>>, ledger: Arc<Ledger>) {
        let governs = |sink: &Sink| filter.as_ref().is_some_and(|filter| filter.governs(*sink));
        let meant_for = Sink::ALL.into_iter().filter(governs).collect();
        let worker = Mutex::default();
        let governed = Arc::new(Governed { filter, meant_for, ledger: ledger.clone(), worker });
        let mut slot = self.0.governed.write().unwrap_or_else(PoisonError::into_inner);
        let old = slot.replace(governed);
        drop(slot);
        // Its worker ends with it; the ledger is the new one's now.
        if let Some(task) = old.and_then(|old| lock(&old.worker).take()) {
            task.abort();
        }
        ledger.wake();
    }

    pub(crate) fn governed(&self) -> Option<Arc<Governed>> {
        self.0.governed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether readers of `sink` see only what a filter has answered for.
    pub fn is_governed(&self, sink: Sink) -> bool {
        self.governing(sink).is_some()
    }

    /// Who answers for what `sink` shows. The local attach stream, where it is filtered at all, is
    /// like a remote one.
    fn governing(&self, sink: Sink) -> Option<Arc<dyn LineFilter>> {
        let filter = self.governed()?.filter.clone()?;
        let as_remote = sink == Sink::AttachLocal && self.0.attach;
        let governs = filter.governs(sink) || (as_remote && filter.governs(Sink::AttachRemote));
        governs.then_some(filter)
    }

    /// A filter's own words are text like any other, and not endless.
    pub(crate) fn admit(&self, edit: Edit) -> Edit {
        match edit {
            Edit::Replace(text) if text.len() > REPLACE_MAX => Edit::Mask,
            Edit::Replace(text) => {
                let shown: String =
                    text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
                Edit::Replace(grid::text(&self.shield(), &shown))
            }
            other => other,
        }
    }

    /// A masked screen as filters of `sink` want it shown. They are asked about what is not `known`
    /// from the last one.
    pub(crate) async fn governed_frame(
        &self,
        sink: Sink,
        origin: Origin,
        frame: Filtered<Arc<Frame>>,
        known: &mut RowAnswers,
    ) -> Filtered<Arc<Frame>> {
        if !self.is_governed(sink) {
            return frame;
        }
        let mut shown = Frame::clone(&frame.0);
        let cols = shown.size.cols();
        self.governed_rows(sink, origin, &mut shown.rows, cols, known).await;
        if let Some(title) = shown.title.take() {
            shown.title =
                self.governed_text(sink, origin, Filtered(title)).await.map(Filtered::into_inner);
        }
        Filtered(Arc::new(shown))
    }

    /// Masked scrollback as filters want it shown.
    pub(crate) async fn governed_history(
        &self,
        origin: Origin,
        mut rows: Filtered<Vec<Row>>,
        cols: u16,
    ) -> Filtered<Vec<Row>> {
        let known = &mut RowAnswers::default();
        self.governed_rows(Sink::Transcript, origin, &mut rows.0, cols, known).await;
        rows
    }

    /// Rows as filters want them shown; those whose sink nobody governs as they are.
    async fn governed_rows(
        &self,
        sink: Sink,
        origin: Origin,
        rows: &mut [Row],
        cols: u16,
        known: &mut RowAnswers,
    ) {
        let Some(filter) = self.governing(sink) else { return };
        let cols = usize::from(cols);
        let groups = grid::groups(rows, cols);
        let mut now = RowAnswers::default();
        for (_, text) in &groups {
            if let Some(edit) = known.0.remove(text) {
                now.0.insert(text.clone(), edit);
            }
        }
        let mut new: Vec<String> = groups.iter().map(|(_, text)| text.clone()).collect();
        new.retain(|text| !now.0.contains_key(text));
        new.sort_unstable();
        new.dedup();
        let edits = self.ask(&*filter, origin, Unit::Rows, &new).await;
        now.0.extend(new.into_iter().zip(edits));
        for (range, text) in groups {
            let edit = now.0.get(&text).unwrap_or(&Edit::Mask);
            grid::show(&mut rows[range], cols, edit);
        }
        *known = now;
    }

    /// A masked text as filters of `sink` want it told, line by line; `None` if nothing of it is
    /// left.
    pub(crate) async fn governed_text(
        &self,
        sink: Sink,
        origin: Origin,
        text: Filtered<String>,
    ) -> Option<Filtered<String>> {
        let Some(filter) = self.governing(sink) else { return Some(text) };
        let lines: Vec<String> = text.0.split('\n').map(str::to_owned).collect();
        let edits = self.ask(&*filter, origin, Unit::Line, &lines).await;
        let shown: Vec<String> = lines
            .into_iter()
            .zip(edits)
            .filter_map(|(line, edit)| match edit {
                Edit::Pass => Some(line),
                Edit::Replace(text) => Some(text),
                Edit::Mask => Some(grid::stars(&line)),
                Edit::Drop => None,
            })
            .collect();
        (!shown.is_empty()).then(|| Filtered(shown.join("\n")))
    }

    /// One edit for each text. A missing one is a mask.
    async fn ask(
        &self,
        filter: &dyn LineFilter,
        Origin { session, seq }: Origin,
        unit: Unit,
        texts: &[String],
    ) -> Vec<Edit> {
        let mut all = Vec::with_capacity(texts.len());
        for some in texts.chunks(ROWS_AT_ONCE) {
            let line = |text: &String| Line { seq, unit, text: text.clone(), partial: false };
            let lines: Vec<Line> = some.iter().map(line).collect();
            let mut edits = filter.filter(session, &lines).await;
            edits.resize(lines.len(), Edit::Mask);
            all.extend(edits.into_iter().map(|edit| self.admit(edit)));
        }
        all
    }

    /// A text as a whole.
    pub fn text(&self, text: Raw<String>) -> Filtered<String> {
        Filtered(grid::text(&self.shield(), &text.0))
    }

    /// Bytes as a whole, as many as there were.
    pub fn bytes(&self, bytes: Raw<Vec<u8>>) -> Filtered<Vec<u8>> {
        Filtered(Redactor::whole(self.shield(), &bytes.0))
    }

    /// Masks a screen.
    pub fn frame(&self, frame: Raw<Arc<Frame>>) -> Filtered<Arc<Frame>> {
        Filtered(grid::frame(&self.shield(), &frame.0))
    }

    /// A keyframe. Before its cursor the last `undecided` characters are hidden, too: they may be
    /// the beginning of a secret, and what follows is decided only after the keyframe was sent.
    pub(crate) fn keyframe(
        &self,
        keyframe: Raw<AnnotatedKeyframe>,
        undecided: usize,
    ) -> Filtered<Vec<u8>> {
        let AnnotatedKeyframe { bytes, to_cursor, wraps } = keyframe.0;
        let mut redactor = self.redactor_at(Seq(0)).joining(wraps);
        let mut out = Vec::with_capacity(bytes.len());
        redactor.feed(&bytes, &mut out);
        // Not the end of anything: a keyframe may stop in the middle of a title.
        redactor.expire(&mut out);
        let end = to_cursor.min(out.len());
        redactor::mask_last(&mut out[..end], undecided);
        Filtered(out)
    }

    /// Rows of scrollback, `cols` wide.
    pub fn rows(&self, rows: Raw<Vec<Row>>, cols: u16) -> Filtered<Vec<Row>> {
        Filtered(grid::rows(&self.shield(), rows.0, usize::from(cols)))
    }

    /// What was made of filtered text only.
    pub(crate) fn made_of_filtered<T>(&self, value: T) -> Filtered<T> {
        Filtered(value)
    }

    /// As it is, for a caller who may see secrets.
    pub(crate) fn unmasked<T>(&self, value: Raw<T>) -> Filtered<T> {
        Filtered(value.0)
    }
}

#[cfg(test)]
mod tests;
