//! A resident program, which stays between calls: started when it is first asked, watched, started
//! again after a pause when it ended.
//!
//! One program for all, or one for each session. A call that finds it down waits for the start,
//! which has a deadline of its own: a call's own deadline counts from when there is somebody to
//! answer. Each end that nobody asked for is a fall: the next start waits 1 s, then 4 s; the third
//! within a minute is the last, until a reload. A guard that is required gets another chance every
//! few minutes. A program that nobody asks for a while is ended.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_formats::manifest::Format;
use greenroom_plugin_api::file::Spawn;
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;

use super::Executable;
use crate::host::program::{Condition, Program, ProgramEvent, Request};
use crate::lock;
use crate::runtime::jsonl::{Options, Peer};
use crate::runtime::{BoxFuture, CallFailure, Reply};

/// Falls within [`FALLS_WITHIN`] after which it is not started again.
const FALLS_MAX: usize = 3;
const FALLS_WITHIN: Duration = Duration::from_secs(60);
/// The pause after the first fall; four times as long after each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// A required guard is tried again after this long.
const SECOND_CHANCE: Duration = Duration::from_secs(300);
/// What a start may take beyond the time for the greeting: making a sandbox, loading a program.
const START_EXTRA: Duration = Duration::from_secs(5);

pub(super) struct Resident {
    executable: Arc<Executable>,
    per_session: bool,
    required: bool,
    slots: Mutex<HashMap<Option<SessionId>, Arc<Slot>>>,
}

/// Where one program runs: the only one, or that of one session.
struct Slot {
    executable: Arc<Executable>,
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
    started: bool,
    last_asked: Option<Instant>,
    minimal: bool,
}

impl Resident {
    pub(super) fn new(executable: Arc<Executable>) -> Resident {
        let hooks = executable.found.manifest.as_ref().map_or(&[][..], |manifest| &manifest.hooks);
        let required = hooks.iter().any(|hook| hook.required);
        let per_session = executable.runtime.spawn == Spawn::PerSession;
        Resident { executable, per_session, required, slots: Mutex::default() }
    }

    fn slot(&self, session: Option<SessionId>) -> Arc<Slot> {
        let key = session.filter(|_| self.per_session);
        let fresh = || {
            Arc::new(Slot {
                executable: self.executable.clone(),
                required: self.required,
                peer: AsyncMutex::default(),
                life: Mutex::default(),
            })
        };
        lock(&self.slots).entry(key).or_insert_with(fresh).clone()
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).values().cloned().collect()
    }
}

impl Slot {
    /// The program, started if need be.
    async fn peer(self: &Arc<Slot>) -> Result<Arc<Peer>, CallFailure> {
        let mut place = self.peer.lock().await;
        lock(&self.life).last_asked = Some(Instant::now());
        match &*place {
            Some(peer) if peer.failure().is_none() => return Ok(peer.clone()),
            Some(_) => *place = None,
            None => {}
        }
        self.may_start()?;
        if std::mem::replace(&mut lock(&self.life).started, true) {
            (self.executable.events)(ProgramEvent::Restarted);
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
        lock(&self.life).minimal = !started.takes_batches();
        self.set(Condition::Up, None);
        self.executable.tasks.spawn(watch(Arc::downgrade(self), Arc::downgrade(&started)));
        Ok(started)
    }

    async fn start(&self) -> Result<Peer, CallFailure> {
        let executable = &self.executable;
        let patience = Duration::from_millis(executable.runtime.init_timeout_ms);
        let launch = executable.launch().await?;
        let events = executable.events.clone();
        let options = Options {
            hello: executable.runtime.hello && executable.format != Format::Datawatch,
            greeting: greeting(executable),
            patience,
            stderr: Arc::new(move |text| events(ProgramEvent::Stderr(text))),
        };
        let whole = patience + START_EXTRA;
        let launcher = executable.launcher.clone();
        // The tasks that serve its pipes run on the runtime that starts it.
        let start = async move {
            let start = Peer::start(&*launcher, &launch, options);
            tokio::time::timeout(whole, start).await.unwrap_or(Err(CallFailure::Deadline(whole)))
        };
        executable.beside(start).await
    }

    fn may_start(&self) -> Result<(), CallFailure> {
        let now = Instant::now();
        let mut life = lock(&self.life);
        let name = &self.executable.found.name;
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
            let mut life = lock(&self.life);
            life.falls.push_back(now);
            life.falls.retain(|fall| now.duration_since(*fall) < FALLS_WITHIN);
            let (condition, pause) = after_falls(life.falls.len());
            life.rest_until = Some(now + pause);
            condition
        };
        self.set(condition, Some(failure.to_string()));
    }

