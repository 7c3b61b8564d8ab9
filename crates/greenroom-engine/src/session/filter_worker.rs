//! Filters from outside (L3): a worker per governed session reads behind the journal and has lines
//! answered for.
//!
//! The session knows nothing of it. What was not answered for is not shown to a governed reader; a
//! filter that is slow makes those readers late, and one that is much too slow makes them see
//! masks. In: the session's masked output. Out: entries in its ledger, in order. Deliberately
//! absent: deadlines and failures of filters, which whoever plays [`LineFilter`] turns into edits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::egress::{
    Assembler, BEHIND_MAX, Edit, Governed, Line, LineFilter, Placed, Secrets, Sink, Terms,
    spawn_beside,
};
use crate::error::EngineError;
use crate::events::Fact;
use crate::id::Seq;
use crate::session::{Change, Page, SessionHandle};

/// Lines of one question, and their text. A filter that is quick is asked about more and more at
/// once; one that is slow about fewer, so that what it has answered for can be shown meanwhile.
const BATCH_FIRST: usize = 16;
const BATCH_LINES: usize = 256;
const BATCH_BYTES: usize = 64 * 1024;

/// An answer within this is quick, one after that is slow.
const QUICK: Duration = Duration::from_millis(200);
const SLOW: Duration = Duration::from_secs(1);

/// Questions under way at once.
const QUESTIONS_MAX: usize = 4;

/// Output read at once.
const READ_BYTES: usize = 256 * 1024;

/// A line without an end is asked about after this long.
const PARTIAL: Duration = Duration::from_millis(150);

/// Output that is undecided for the rules is looked at again after this.
const AGAIN: Duration = Duration::from_millis(50);

/// Wake-ups of a busy session are taken together.
const LINGER: Duration = Duration::from_millis(8);

impl SessionHandle {
    /// From now on `filter` answers for what governed readers see; `None` lets new output pass
    /// again. What was answered stays answered, also by an earlier daemon.
    pub fn govern(&self, filter: Option<Arc<dyn LineFilter>>) -> Result<(), EngineError> {
        let dir = self.shared.parts.dir.join(self.id().to_string());
        let keep = |source| EngineError::KeepAnswers { id: self.id(), source };
        match filter {
            None => self.egress().free(),
            Some(filter) => {
                self.egress().govern(filter, &dir).map_err(keep)?;
                self.begin_answering();
            }
        }
        Ok(())
    }

    /// Notes with the session who filters it now. False if that could not be written.
    fn note_filter(&self, filter: &dyn LineFilter) -> bool {
        let (id, dir) = (self.id(), self.shared.parts.dir.join(self.id().to_string()));
        let noted = Terms::read(&dir, id).and_then(|terms| {
            // Without one the session is withheld, or an older version started it: a note would say
            // too much.
            let Some(mut terms) = terms else { return Ok(()) };
            let note = filter.note();
            if note.is_none() || terms.filters == note {
                return Ok(());
            }
            terms.filters = note;
            terms.write(&dir, id)
        });
        if let Err(error) = &noted {
            tracing::warn!(session = %id, %error, "noting who filters a session");
        }
        noted.is_ok()
    }

    /// Sets to work for the filter this session has, if it has one.
    pub(crate) fn begin_answering(&self) {
        let governed = self.egress().governed().filter(|governed| governed.has_filter());
        let Some(governed) = governed else { return };
        let work = FilterWorker::new(self.clone(), governed.clone()).run();
        let task = spawn_beside(self.shared.parts.filters.as_ref(), work);
        governed.worked_by(task.abort_handle());
    }
}

/// A question under way: lines that filters are being asked about.
struct Question {
    task: JoinHandle<Vec<Edit>>,
    lines: Vec<Placed>,
    /// Everything before this is answered with them.
    upto: Seq,
    asked_at: Instant,
}

struct FilterWorker {
    handle: SessionHandle,
    governed: Arc<Governed>,
    read: Seq,
    lines: Assembler,
    questions: VecDeque<Question>,
    /// Lines of the next question.
    batch: usize,
    /// When a line without an end is asked about.
    partial_at: Option<Instant>,
    /// The edition of the note that lies beside the journal.
    edition: Option<u64>,
}

