//! Waiting for something to be true of a session, on the slow lane.
//!
//! A wait is a task of its own: it watches the session's change counter, asks
//! for frames (shared, made once per change) and follows the output only if a
//! matcher reads it. It never slows the session.

mod matcher;

use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, Screen};
use tokio::time::Instant;

pub use matcher::{
    Branch, DEPTH_MAX, Matcher, MatcherError, Moment, Outcome, Region, pattern, region_text,
};

use crate::egress::{Filtered, RowAnswers, Secrets, Sink};
use crate::error::EngineError;
use crate::id::Seq;
use crate::process::ExitStatus;
use crate::session::{Push, SessionHandle, SubscriberKind, Subscription};
use crate::state::AgentState;
use crate::transcript::Plain;

/// Transcript text a wait looks back at without a `since`, and the most it
/// keeps: a screenful many times over, bounded per wait.
const TRANSCRIPT_WINDOW: usize = 256 * 1024;

/// Transcript text that is part of an answer.
const TAIL_CHARS: usize = 16 * 1024;

/// Under a flood, look at most this often.
const LOOK_EVERY: Duration = Duration::from_millis(4);

/// Changes after a quiet time that are looked at as they come: a prompt's answer should not wait
/// for a flood's pause.
const LOOKS_AT_ONCE: u32 = 4;

/// Every look has this long for what filters say, also the last one: a wait of no time looks once.
const LOOK: Duration = Duration::from_millis(250);

/// What does not depend on the picture is told without it after this long.
const PICTURE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct WaitFor {
    pub matcher: Matcher,
    /// Transcript matchers see output from here on.
    pub since: Option<Seq>,
    pub timeout: Duration,
    /// What matchers see, and what the answer shows: a matcher on what is masked would tell it
    /// letter by letter.
    pub secrets: Secrets,
}

pub struct Matched {
    pub outcome: Filtered<Outcome>,
    pub seq: Seq,
    pub elapsed: Duration,
    /// `None`: filters did not answer for it in time.
    pub frame: Option<Filtered<Arc<Frame>>>,
    pub transcript_tail: Filtered<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("nothing matched within {} ms{}", .0.timeout.as_millis(), .0.lateness())]
    Timeout(Box<TimedOut>),
    #[error("session {id} ended first ({status})")]
    Ended { id: crate::id::SessionId, status: ExitStatus },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Matcher(#[from] MatcherError),
}

/// What was there instead.
#[derive(Debug)]
pub struct TimedOut {
    pub timeout: Duration,
    pub seq: Seq,
    /// Bytes of output that filters had not answered for.
    pub behind: u64,
    pub last_text: Filtered<String>,
    /// The line that comes closest to the text that was sought.
    pub nearest: Option<Filtered<String>>,
}

impl TimedOut {
    fn lateness(&self) -> String {
        match self.behind {
            0 => String::new(),
            behind => format!("; filters have not answered yet for {behind} bytes of its output"),
        }
    }
}

/// The last picture, and what filters said of it.
#[derive(Default)]
struct Seen {
    picture: Option<(Filtered<Arc<Frame>>, Seq)>,
    known: RowAnswers,
}

/// What is missing from the text that was taken so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// It comes by itself.
    Soon,
    /// It comes when filters have answered.
    Unanswered,
}

/// `None` when `work` is not done by then.
async fn within<T>(limit: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout_at(limit, work).await.ok(),
        None => Some(work.await),
    }
}

struct Transcript {
    following: Option<Subscription>,
    plain: Plain,
    text: String,
    /// Output before this was taken.
    cursor: Seq,
}