    fn set(&self, condition: Condition, why: Option<String>) {
        lock(&self.life).condition = Some(condition);
        (self.executable.events)(ProgramEvent::Changed(why));
    }

    /// Ends its program. A start that is under way is waited for.
    async fn stop(&self) {
        let peer = self.peer.lock().await.take();
        if let Some(peer) = peer {
            peer.stop().await;
        }
        let up =
            |condition: &mut Condition| matches!(condition, Condition::Up | Condition::Spawning);
        let ended = lock(&self.life).condition.take_if(up);
        if ended.is_some() {
            (self.executable.events)(ProgramEvent::Changed(None));
        }
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

fn greeting(executable: &Executable) -> Map<String, Value> {
    let granted: Vec<Value> = executable
        .found
        .grants
        .iter()
        .filter(|(_, allow)| allow.any())
        .map(|(name, _)| name.clone().into())
        .collect();
    let settings = executable.found.manifest.as_ref().map_or(&[][..], |manifest| &manifest.config);
    let config: Map<String, Value> = settings
        .iter()
        .map(|setting| (setting.key.clone(), setting.default.clone().into()))
        .collect();
    Map::from_iter([("granted".to_owned(), granted.into()), ("config".to_owned(), config.into())])
}

/// Sees the program's end, and ends one that nobody asks.
async fn watch(slot: Weak<Slot>, peer: Weak<Peer>) {
    let reap = match slot.upgrade() {
        Some(slot) => Duration::from_millis(slot.executable.runtime.idle_reap_ms),
        None => return,
    };
    loop {
        let Some(peer) = peer.upgrade() else { return };
        let asked = slot.upgrade().and_then(|slot| lock(&slot.life).last_asked);
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
                if let Some(slot) = slot.upgrade() && failure != CallFailure::Stopped {
                    slot.fell(&failure);
                }
                return;
            }
            () = idle => {
                let Some(slot) = slot.upgrade() else { return };
                let still = lock(&slot.life).last_asked.is_none_or(|asked| asked.elapsed() >= reap);
                if still {
                    slot.stop().await;
                    return;
                }
            }
        }
    }
}

impl Program for Resident {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<Option<Reply>, CallFailure>> {
        let Request { session, fields, lines, deadline } = request;
        Box::pin(async move {
            let peer = self.slot(session).peer().await?;
            if lines.is_some() && !peer.takes_batches() {
                return Ok(None);
            }
            peer.ask(&fields, lines, deadline).await.map(Some)
        })
    }

    fn one_by_one(&self) -> bool {
        self.all().iter().any(|slot| {
            let life = lock(&slot.life);
            life.minimal && life.condition == Some(Condition::Up)
        })
    }

    fn condition(&self) -> Condition {
        let conditions = self.all().into_iter().filter_map(|slot| lock(&slot.life).condition);
        conditions.max().unwrap_or(Condition::Down)
    }

    fn level(&self) -> Option<&'static str> {
        self.executable.level.get().copied()
    }

    fn hung(&self) {
        for slot in self.all() {
            self.executable.tasks.spawn(async move { slot.stop().await });
        }
    }

    fn forget(&self, session: SessionId) {
        let slot = lock(&self.slots).remove(&Some(session));
        if let Some(slot) = slot {
            self.executable.tasks.spawn(async move { slot.stop().await });
        }
    }

    fn wake(&self, start: bool) -> BoxFuture<'_, Result<(), CallFailure>> {
        Box::pin(async move {
            if start && !self.per_session {
                return self.slot(None).peer().await.map(drop);
            }
            self.executable.launch().await.map(drop)
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for slot in self.all() {
                slot.stop().await;
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