impl FilterWorker {
    fn new(handle: SessionHandle, governed: Arc<Governed>) -> FilterWorker {
        let read = governed.ledger().answered();
        let lines = Assembler::new(read);
        let (questions, batch) = (VecDeque::new(), BATCH_FIRST);
        FilterWorker {
            handle,
            governed,
            read,
            lines,
            questions,
            batch,
            partial_at: None,
            edition: None,
        }
    }

    /// One round: answer what needs no question, read on if there is room for questions, ask, wait
    /// for whatever comes first. Answers are entered in the order of the questions, or readers
    /// would see a gap that closes later.
    async fn run(mut self) {
        self.note();
        let mut changes = self.handle.changes();
        self.woken(&mut changes).await;
        loop {
            // AnnotatedKeyframe as seen before it is read up to: output that comes meanwhile ends
            // the wait below at once.
            let change = *changes.borrow_and_update();
            self.skip_what_is_too_much(change.seq).await;
            // Without questions only: what is entered here comes before their lines.
            if self.questions.is_empty() {
                // Never a text: that would stand for all of the output at once.
                if let Some(edit @ (Edit::Mask | Edit::Pass)) = self.governed.filter().foregone() {
                    self.answer_up_to(change.seq, edit);
                }
            }
            let over = change.ended.is_some() || change.closed;
            let mut again = None;
            if self.questions.len() < QUESTIONS_MAX && self.read < change.seq {
                match self.read_on().await {
                    Ok(true) => {}
                    Ok(false) => again = Some(Instant::now() + AGAIN),
                    Err(_) if change.closed => return,
                    Err(error) => {
                        tracing::warn!(session = %self.handle.id(), %error, "reading for filters");
                        again = Some(Instant::now() + Duration::from_secs(1));
                    }
                }
            }
            let at_end = self.read >= change.seq;
            // A prompt has no line end: it is asked about when the program rests, or nobody would
            // ever see it.
            if (at_end && over) || self.partial_at.is_some_and(|at| at <= Instant::now()) {
                self.lines.flush(self.read);
                self.partial_at = None;
            }
            self.ask();
            let idle = self.questions.is_empty() && !self.lines.has_lines();
            if at_end && over && idle {
                self.settle();
                return;
            }
            // More to read and room for its questions: waiting for a change would wait for the next
            // output.
            if !at_end && again.is_none() && self.questions.len() < QUESTIONS_MAX {
                continue;
            }
            self.wait(&mut changes, again).await;
        }
    }

    /// How far the output of an ended session goes is known only once somebody wants to read it.
    async fn woken(&self, changes: &mut watch::Receiver<Change>) {
        let asleep =
            |change: Change| change.ended.is_some() && change.seq == Seq(0) && !change.closed;
        if asleep(*changes.borrow_and_update()) {
            // An error says that the session is gone, and so is its last reader.
            let _ = changes.changed().await;
        }
    }

    async fn wait(&mut self, changes: &mut watch::Receiver<Change>, again: Option<Instant>) {
        let far = Instant::now() + Duration::from_secs(3600);
        let at = again.unwrap_or(far).min(self.partial_at.unwrap_or(far));
        let room = self.questions.len() < QUESTIONS_MAX;
        let asking = !self.questions.is_empty();
        // Only the oldest question is waited for: a later one that is answered first must not be
        // entered before it.
        let first = self.questions.front_mut().map(|question| &mut question.task);
        tokio::select! {
            // Without an answer the filter's task panicked; `answered` then masks every line of the
            // question.
            answer = async { first.expect("guarded by `asking`").await }, if asking => {
                self.answered(answer.unwrap_or_default());
            }
            // Without room for questions more output would change nothing here.
            changed = changes.changed(), if room => {
                if changed.is_ok() {
                    tokio::time::sleep(LINGER).await;
                }
            }
            () = tokio::time::sleep_until(at) => {}
        }
    }

    /// False when there is nothing to read yet.
    async fn read_on(&mut self) -> Result<bool, EngineError> {
        let (secrets, sink) = (Secrets::Masked, Sink::Transcript);
        let Page { from, next, dropped, bytes, .. } =
            self.handle.page(secrets, sink, self.read, READ_BYTES, None).await?;
        if next <= self.read {
            return Ok(false);
        }
        if dropped > 0 || from > self.read {
            // The journal no longer has what was between: nobody can be shown it.
            self.lines = Assembler::new(from);
        }
        let bytes = bytes.into_inner();
        self.lines.feed(Seq(next.0 - bytes.len() as u64), &bytes);
        self.read = next;
        self.partial_at = self.lines.has_partial().then(|| Instant::now() + PARTIAL);
        Ok(true)
    }