impl SessionHandle {
    /// Waits until `wait.matcher` is true, the time is up or the session ends. Filters that are
    /// slow do not make it longer: what they have not answered for by then is missing from what it
    /// tells.
    pub async fn wait(&self, wait: WaitFor) -> Result<Matched, WaitError> {
        wait.matcher.check()?;
        let started = Instant::now();
        let deadline = started + wait.timeout;
        let mut changes = self.changes();
        if wait.matcher.waits_for_the_end() && !wait.matcher.reads_transcript() {
            // Until then no look would tell anything, and looks cost the session time.
            let _ = tokio::time::timeout_at(deadline, self.over()).await;
        }
        let mut transcript = self.transcript_for(&wait).await?;
        let mut seen = Seen::default();
        let mut at_once = LOOKS_AT_ONCE;
        loop {
            let looked = Instant::now();
            let change = *changes.borrow_and_update();
            let by =
                if wait.matcher.reads_screen() { deadline } else { deadline.min(looked + PICTURE) };
            let limit = self.waits_for_filters(wait.secrets).then(|| by.max(looked + LOOK));
            let behind = within(limit, transcript.catch_up(self, wait.secrets)).await;
            let behind = behind.transpose()?.unwrap_or(Behind::Unanswered);
            let picture = within(limit, self.frame_again(wait.secrets, &mut seen.known)).await;
            let picture = picture.transpose()?;
            let in_time = picture.is_some();
            seen.picture = picture.or(seen.picture);
            let screen = seen
                .picture
                .as_ref()
                .map_or_else(String::new, |(frame, _)| frame_text(frame.get()));
            let info = self.info();
            let blank;
            let frame = match &seen.picture {
                Some((frame, _)) => frame.get().as_ref(),
                None => {
                    blank = Screen::new(info.record.size).frame();
                    &blank
                }
            };
            let moment = Moment {
                frame,
                screen: &screen,
                transcript: &transcript.text,
                title: info.title.as_ref().map(|title| title.get().as_str()),
                state: AgentState::from(&info.record.state),
                ended: change.ended,
                visible_at: change.visible_at,
                now: looked,
            };
            let outcome = if in_time {
                wait.matcher.matches(&moment)
            } else {
                wait.matcher.matches_unseen(&moment)
            };
            let seq = seen.picture.as_ref().map_or(change.seq, |(_, seq)| *seq);
            let out = self.egress();
            if let Some(outcome) = outcome {
                return Ok(Matched {
                    outcome: out.made_of_filtered(outcome),
                    seq,
                    elapsed: started.elapsed(),
                    transcript_tail: out.made_of_filtered(tail(&transcript.text)),
                    frame: seen.picture.filter(|_| in_time).map(|(frame, _)| frame),
                });
            }
            if let Some(status) = change.ended
                && (in_time || !wait.matcher.reads_screen())
                && behind == Behind::Nothing
            {
                return Err(WaitError::Ended { id: self.id(), status });
            }
            if change.closed {
                return Err(EngineError::Gone { id: self.id() }.into());
            }
            if looked >= deadline || (!in_time && Instant::now() >= deadline) {
                return Err(self.timed_out(&wait, seq, screen));
            }
            let mut recheck = wait
                .matcher
                .recheck_at(change.visible_at)
                .map_or(deadline, |at| at.max(looked + Duration::from_millis(1)).min(deadline));
            if behind == Behind::Soon {
                recheck = recheck.min(looked + LOOK_EVERY);
            }
            let cursor = transcript.cursor;
            let answered = async {
                self.answered_beyond(cursor).await;
                tokio::time::sleep_until(looked + LOOK_EVERY).await;
            };
            let quiet_since = Instant::now();
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Err(EngineError::Gone { id: self.id() }.into());
                    }
                    if quiet_since.elapsed() >= LOOK_EVERY {
                        at_once = LOOKS_AT_ONCE;
                    }
                    match at_once.checked_sub(1) {
                        Some(left) => at_once = left,
                        None => {
                            let next = (looked + LOOK_EVERY).min(deadline);
                            tokio::time::sleep_until(next).await;
                        }
                    }
                }
                () = answered, if behind == Behind::Unanswered => {}
                () = tokio::time::sleep_until(recheck) => {}
            }
        }
    }

    /// The time is up; `screen` is what was there instead.
    fn timed_out(&self, wait: &WaitFor, seq: Seq, screen: String) -> WaitError {
        let out = self.egress();
        let nearest = wait.matcher.text_sought().and_then(|sought| nearest(&screen, sought));
        let behind = match wait.secrets {
            Secrets::Masked => self.unanswered(Sink::Transcript, self.change().seq),
            Secrets::Unmasked => 0,
        };
        WaitError::Timeout(Box::new(TimedOut {
            timeout: wait.timeout,
            seq,
            behind,
            nearest: nearest.map(|line| out.made_of_filtered(line)),
            last_text: out.made_of_filtered(screen),
        }))
    }

    /// Whether a look may take as long as filters do.
    fn waits_for_filters(&self, secrets: Secrets) -> bool {
        let governed = |sink| self.is_governed(sink);
        secrets == Secrets::Masked && [Sink::Snapshot, Sink::Transcript].into_iter().any(governed)
    }

    async fn transcript_for(&self, wait: &WaitFor) -> Result<Transcript, EngineError> {
        let mut transcript = Transcript {
            following: None,
            plain: Plain::new(),
            text: String::new(),
            cursor: Seq(0),
        };
        if !wait.matcher.reads_transcript() {
            return Ok(transcript);
        }
        // Follow first, then look back: what lies between is in both, so the
        // look-back stops where following starts.
        let sink = match wait.secrets {
            Secrets::Masked => Some(Sink::Stream),
            Secrets::Unmasked => None,
        };
        let subscription = self.subscribe_to(SubscriberKind::Stream, sink).await?;
        let start = subscription.start;
        let since = wait.since.unwrap_or(Seq(start.0.saturating_sub(TRANSCRIPT_WINDOW as u64)));
        transcript.cursor = since;
        if since < start {
            let page = self.output_as(wait.secrets, since, TRANSCRIPT_WINDOW).await?;
            transcript.plain.feed(page.bytes.get(), &mut transcript.text);
            transcript.cursor = page.next;
        }
        transcript.following = Some(subscription);
        Ok(transcript)
    }
}

