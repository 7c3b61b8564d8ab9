//! The boundary every text crosses on its way out of the core.
//!
//! Inside, what a program printed is [`Raw`]: it cannot be serialised and its `Debug` hides the content. What may
//! leave is [`Filtered`]. [`Egress`] is the one place that turns one into the other; a sink that takes `Filtered<T>`
//! therefore cannot be reached by a text that no filter saw.
//!
//! Four layers: [`lexer`] (text and what is between), [`rules`] and [`literals`] (what is a secret), both in
//! [`redactor`] for streams and [`grid`] for screens, always on; then [`filter`]s from outside, whose answers are kept
//! in a [`ledger`]. Deliberately absent: any other way to make a `Filtered`, and anything that could make the session
//! wait: all of this runs where the reader is.

mod apply;
mod charset;
mod extra;
mod filter;
mod finder;
pub(crate) mod flow;
mod grid;
mod lane;
mod ledger;
mod lexer;
mod lines;
mod literals;
mod redactor;
mod rules;
mod terms;
mod test_file;
mod vault;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use greenroom_term::{Frame, Row};
use tokio::task::AbortHandle;

pub(crate) use apply::Applying;
pub use extra::{EXTRAS_MAX, Extra, ExtraError, LENGTH_MAX};
pub use filter::{BEHIND_MAX, Filters, Line, LineFilter, Unit, Verdict};
pub use flow::{EXPIRE, PAUSE};
pub use lane::VALUE;
pub(crate) use ledger::{Edit, Edits, Ledger, REPLACE_MAX};
pub(crate) use lines::{Assembler, Placed};
pub use literals::{Literals, VALUE_MIN};
pub use redactor::{HOLD_MAX, LOOK_AHEAD, LOOK_BACK, Masked, Redactor, Shield};
pub use rules::Rules;
pub(crate) use terms::Terms;
pub use test_file::{Spotted, spot};
pub use vault::{HostKey, LoadedKey};

use crate::id::{Seq, SessionId};

/// Text or bytes of a session as the program printed them.
#[derive(Clone)]
pub struct Raw<T>(T);

impl<T> Raw<T> {
    pub fn new(value: T) -> Raw<T> {
        Raw(value)
    }
}

impl Raw<flow::Picture> {
    /// For the one who asks filters about it before it is shown.
    pub(crate) fn inside(self) -> flow::Picture {
        self.0
    }
}

impl<T: AsRef<[u8]>> Raw<T> {
    /// How much there is.
    pub fn len(&self) -> usize {
        self.0.as_ref().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// Its name in logs and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sink::AttachLocal => "attach.local",
            Sink::AttachRemote => "attach.remote",
            Sink::Stream => "stream",
            Sink::Transcript => "transcript",
            Sink::Recording => "recording",
            Sink::Snapshot => "snapshot",
            Sink::Event => "event",
            Sink::Log => "log",
        }
    }
}

/// Whether a reader sees masks or what they hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    #[default]
    Masked,
    /// Only for a caller who may see secrets: whoever builds this has checked that.
    Bare,
}

/// Rows of one question to a filter.
const ROWS_AT_ONCE: usize = 256;

