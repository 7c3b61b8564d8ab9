//! Who waits for what: questions by number and by age.
//!
//! In: questions, answers as they come, the end of the program. Out: each answer to whoever asked;
//! everybody a failure at the end. An answer with an `id` goes to that question and to nobody else;
//! one without goes to the oldest that has had none. A question nobody waits for any more keeps its
//! place in that order, so that its late answer is not taken for the next one's.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};

use super::{Answer, JUNK_PER_MINUTE};
use crate::lock;
use crate::runtime::{CallFailure, Reply};

/// The greeting's number in the order of questions.
const GREETING: u64 = 0;
/// Unanswered questions that keep their place. A program that answers without ids and owes more
/// than this owes for ever.
const MOST_OWED: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Answer,
    /// Its question was given up.
    Late,
    Junk,
    TooMuchJunk,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    dead: watch::Sender<Option<CallFailure>>,
    /// Its end is wanted: however it comes, that is the reason.
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    /// Without an answer yet, oldest first; also those nobody waits for.
    order: VecDeque<u64>,
    junk: VecDeque<Instant>,
}

#[derive(Debug)]
struct Waiting {
    reply: oneshot::Sender<Result<Reply, CallFailure>>,
    asked: Instant,
}

impl Default for Shared {
    fn default() -> Shared {
        let dead = watch::channel(None).0;
        Shared { state: Mutex::default(), dead, stopping: false.into() }
    }
}

/// A question under way. Nobody waits for its answer once this is dropped.
pub(super) struct Question<'a> {
    shared: &'a Shared,
    pub id: u64,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        lock(&self.shared.state).waiting.remove(&self.id);
    }
}

impl Shared {
    pub(super) fn ask(&self) -> Result<(Question<'_>, Answer), CallFailure> {
        let mut state = lock(&self.state);
        state.last += 1;
        let id = state.last;
        let answer = self.enter(&mut state, id)?;
        Ok((Question { shared: self, id }, answer))
    }

    /// The greeting: whatever comes first answers it.
    pub(super) fn greeted(&self) -> Result<Answer, CallFailure> {
        self.enter(&mut lock(&self.state), GREETING)
    }

    /// It has no answer to that, so the first answer is the first question's.
    pub(super) fn no_greeting(&self) {
        let mut state = lock(&self.state);
        state.waiting.remove(&GREETING);
        state.order.retain(|id| *id != GREETING);
    }

    fn enter(&self, state: &mut State, id: u64) -> Result<Answer, CallFailure> {
        // Under the lock: whoever fails everybody takes it afterwards.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let (reply, answer) = oneshot::channel();
        state.waiting.insert(id, Waiting { reply, asked: Instant::now() });
        state.order.push_back(id);
        while state.order.len() > MOST_OWED {
            state.order.pop_front();
        }
        Ok(answer)
    }

    /// A line has come.
    pub(super) fn hear(&self, line: Result<Map<String, Value>, CallFailure>) -> Heard {
        let mut state = lock(&self.state);
        let Ok(answer) = line else { return state.junk() };
        let id = match answer.get("id") {
            // A greeting that comes late answers nothing else; other words while it is open are its
            // answer too.
            None | Some(Value::Null) if answer.contains_key("hello") => Some(GREETING),
            None | Some(Value::Null) => state.order.front().copied(),
            Some(Value::String(text)) => text.parse().ok(),
            Some(number) => number.as_u64(),
        };
        let Some(id) = id else { return state.junk() };
        let owed = state.order.contains(&id);
        state.order.retain(|other| *other != id);
        match state.waiting.remove(&id) {
            Some(Waiting { reply, asked }) => {
                let took = asked.elapsed();
                let _ = reply.send(Ok(Reply { answer, took, ..Reply::default() }));
                Heard::Answer
            }
            None if owed => Heard::Late,
            // Answers to what nobody asked could come without end.
            None => state.junk(),
        }
    }

    /// The end: everybody who waits is told why, and so is whoever asks later. The first reason
    /// stays.
    pub(super) fn fail(&self, why: CallFailure) {
        let why = if self.stopping.load(Ordering::Acquire) { CallFailure::Stopped } else { why };
        let mut state = lock(&self.state);
        let first = self.dead.send_if_modified(|dead| match dead {
            None => {
                *dead = Some(why.clone());
                true
            }
            Some(_) => false,
        });
        if first {
            for (_, waiting) in state.waiting.drain() {
                let _ = waiting.reply.send(Err(why.clone()));
            }
        }
    }

    /// From now on an end is no failure of the program.
    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn failure(&self) -> Option<CallFailure> {
        self.dead.borrow().clone()
    }

    pub(super) async fn ended(&self) -> CallFailure {
        let mut dead = self.dead.subscribe();
        let ended = dead.wait_for(Option::is_some).await;
        ended.ok().and_then(|why| why.clone()).unwrap_or(CallFailure::Stopped)
    }
}

impl State {
    fn junk(&mut self) -> Heard {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        while self.junk.front().is_some_and(|at| now.duration_since(*at) > minute) {
            self.junk.pop_front();
        }
        self.junk.push_back(now);
        if self.junk.len() > JUNK_PER_MINUTE { Heard::TooMuchJunk } else { Heard::Junk }
    }
}