    fn ask(&mut self) {
        while self.questions.len() < QUESTIONS_MAX && self.lines.has_lines() {
            let mut lines = self.lines.take(self.batch);
            let mut bytes = 0;
            let fits = lines.iter().take_while(|placed| {
                bytes += placed.line.text.len();
                bytes <= BATCH_BYTES
            });
            let fits = fits.count().max(1);
            let rest = lines.split_off(fits);
            self.lines.give_back(rest);
            let upto = lines.last().map_or(self.read, |placed| placed.end);
            let (filter, id) = (self.governed.filter(), self.handle.id());
            // The places stay here, the texts go.
            let asked = lines.iter_mut().map(|placed| {
                let text = std::mem::take(&mut placed.line.text);
                Line { text, ..placed.line.clone() }
            });
            let asked: Vec<Line> = asked.collect();
            let task = tokio::spawn(async move { filter.filter(id, &asked).await });
            self.questions.push_back(Question { task, lines, upto, asked_at: Instant::now() });
        }
        if self.questions.is_empty() && !self.lines.has_lines() && !self.lines.has_partial() {
            // Only sequences: nothing to ask about.
            self.settle();
        }
    }

    /// The first question has its answer; a filter that broke down gave none, and masks are what is
    /// left.
    fn answered(&mut self, mut answer: Vec<Edit>) {
        let Some(question) = self.questions.pop_front() else { return };
        match question.asked_at.elapsed() {
            took if took < QUICK => self.batch = (self.batch * 2).min(BATCH_LINES),
            took if took > SLOW => self.batch = (self.batch / 2).max(1),
            _ => {}
        }
        answer.resize(question.lines.len(), Edit::Mask);
        let mut edits = Vec::new();
        for (placed, edit) in question.lines.into_iter().zip(answer) {
            if placed.drawn_from < placed.line.seq {
                edits.push((placed.drawn_from, placed.line.seq, Edit::Drop));
            }
            let to = if edit == Edit::Drop { placed.end } else { placed.to };
            edits.push((placed.line.seq, to, self.handle.egress().admit(edit)));
        }
        self.enter(edits, question.upto);
    }

    /// Notes the plugins that answer from now on before their answers: the next daemon must miss
    /// none.
    fn note(&mut self) {
        let edition = Some(self.governed.filter().edition());
        if edition != self.edition && self.handle.note_filter(&*self.governed.filter()) {
            self.edition = edition;
        }
    }

    /// There is nothing to ask about in what was read.
    fn settle(&mut self) {
        if self.governed.ledger().answered() < self.read {
            self.enter(Vec::new(), self.read);
        }
    }

    fn enter(&mut self, edits: Vec<(Seq, Seq, Edit)>, upto: Seq) {
        self.note();
        if let Err(error) = self.governed.ledger().enter(edits, upto) {
            // It holds for this daemon; the next asks again.
            tracing::warn!(session = %self.handle.id(), %error, "keeping what filters answered");
        }
    }

    async fn skip_what_is_too_much(&mut self, tail: Seq) {
        let filters = self.handle.shared.parts.filters.as_ref();
        let most = filters.map_or(BEHIND_MAX, |filters| filters.behind_max());
        if tail.since(self.governed.ledger().answered()) <= most {
            return;
        }
        while let Some(question) = self.questions.front_mut() {
            let answer = (&mut question.task).await.unwrap_or_default();
            self.answered(answer);
        }
        let from = self.governed.ledger().answered();
        let to = Seq(tail.0 - most / 2);
        if self.answer_up_to(to, Edit::Mask) {
            self.handle.shared.emit(Fact::FiltersBehind { from, to });
        }
    }

    /// Nobody is asked about what comes before `to`; false, if all of that was answered. Only
    /// without questions: answers are entered in order.
    fn answer_up_to(&mut self, to: Seq, edit: Edit) -> bool {
        let from = self.governed.ledger().answered();
        if to <= from {
            return false;
        }
        self.enter(vec![(from, to, edit)], to);
        self.lines = Assembler::new(to);
        self.read = to;
        self.partial_at = None;
        true
    }
}