/// What filters said about the rows of a screen, by their text: the next screen has most of them again.
#[derive(Default)]
pub(crate) struct Known(HashMap<String, Verdict>);

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
    #[must_use]
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
    fn without_filter(ledger: Arc<Ledger>) -> Governed {
        Governed { filter: None, meant_for: Vec::new(), ledger, worker: Mutex::default() }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Answers are gone and nobody is there to give them again.
    pub fn forgotten(&self) -> bool {
        let answers =
            |filter: &Arc<dyn LineFilter>| Sink::ALL.into_iter().any(|sink| filter.governs(sink));
        self.ledger.has_lost() && !self.filter.as_ref().is_some_and(answers)
    }

    /// What was answered about a part of the output. Where answers are gone for good, everything is masked.
    pub fn edits(&self, from: Seq, to: Seq) -> Edits {
        match self.forgotten() {
            true => Edits { floor: u64::MAX, list: Vec::new() },
            false => self.ledger.edits(from, to),
        }
    }

    pub fn filter(&self) -> Arc<dyn LineFilter> {
        self.filter.clone().expect("a worker has a filter")
    }

    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    pub fn worked_by(&self, task: AbortHandle) {
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Beyond this nothing may be shown; `None` if nobody answers for it.
    pub fn limit(&self, sink: Sink) -> Option<Seq> {
        let governs = self.filter.as_ref().is_some_and(|filter| filter.governs(sink));
        governs.then(|| self.ledger.answered())
    }

    /// Whether what was answered holds for `sink`. Without a filter nobody says any more for which it was meant.
    pub fn concerns(&self, sink: Sink) -> bool {
        let governs = |filter: &Arc<dyn LineFilter>| filter.governs(sink);
        self.meant_for.contains(&sink) || self.filter.as_ref().is_none_or(governs)
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = worker.take() {
            task.abort();
        }
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("attach", &self.0.attach).finish_non_exhaustive()
    }
}

impl Egress {
    #[must_use]
    pub fn new(redaction: &Redaction, literals: Literals) -> Egress {
        let shield = match literals.is_empty() {
            true => redaction.common.clone(),
            false => Arc::new(redaction.common.with(literals)),
        };
        Egress::of(shield, redaction.attach)
    }

    /// The same with the local human's own stream filtered if either says so.
    #[must_use]
    pub(crate) fn noted(redaction: &Redaction, literals: Literals, attach: bool) -> Egress {
        let filtered = Redaction { attach: redaction.attach || attach, ..redaction.clone() };
        Egress::new(&filtered, literals)
    }

    /// For a session of which it is not known what must be hidden: all text is masked, and `why` is told.
    #[must_use]
    pub(crate) fn withheld(redaction: &Redaction, attach: bool, why: String) -> Egress {
        let attach = redaction.attach || attach;
        Egress::made(Arc::new(redaction.common.opaque()), attach, Some(why))
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
    #[must_use]
    pub fn built_in() -> Egress {
        static SHIELD: OnceLock<Arc<Shield>> = OnceLock::new();
        let made = || Arc::new(Shield::new(Rules::built_in(), Literals::default()));
        Egress::of(SHIELD.get_or_init(made).clone(), true)
    }

    fn of(shield: Arc<Shield>, attach: bool) -> Egress {
        Egress::made(shield, attach, None)
    }

    fn made(shield: Arc<Shield>, attach: bool, withheld: Option<String>) -> Egress {
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
    pub(crate) fn govern(
        &self,
        filter: Arc<dyn LineFilter>,
        dir: &Path,
    ) -> std::io::Result<Arc<Governed>> {
        let ledger = match self.governed() {
            Some(governed) => governed.ledger.clone(),
            None => Arc::new(Ledger::open(dir)?),
        };
        Ok(self.answered_by(filter, ledger))
    }

    /// The same, with answers that the next daemon will not know: better than to show what nobody answered for.
    pub(crate) fn govern_in_memory(&self, filter: Arc<dyn LineFilter>) {
        self.answered_by(filter, Arc::new(Ledger::in_memory()));
    }

    fn answered_by(&self, filter: Arc<dyn LineFilter>, ledger: Arc<Ledger>) -> Arc<Governed> {
        let meant_for = Sink::ALL.into_iter().filter(|sink| filter.governs(*sink)).collect();
        self.governed_by(Governed {
            filter: Some(filter),
            meant_for,
            ledger,
            worker: Mutex::default(),
        })
    }

    /// Applies what an earlier daemon's filters answered, if they did. `must`: they did, whether or not it is there.
    pub(crate) fn recall(&self, dir: &Path, must: bool) -> std::io::Result<()> {
        let exists = Ledger::exists(dir);
        if exists || must {
            let ledger = Arc::new(Ledger::open(dir)?);
            if !exists {
                ledger.lose();
            }
            self.governed_by(Governed::without_filter(ledger));
        }
        Ok(())
    }

    /// Answers are gone, and there is no place to keep new ones.
    pub(crate) fn recall_nothing(&self) {
        self.governed_by(Governed::without_filter(Arc::new(Ledger::in_memory())));
    }

    /// Nobody answers for new output any more.
    pub(crate) fn free(&self) {
        if let Some(governed) = self.governed() {
            let ledger = governed.ledger.clone();
            self.governed_by(Governed::without_filter(ledger));
        }
    }

    fn governed_by(&self, governed: Governed) -> Arc<Governed> {
        let governed = Arc::new(governed);
        let mut slot = self.0.governed.write().unwrap_or_else(PoisonError::into_inner);
        let old = slot.replace(governed.clone());
        drop(slot);
        // Its worker ends with it; the ledger is the new one's now.
        if let Some(old) = old
            && let Some(task) = old.worker.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            task.abort();
        }
        governed.ledger.wake();
        governed
    }

    pub(crate) fn governed(&self) -> Option<Arc<Governed>> {
        self.0.governed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether readers of `sink` see only what a filter has answered for.
    pub fn is_governed(&self, sink: Sink) -> bool {
        self.governing(sink).is_some()
    }

    /// Who answers for what `sink` shows. The local attach stream, where it is filtered at all, is like a remote one.
    fn governing(&self, sink: Sink) -> Option<Arc<dyn LineFilter>> {
        let filter = self.governed()?.filter.clone()?;
        let as_remote = sink == Sink::AttachLocal && self.0.attach;
        let governs = filter.governs(sink) || (as_remote && filter.governs(Sink::AttachRemote));
        governs.then_some(filter)
    }

    /// A filter's own words are text like any other.
    pub(crate) fn replacement(&self, text: &str) -> String {
        let shown: String = text.chars().filter(|c| !c.is_control() || *c == '\t').collect();
        grid::text(&self.shield(), &shown)
    }

    /// A masked screen as filters of `sink` want it shown. They are asked about what is not `known` from the last one.
    pub(crate) async fn governed_frame(
        &self,
        sink: Sink,
        place: (SessionId, Seq),
        frame: Filtered<Arc<Frame>>,
        known: &mut Known,
    ) -> Filtered<Arc<Frame>> {
        if !self.is_governed(sink) {
            return frame;
        }
        let mut shown = Frame::clone(&frame.0);
        let cols = shown.size.cols();
        self.governed_rows(sink, place, (&mut shown.rows, cols), known).await;
        if let Some(title) = shown.title.take() {
            shown.title =
                self.governed_text(sink, place, Filtered(title)).await.map(Filtered::into_inner);
        }
        Filtered(Arc::new(shown))
    }

    /// Masked scrollback as filters want it shown.
    pub(crate) async fn governed_history(
        &self,
        place: (SessionId, Seq),
        mut rows: Filtered<Vec<Row>>,
        cols: u16,
    ) -> Filtered<Vec<Row>> {
        let known = &mut Known::default();
        self.governed_rows(Sink::Transcript, place, (&mut rows.0, cols), known).await;
        rows
    }

    /// Rows as filters want them shown; those whose sink nobody governs as they are.
    async fn governed_rows(
        &self,
        sink: Sink,
        place: (SessionId, Seq),
        (rows, cols): (&mut [Row], u16),
        known: &mut Known,
    ) {
        let Some(filter) = self.governing(sink) else { return };
        let cols = usize::from(cols);
        let groups = grid::groups(rows, cols);
        let mut now = Known::default();
        for (_, text) in &groups {
            if let Some(verdict) = known.0.remove(text) {
                now.0.insert(text.clone(), verdict);
            }
        }
        let mut new: Vec<String> = groups.iter().map(|(_, text)| text.clone()).collect();
        new.retain(|text| !now.0.contains_key(text));
        new.sort_unstable();
        new.dedup();
        let verdicts = self.verdicts(&*filter, place, Unit::Rows, &new).await;
        now.0.extend(new.into_iter().zip(verdicts));
        for (range, text) in groups {
            let verdict = now.0.get(&text).unwrap_or(&Verdict::Mask);
            grid::show(&mut rows[range], cols, verdict);
        }
        *known = now;
    }

    /// A masked text as filters of `sink` want it told, line by line; `None` if nothing of it is left.
    pub(crate) async fn governed_text(
        &self,
        sink: Sink,
        place: (SessionId, Seq),
        text: Filtered<String>,
    ) -> Option<Filtered<String>> {
        let Some(filter) = self.governing(sink) else { return Some(text) };
        let lines: Vec<String> = text.0.split('\n').map(str::to_owned).collect();
        let verdicts = self.verdicts(&*filter, place, Unit::Line, &lines).await;
        let shown: Vec<String> = lines
            .into_iter()
            .zip(verdicts)
            .filter_map(|(line, verdict)| match verdict {
                Verdict::Pass => Some(line),
                Verdict::Replace(text) => Some(text),
                Verdict::Mask => Some(grid::stars(&line)),
                Verdict::Drop => None,
            })
            .collect();
        (!shown.is_empty()).then(|| Filtered(shown.join("\n")))
    }

    /// One verdict for each text. A missing one is a mask.
    async fn verdicts(
        &self,
        filter: &dyn LineFilter,
        (session, seq): (SessionId, Seq),
        unit: Unit,
        texts: &[String],
    ) -> Vec<Verdict> {
        let mut all = Vec::with_capacity(texts.len());
        for some in texts.chunks(ROWS_AT_ONCE) {
            let line = |text: &String| Line { seq, unit, text: text.clone(), partial: false };
            let lines: Vec<Line> = some.iter().map(line).collect();
            let mut verdicts = filter.filter(session, &lines).await;
            verdicts.resize(lines.len(), Verdict::Mask);
            all.extend(verdicts.into_iter().map(|verdict| match verdict {
                Verdict::Replace(text) => Verdict::Replace(self.replacement(&text)),
                other => other,
            }));
        }
        all
    }

    /// A text as a whole.
    pub fn text(&self, _sink: Sink, text: Raw<String>) -> Filtered<String> {
        Filtered(grid::text(&self.shield(), &text.0))
    }

    /// Bytes as a whole, as many as there were.
    pub fn bytes(&self, _sink: Sink, bytes: Raw<Vec<u8>>) -> Filtered<Vec<u8>> {
        Filtered(Redactor::whole(self.shield(), &bytes.0))
    }

    /// A screen.
    pub fn frame(&self, _sink: Sink, frame: Raw<Arc<Frame>>) -> Filtered<Arc<Frame>> {
        Filtered(grid::frame(&self.shield(), &frame.0))
    }

    /// Rows of scrollback, `cols` wide.
    pub fn rows(&self, _sink: Sink, rows: Raw<Vec<Row>>, cols: u16) -> Filtered<Vec<Row>> {
        Filtered(grid::rows(&self.shield(), rows.0, usize::from(cols)))
    }

    /// What was made of filtered text only.
    pub(crate) fn made_of_filtered<T>(&self, value: T) -> Filtered<T> {
        Filtered(value)
    }

    /// As it is, for a caller who may see secrets.
    pub(crate) fn bare<T>(&self, value: Raw<T>) -> Filtered<T> {
        Filtered(value.0)
    }
}

#[cfg(test)]
mod tests;
