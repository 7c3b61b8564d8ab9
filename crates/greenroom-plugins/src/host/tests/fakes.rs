//! A host whose plugins are closures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenroom_engine::Seq;
use greenroom_engine::SessionId;
use greenroom_engine::egress::{Line, Unit};
use greenroom_protocol::manifest::file::{Identity, Runtime};
use greenroom_protocol::manifest::{HookEntry, HookName, Manifest, RuntimeKind};
use serde_json::{Map, Value, json};

use crate::host::facts::{HostConfig, HostParts, News, Witness};
use crate::host::supply::{Found, Standing, Supply, SupplyError};
use crate::host::voice::{Condition, Ear, Voice, Voices};
use crate::host::{Payload, PluginHost};
use crate::runtime::profile::{Enforcement, Profiles};
use crate::runtime::{CallFailure, Launch, LaunchError, Launcher, Reply, Worker};
use crate::spec::{Secret, Wait};

/// How a fake plugin takes a request.
pub enum Take {
    Say(Value),
    Fail,
    /// Until the deadline.
    Silence,
}

pub type Script = Arc<dyn Fn(&Value) -> Take + Send + Sync>;

/// A stage for plugins.
#[derive(Clone, Default)]
pub struct Stage {
    pub found: Arc<Mutex<Vec<Found>>>,
    pub scripts: Arc<Mutex<BTreeMap<String, Script>>>,
    /// Requests as they came, with the plugin's name and generation's digest.
    pub asked: Arc<Mutex<Vec<(String, Value)>>>,
    pub silences: Arc<AtomicUsize>,
    pub news: Arc<Mutex<Vec<News>>>,
    pub state: Option<Arc<tempfile::TempDir>>,
    /// Takes lines one by one, as a oneshot does.
    pub single: bool,
    /// Holds calls back until it is notified.
    pub gate: Option<Arc<tokio::sync::Notify>>,
}

pub fn hook(name: &str) -> HookEntry {
    HookEntry::new(HookName::parse(name).expect("a hook's name"))
}

pub fn manifest(name: &str, hooks: Vec<HookEntry>) -> Manifest {
    let identity =
        Identity { name: name.to_owned(), version: "1".to_owned(), ..Identity::default() };
    let runtime =
        Runtime { id: "main".to_owned(), kind: RuntimeKind::Oneshot, ..Runtime::default() };
    Manifest { schema: 1, plugin: identity, runtime: vec![runtime], hooks, ..Manifest::default() }
}

pub fn found(name: &str, hooks: Vec<HookEntry>) -> Found {
    Found {
        name: name.to_owned(),
        dir: format!("/plugins/{name}").into(),
        root: format!("/store/{name}").into(),
        digest: "sha256:1".to_owned(),
        standing: Standing::Granted,
        manifest: Some(Arc::new(manifest(name, hooks))),
        grants: BTreeMap::new(),
        warnings: Vec::new(),
    }
}

impl Stage {
    pub fn new() -> Stage {
        let state = tempfile::tempdir().expect("a directory");
        Stage { state: Some(Arc::new(state)), ..Stage::default() }
    }

    /// Adds a plugin with these hooks that takes requests so.
    pub fn cast(
        &self,
        name: &str,
        hooks: Vec<HookEntry>,
        script: impl Fn(&Value) -> Take + Send + Sync + 'static,
    ) {
        self.found.lock().unwrap().push(found(name, hooks));
        self.scripts.lock().unwrap().insert(name.to_owned(), Arc::new(script));
    }

    /// One that says the same every time.
    pub fn says(&self, name: &str, hooks: Vec<HookEntry>, answer: Value) {
        self.cast(name, hooks, move |_| Take::Say(answer.clone()));
    }

    pub fn host(&self) -> PluginHost {
        self.host_with(HostConfig { enabled: true, ..HostConfig::default() })
    }

    pub fn host_with(&self, config: HostConfig) -> PluginHost {
        let parts = HostParts {
            config,
            supply: Arc::new(self.clone()),
            launcher: Arc::new(Nobody),
            profiles: Arc::new(Profiles::new(
                "/".into(),
                "/".into(),
                Vec::new(),
                Enforcement::Advisory,
                Arc::new(|| Err(std::io::Error::other("nothing is started here"))),
            )),
            witness: Arc::new(self.clone()),
            state: self.state.as_ref().expect("a stage that was made").path().to_owned(),
        };
        PluginHost::with_voices(parts, Arc::new(self.clone()))
    }