impl Transcript {
    /// Takes what was printed since the last look. There may be more to come: we were too slow and
    /// have just asked to be caught up.
    async fn catch_up(
        &mut self,
        session: &SessionHandle,
        secrets: Secrets,
    ) -> Result<Behind, EngineError> {
        let Some(following) = &mut self.following else { return Ok(Behind::Nothing) };
        if secrets == Secrets::Masked && session.egress().is_governed(Sink::Transcript) {
            return self.catch_up_answered(session).await;
        }
        while let Some(push) = following.try_next() {
            match push {
                Push::Output { seq, bytes } => {
                    let bytes = bytes.get();
                    // What the look-back had already.
                    let skip = usize::try_from(self.cursor.since(seq)).unwrap_or(usize::MAX);
                    self.plain.feed(&bytes[skip.min(bytes.len())..], &mut self.text);
                    self.cursor = self.cursor.max(seq.plus(bytes.len() as u64));
                }
                Push::Lagged { from, to } => {
                    // The journal has what did not fit the queue.
                    let most = Seq(to.0.saturating_sub(TRANSCRIPT_WINDOW as u64));
                    let from = from.max(most).max(self.cursor);
                    let missed = usize::try_from(to.since(from)).unwrap_or(TRANSCRIPT_WINDOW);
                    if missed > 0 {
                        let page = session.output_as(secrets, from, missed).await?;
                        self.plain.feed(page.bytes.get(), &mut self.text);
                        self.cursor = self.cursor.max(page.next);
                    }
                }
                _ => {}
            }
        }
        if self.text.len() > 2 * TRANSCRIPT_WINDOW {
            let mut cut = self.text.len() - TRANSCRIPT_WINDOW;
            while !self.text.is_char_boundary(cut) {
                cut += 1;
            }
            self.text.drain(..cut);
        }
        Ok(if following.more_comes() { Behind::Soon } else { Behind::Nothing })
    }

    /// The same where filters decide what may be seen: from the pages they have answered for.
    async fn catch_up_answered(&mut self, session: &SessionHandle) -> Result<Behind, EngineError> {
        // Pushes are of no use here, and must not pile up.
        while self.following.as_mut().is_some_and(|following| following.try_next().is_some()) {}
        loop {
            let page = session.output(self.cursor, TRANSCRIPT_WINDOW).await?;
            self.plain.feed(page.bytes.get(), &mut self.text);
            if page.next <= self.cursor {
                return Ok(if session.change().seq > self.cursor {
                    Behind::Unanswered
                } else {
                    Behind::Nothing
                });
            }
            self.cursor = page.next;
        }
    }
}

/// A frame as text: a line per row, trailing blanks and empty rows trimmed.
pub fn frame_text(frame: &Frame) -> String {
    let all = Region { row: 0, col: 0, rows: u16::MAX, cols: u16::MAX };
    let mut text = region_text(frame, all);
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn tail(text: &str) -> String {
    let mut from = text.len().saturating_sub(TAIL_CHARS);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

/// The line that shares the longest run of characters with what was sought.
fn nearest(screen: &str, sought: &str) -> Option<String> {
    let sought: Vec<char> = sought.chars().take(64).collect();
    let scored = screen.lines().map(|line| {
        let longest = (0..sought.len())
            .flat_map(|from| (from + 3..=sought.len()).map(move |to| (from, to)))
            .filter(|(from, to)| {
                let piece: String = sought[*from..*to].iter().collect();
                line.contains(&piece)
            })
            .map(|(from, to)| to - from)
            .max();
        (longest.unwrap_or(0), line)
    });
    let (score, line) = scored.max_by_key(|(score, _)| *score)?;
    (score >= 3).then(|| line.trim().to_owned())
}
