//! Observers: told after the fact, each plugin from a queue of its own.
//!
//! In: events, without waiting. Out: calls, one after the other. A queue that is full loses its
//! oldest event (or the newest, where the manifest says so); the next request tells how many are
//! missing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use greenroom_engine::SessionId;
use greenroom_formats::manifest::Hook;
use greenroom_plugin_api::file::Overflow;
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::PluginHost;
use super::ask::Question;
use super::core::Core;
use super::payload::Payload;
use super::plugin::{Entry, Plugin};
use super::request::request;
use super::shape::decide;
use crate::lock;

/// Bytes that wait for one plugin: a tail of output in each of a thousand events would be much
/// more.
const BYTES_MAX: usize = 1024 * 1024;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    bytes: usize,
    /// Events lost since the last one that the plugin was told.
    gap: u64,
    /// The plugin is being told of an event.
    telling: bool,
    served: bool,
}

struct Event {
    entry: Arc<Entry>,
    session: Option<SessionId>,
    fields: Arc<Map<String, Value>>,
    bytes: usize,
}

impl Queue {
    /// Answers how many events had to go.
    fn push(&self, event: Event) -> u64 {
        let queue = event.entry.said.queue.unwrap_or_default();
        let max_items = queue.max_items.max(1) as usize;
        let mut waiting = lock(&self.waiting);
        let mut lost = 0;
        let full = |waiting: &Waiting| {
            !waiting.events.is_empty()
                && (waiting.events.len() >= max_items || waiting.bytes + event.bytes > BYTES_MAX)
        };
        if queue.overflow == Overflow::DropNewest && full(&waiting) {
            waiting.gap += 1;
            return 1;
        }
        while full(&waiting) {
            if let Some(old) = waiting.events.pop_front() {
                waiting.bytes -= old.bytes;
                lost += 1;
            }
        }
        waiting.gap += lost;
        waiting.bytes += event.bytes;
        waiting.events.push_back(event);
        drop(waiting);
        self.filled.notify_one();
        lost
    }

    fn pop(&self) -> Option<(Event, u64)> {
        let mut waiting = lock(&self.waiting);
        let event = waiting.events.pop_front()?;
        waiting.bytes -= event.bytes;
        waiting.telling = true;
        Some((event, std::mem::take(&mut waiting.gap)))
    }

    fn told(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.telling = false;
        if waiting.events.is_empty() {
            drop(waiting);
            self.emptied.notify_waiters();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.events.is_empty() && !waiting.telling
    }

    /// Waits until the queue is empty and no event is being told.
    pub(super) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

impl PluginHost {
    /// Tells all observers. Never waits, and may be called from anywhere.
    pub fn observe(&self, hook: Hook, session: Option<SessionId>, payload: Payload) {
        let core = &self.core;
        let registry = core.registry();
        let about = payload.fields().get("plugin").and_then(Value::as_str).map(str::to_owned);
        let mut told: Option<(Arc<Map<String, Value>>, usize)> = None;
        for (plugin, entry) in registry.asked(hook) {
            // Nobody is told of itself: its trouble must not be the cause of more.
            let itself = hook == Hook::PluginState && about.as_deref() == Some(&*plugin.name);
            if itself || !plugin.may_run() || !core.concerns(entry, session) {
                continue;
            }
            let (fields, bytes) = told.get_or_insert_with(|| {
                let fields = payload.fields().clone();
                let bytes = serde_json::to_string(&fields).map_or(0, |text| text.len());
                (Arc::new(fields), bytes)
            });
            let event =
                Event { entry: entry.clone(), session, fields: fields.clone(), bytes: *bytes };
            let lost = plugin.queue.push(event);
            if lost > 0 {
                plugin.history.dropped(lost);
            }
            let served = std::mem::replace(&mut lock(&plugin.queue.waiting).served, true);
            if !served {
                core.tasks.spawn(tell_all(Arc::downgrade(core), Arc::downgrade(plugin)));
            }
        }
    }
}

impl Core {
    async fn tell(&self, plugin: &Arc<Plugin>, event: &Event, gap: u64) {
        let entry = &event.entry;
        let (session, name) = (event.session, entry.hook);
        let question = Question::new(plugin, entry, session, entry.deadline);
        let fields = |deadline| request(name, session, deadline, &event.fields, gap);
        // What it answers changes nothing, and a failure was noted where it happened.
        if self.ask(&question, fields, |reply| decide(name, reply)).await.is_err() {
            plugin.history.dropped(1);
        }
    }
}

/// Tells one plugin's events as long as there is the plugin.
async fn tell_all(core: Weak<Core>, plugin: Weak<Plugin>) {
    loop {
        let (Some(core), Some(plugin)) = (core.upgrade(), plugin.upgrade()) else { return };
        let filled = plugin.queue.filled.notified();
        match plugin.queue.pop() {
            Some((event, gap)) => {
                core.tell(&plugin, &event, gap).await;
                plugin.queue.told();
                plugin.calmer();
                continue;
            }
            None if plugin.retired() => {
                lock(&plugin.queue.waiting).served = false;
                return;
            }
            None => {}
        }
        drop(core);
        filled.await;
    }
}
