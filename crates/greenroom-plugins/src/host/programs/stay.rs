//! A program that stays: started when it is first asked, watched, started again after a pause when it ended.
//!
//! One program for all, or one for each session. A call that finds it down waits for the start, which has a deadline of
//! its own: a call's own deadline counts from when there is somebody to answer. Each end that nobody asked for is a fall:
//! the next start waits 1 s, then 4 s; the third within a minute is the last, until a reload. A guard that is required
//! gets another chance every few minutes. A program that nobody asks for a while is ended.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_protocol::manifest::Format;
use greenroom_protocol::manifest::file::Spawn;
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;

use super::Program;
use crate::host::voice::{Condition, Voice};
use crate::runtime::jsonl::{Options, Peer};
use crate::runtime::{CallFailure, Reply};
use crate::spec::Wait;

/// Falls within [`FALLS_WITHIN`] after which it is not started again.
const FALLS_MAX: usize = 3;
const FALLS_WITHIN: Duration = Duration::from_secs(60);
/// The pause after the first fall; four times as long after each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// A required guard is tried again after this long.
const SECOND_CHANCE: Duration = Duration::from_secs(300);
/// What a start may take beyond the time for the greeting: making a sandbox, loading a program.
const START_EXTRA: Duration = Duration::from_secs(5);

pub(super) struct Stay {
    program: Arc<Program>,
    per_session: bool,
    required: bool,
    seats: Mutex<HashMap<Option<SessionId>, Arc<Seat>>>,
}

/// One program's place.
struct Seat {
    program: Arc<Program>,
    required: bool,
    /// Held while it is started: others wait for that start.
    peer: AsyncMutex<Option<Arc<Peer>>>,
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    condition: Option<Condition>,
    falls: VecDeque<Instant>,
    rest_until: Option<Instant>,
    starts: u64,
    last_asked: Option<Instant>,
    minimal: bool,
}

impl Stay {
    pub fn new(program: Arc<Program>) -> Stay {
        let hooks = program.found.manifest.as_ref().map_or(&[][..], |manifest| &manifest.hooks);
        let required = hooks.iter().any(|hook| hook.required);
        let per_session = program.runtime.spawn == Spawn::PerSession;
        Stay { program, per_session, required, seats: Mutex::default() }
    }

    fn seat(&self, session: Option<SessionId>) -> Arc<Seat> {
        let key = session.filter(|_| self.per_session);
        let fresh = || {
            Arc::new(Seat {
                program: self.program.clone(),
                required: self.required,
                peer: AsyncMutex::default(),
                life: Mutex::default(),
            })
        };
        self.seats().entry(key).or_insert_with(fresh).clone()
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<Option<SessionId>, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Seat>> {
        self.seats().values().cloned().collect()
    }
}

impl Seat {
    /// The program, started if need be.
    async fn peer(self: &Arc<Seat>) -> Result<Arc<Peer>, CallFailure> {
        let mut place = self.peer.lock().await;
        self.life().last_asked = Some(Instant::now());
        match &*place {
            Some(peer) if peer.failure().is_none() => return Ok(peer.clone()),
            Some(_) => *place = None,
            None => {}
        }
        self.may_start()?;
        let again = {
            let mut life = self.life();
            life.starts += 1;
            life.starts > 1
        };
        if again {
            self.program.ear.restarted();
        }
        self.set(Condition::Spawning, None);
        let started = match self.start().await {
            Ok(peer) => Arc::new(peer),
            Err(failure) => {
                self.fell(&failure);
                return Err(failure);
            }
        };
        *place = Some(started.clone());
        self.life().minimal = !started.takes_batches();
        self.set(Condition::Up, None);
        self.program.tasks.spawn(watch(Arc::downgrade(self), Arc::downgrade(&started)));
        Ok(started)
    }

    async fn start(&self) -> Result<Peer, CallFailure> {
        let program = &self.program;
        let patience = Duration::from_millis(program.runtime.init_timeout_ms);
        let launch = program.launch().await?;
        let ear = program.ear.clone();
        let options = Options {
            hello: program.runtime.hello && program.format != Format::Datawatch,
            greeting: greeting(program),
            patience,
            stderr: Arc::new(move |text| ear.stderr(text)),
        };
        let whole = patience + START_EXTRA;
        let launcher = program.launcher.clone();
        // Its pipes are served where it was started.
        let start = program.beside(async move {
            let start = Peer::start(&*launcher, &launch, options);
            tokio::time::timeout(whole, start).await.unwrap_or(Err(CallFailure::Deadline(whole)))
        });
        start.await
    }

    fn may_start(&self) -> Result<(), CallFailure> {
        let now = Instant::now();
        let mut life = self.life();
        let name = &self.program.found.name;
        match (life.condition, life.rest_until) {
            (Some(Condition::Quarantined), Some(until)) if !self.required || now < until => {
                Err(CallFailure::Launch(format!(
                    "its program ended too often; see greenroom plugin logs {name}, then greenroom plugin reload {name}"
                )))
            }
            (Some(Condition::Backoff), Some(until)) if now < until => {
                let left = until.duration_since(now).as_millis();
                Err(CallFailure::Launch(format!("its program ended; next start in {left} ms")))
            }
            _ => {
                life.rest_until = None;
                Ok(())
            }
        }
    }

    /// It ended, or did not start, and nobody had asked for that.
    fn fell(&self, failure: &CallFailure) {
        let now = Instant::now();
        let condition = {
            let mut life = self.life();
            life.falls.push_back(now);
            life.falls.retain(|fall| now.duration_since(*fall) < FALLS_WITHIN);
            let (condition, pause) = after_falls(life.falls.len());
            life.rest_until = Some(now + pause);
            condition
        };
        self.set(condition, Some(failure.to_string()));
    }