    pub fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    pub fn asked_names(&self) -> Vec<String> {
        self.asked().into_iter().map(|(name, _)| name).collect()
    }
}

impl Supply for Stage {
    fn survey(&self) -> Result<Vec<Found>, SupplyError> {
        Ok(self.found.lock().unwrap().clone())
    }

    fn unchanged(&self, _found: &Found) -> Result<(), String> {
        Ok(())
    }

    fn secret(&self, _found: &Found, _name: &str) -> Option<Secret> {
        None
    }
}

impl Witness for Stage {
    fn told(&self, news: News) {
        self.news.lock().unwrap().push(news);
    }
}

impl Voices for Stage {
    fn open(
        &self,
        found: &Arc<Found>,
        _runtime: &Runtime,
        _ear: Arc<dyn Ear>,
    ) -> Result<Arc<dyn Voice>, String> {
        let script = self.scripts.lock().unwrap().get(&found.name).cloned();
        let script = script.ok_or_else(|| "nobody plays it".to_owned())?;
        let voice = FakeVoice { name: found.name.clone(), script, stage: self.clone() };
        Ok(Arc::new(voice))
    }
}

struct FakeVoice {
    name: String,
    script: Script,
    stage: Stage,
}

impl FakeVoice {
    async fn take(&self, request: Value, deadline: Duration) -> Result<Reply, CallFailure> {
        self.stage.asked.lock().unwrap().push((self.name.clone(), request.clone()));
        if let Some(gate) = &self.stage.gate {
            gate.notified().await;
        }
        match (self.script)(&request) {
            Take::Say(answer) => {
                let answer: Map<String, Value> = answer.as_object().cloned().unwrap_or_default();
                Ok(Reply { answer, veto: None, stderr: String::new(), took: Duration::ZERO })
            }
            Take::Fail => Err(CallFailure::NoAnswer { stderr: String::new() }),
            Take::Silence => {
                tokio::time::sleep(deadline).await;
                self.stage.silences.fetch_add(1, Ordering::Relaxed);
                Err(CallFailure::Deadline(deadline))
            }
        }
    }
}

impl Voice for FakeVoice {
    fn call(
        &self,
        _session: Option<SessionId>,
        request: Value,
        deadline: Duration,
    ) -> Wait<'_, Result<Reply, CallFailure>> {
        Box::pin(self.take(request, deadline))
    }

    fn one_by_one(&self) -> bool {
        self.stage.single
    }

    fn batch<'a>(
        &'a self,
        _session: SessionId,
        mut request: Value,
        items: &'a [&'a str],
        deadline: Duration,
    ) -> Wait<'a, Result<Option<Reply>, CallFailure>> {
        request["items"] = json!(items);
        Box::pin(async move { self.take(request, deadline).await.map(Some) })
    }

    fn condition(&self) -> Condition {
        Condition::Down
    }

    fn hung(&self) {}

    fn forget(&self, _session: SessionId) {}

    fn level(&self) -> Option<&'static str> {
        None
    }

    fn wake(&self, _start: bool) -> Wait<'_, Result<(), CallFailure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn stop(&self) -> Wait<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

struct Nobody;

impl Launcher for Nobody {
    fn launch<'a>(&'a self, launch: &'a Launch) -> Wait<'a, Result<Worker, LaunchError>> {
        let plugin = launch.plugin.clone();
        let failed = LaunchError::Keeper { plugin, why: "there is none".to_owned() };
        Box::pin(std::future::ready(Err(failed)))
    }
}

/// A payload of plain words.
pub fn payload(fields: &[(&'static str, &'static str)]) -> Payload {
    fields.iter().fold(Payload::new(), |payload, (name, word)| payload.fact(name, *word))
}

pub fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |(at, text): (usize, &&str)| Line {
        seq: Seq(at as u64),
        unit: Unit::Line,
        text: (*text).to_owned(),
        partial: false,
    };
    texts.iter().enumerate().map(line).collect()
}