    fn set(&self, condition: Condition, why: Option<String>) {
        self.life().condition = Some(condition);
        self.program.ear.changed(why);
    }

    /// Ends its program. A start that is under way is waited for.
    async fn stop(&self) {
        let peer = self.peer.lock().await.take();
        if let Some(peer) = peer {
            peer.stop().await;
        }
        let down = {
            let mut life = self.life();
            let up = matches!(life.condition, Some(Condition::Up | Condition::Spawning));
            if up {
                life.condition = None;
            }
            up
        };
        if down {
            self.program.ear.changed(None);
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Down for how long, after so many falls.
fn after_falls(falls: usize) -> (Condition, Duration) {
    if falls >= FALLS_MAX {
        return (Condition::Quarantined, SECOND_CHANCE);
    }
    let pause = PAUSE * 4u32.pow(u32::try_from(falls.saturating_sub(1)).unwrap_or(0));
    // Not all at once: between half of it and all of it.
    let random = RandomState::new().hash_one(falls) % 1000;
    let part = pause.mul_f64(0.5) * u32::try_from(random).unwrap_or(0) / 1000;
    (Condition::Backoff, pause / 2 + part)
}

fn greeting(program: &Program) -> Map<String, Value> {
    let granted: Vec<Value> = program
        .found
        .grants
        .iter()
        .filter(|(_, allow)| allow.any())
        .map(|(name, _)| name.clone().into())
        .collect();
    let settings = program.found.manifest.as_ref().map_or(&[][..], |manifest| &manifest.config);
    let config: Map<String, Value> = settings
        .iter()
        .map(|setting| (setting.key.clone(), setting.default.clone().into()))
        .collect();
    Map::from_iter([("granted".to_owned(), granted.into()), ("config".to_owned(), config.into())])
}

/// Sees the program's end, and ends one that nobody asks.
async fn watch(seat: Weak<Seat>, peer: Weak<Peer>) {
    let reap = match seat.upgrade() {
        Some(seat) => Duration::from_millis(seat.program.runtime.idle_reap_ms),
        None => return,
    };
    loop {
        let Some(peer) = peer.upgrade() else { return };
        let asked = seat.upgrade().and_then(|seat| seat.life().last_asked);
        let idle = async {
            match asked {
                Some(asked) if !reap.is_zero() => {
                    tokio::time::sleep(reap.saturating_sub(asked.elapsed())).await;
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            failure = peer.ended() => {
                if let Some(seat) = seat.upgrade() && failure != CallFailure::Stopped {
                    seat.fell(&failure);
                }
                return;
            }
            () = idle => {
                let Some(seat) = seat.upgrade() else { return };
                let still = seat.life().last_asked.is_none_or(|asked| asked.elapsed() >= reap);
                if still {
                    seat.stop().await;
                    return;
                }
            }
        }
    }
}

impl Voice for Stay {
    fn call(
        &self,
        session: Option<SessionId>,
        request: Value,
        deadline: Duration,
    ) -> Wait<'_, Result<Reply, CallFailure>> {
        Box::pin(async move {
            let peer = self.seat(session).peer().await?;
            let Value::Object(request) = request else {
                return Err(CallFailure::Malformed { why: "a request is an object".to_owned() });
            };
            peer.call(&request, deadline).await
        })
    }

    fn one_by_one(&self) -> bool {
        self.all().iter().any(|seat| {
            let life = seat.life();
            life.minimal && life.condition == Some(Condition::Up)
        })
    }

    fn batch<'a>(
        &'a self,
        session: SessionId,
        request: Value,
        items: &'a [&'a str],
        deadline: Duration,
    ) -> Wait<'a, Result<Option<Reply>, CallFailure>> {
        Box::pin(async move {
            let peer = self.seat(Some(session)).peer().await?;
            if !peer.takes_batches() {
                return Ok(None);
            }
            let Value::Object(request) = request else {
                return Err(CallFailure::Malformed { why: "a request is an object".to_owned() });
            };
            peer.batch(&request, items, deadline).await.map(Some)
        })
    }

    fn condition(&self) -> Condition {
        let conditions = self.all().into_iter().filter_map(|seat| seat.life().condition);
        conditions.max().unwrap_or(Condition::Down)
    }

    fn level(&self) -> Option<&'static str> {
        self.program.level.get().copied()
    }

    fn hung(&self) {
        for seat in self.all() {
            self.program.tasks.spawn(async move { seat.stop().await });
        }
    }

    fn forget(&self, session: SessionId) {
        let seat = self.seats().remove(&Some(session));
        if let Some(seat) = seat {
            self.program.tasks.spawn(async move { seat.stop().await });
        }
    }

    fn wake(&self, start: bool) -> Wait<'_, Result<(), CallFailure>> {
        Box::pin(async move {
            match start && !self.per_session {
                true => self.seat(None).peer().await.map(drop),
                false => self.program.launch().await.map(drop),
            }
        })
    }

    fn stop(&self) -> Wait<'_, ()> {
        Box::pin(async {
            for seat in self.all() {
                seat.stop().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_the_third_fall_is_the_last() {
        let (condition, pause) = after_falls(1);
        assert_eq!(condition, Condition::Backoff);
        assert!((500..=1000).contains(&pause.as_millis()), "{pause:?}");
        let (condition, pause) = after_falls(2);
        assert_eq!(condition, Condition::Backoff);
        assert!((2000..=4000).contains(&pause.as_millis()), "{pause:?}");
        assert_eq!(after_falls(3).0, Condition::Quarantined);
    }
}
