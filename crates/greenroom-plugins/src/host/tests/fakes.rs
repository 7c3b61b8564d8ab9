//! A host whose plugins are closures.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenroom_engine::Seq;
use greenroom_engine::egress::{Line, Unit};
use greenroom_formats::manifest::{HookEntry, HookName, Manifest, RuntimeKind};
use greenroom_plugin_api::file::{Identity, Runtime};
use greenroom_sandbox::probe::LazyProbe;
use serde_json::{Map, Value, json};

use crate::host::facts::{HostConfig, HostParts, News, NewsListener};
use crate::host::program::{Program, ProgramEvents, Programs, Request};
use crate::host::{Catalog, Found, Standing, Survey};
use crate::host::{Payload, PluginHost};
use crate::runtime::profile::{Enforcement, Profiles};
use crate::runtime::{
    BoxFuture, CallFailure, Launch, LaunchError, Launcher, Reply, RunningProgram,
};

/// How a fake plugin takes a request.
pub(super) enum Take {
    Say(Value),
    Fail,
    /// Until the deadline.
    Silence,
}

pub(super) type Script = Arc<dyn Fn(&Value) -> Take + Send + Sync>;

/// A stage for plugins.
#[derive(Clone, Default)]
pub(super) struct Stage {
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

pub(super) fn hook(name: &str) -> HookEntry {
    HookEntry::new(HookName::parse(name).expect("a hook's name"))
}

pub(super) fn manifest(name: &str, hooks: Vec<HookEntry>) -> Manifest {
    let identity =
        Identity { name: name.to_owned(), version: "1".to_owned(), ..Identity::default() };
    let runtime =
        Runtime { id: "main".to_owned(), kind: RuntimeKind::Oneshot, ..Runtime::default() };
    Manifest { schema: 1, plugin: identity, runtime: vec![runtime], hooks, ..Manifest::default() }
}

pub(super) fn found(name: &str, hooks: Vec<HookEntry>) -> Found {
    Found {
        claims: hooks.iter().filter(|hook| hook.required).cloned().collect(),
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
    pub(super) fn new() -> Stage {
        let state = tempfile::tempdir().expect("a directory");
        Stage { state: Some(Arc::new(state)), ..Stage::default() }
    }

    /// Adds a plugin with these hooks that takes requests so.
    pub(super) fn cast(
        &self,
        name: &str,
        hooks: Vec<HookEntry>,
        script: impl Fn(&Value) -> Take + Send + Sync + 'static,
    ) {
        self.found.lock().unwrap().push(found(name, hooks));
        self.scripts.lock().unwrap().insert(name.to_owned(), Arc::new(script));
    }

    /// A plugin that says the same every time.
    pub(super) fn says(&self, name: &str, hooks: Vec<HookEntry>, answer: Value) {
        self.cast(name, hooks, move |_| Take::Say(answer.clone()));
    }

    pub(super) fn host(&self) -> PluginHost {
        self.host_with(HostConfig { enabled: true, ..HostConfig::default() })
    }

    pub(super) fn host_with(&self, config: HostConfig) -> PluginHost {
        let parts = HostParts {
            config,
            catalog: Arc::new(self.clone()),
            launcher: Arc::new(Nobody),
            profiles: Arc::new(Profiles {
                home: "/".into(),
                state: "/".into(),
                hidden: Vec::new(),
                least: Enforcement::Advisory,
                probe: LazyProbe::default(),
            }),
            listener: Arc::new(self.clone()),
            state: self.state.as_ref().expect("a stage that was made").path().to_owned(),
        };
        PluginHost::with_programs(parts, Arc::new(self.clone()))
    }

    pub(super) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn asked_names(&self) -> Vec<String> {
        self.asked().into_iter().map(|(name, _)| name).collect()
    }
}

impl Catalog for Stage {
    fn survey(&self) -> Survey {
        Survey { found: self.found.lock().unwrap().clone(), ..Survey::default() }
    }

    fn unchanged(&self, _found: &Found) -> Result<(), String> {
        Ok(())
    }

    fn secret(&self, _found: &Found, _name: &str) -> Option<OsString> {
        None
    }
}

impl NewsListener for Stage {
    fn on_news(&self, news: News) {
        self.news.lock().unwrap().push(news);
    }
}

impl Programs for Stage {
    fn open(
        &self,
        found: &Arc<Found>,
        _runtime: &Runtime,
        _events: ProgramEvents,
    ) -> Result<Arc<dyn Program>, String> {
        let script = self.scripts.lock().unwrap().get(&found.name).cloned();
        let script = script.ok_or_else(|| "nobody plays it".to_owned())?;
        let program = FakeProgram { name: found.name.clone(), script, stage: self.clone() };
        Ok(Arc::new(program))
    }
}

struct FakeProgram {
    name: String,
    script: Script,
    stage: Stage,
}

impl FakeProgram {
    async fn take(&self, request: Value, deadline: Duration) -> Result<Reply, CallFailure> {
        self.stage.asked.lock().unwrap().push((self.name.clone(), request.clone()));
        if let Some(gate) = &self.stage.gate {
            gate.notified().await;
        }
        match (self.script)(&request) {
            Take::Say(answer) => {
                let answer: Map<String, Value> = answer.as_object().cloned().unwrap_or_default();
                Ok(Reply { answer, ..Reply::default() })
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

impl Program for FakeProgram {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<Option<Reply>, CallFailure>> {
        let Request { mut fields, lines, deadline, .. } = request;
        fields.extend(lines.map(|lines| ("items".to_owned(), json!(lines))));
        Box::pin(async move { self.take(Value::Object(fields), deadline).await.map(Some) })
    }

    fn one_by_one(&self) -> bool {
        self.stage.single
    }

    fn level(&self) -> Option<&'static str> {
        None
    }

    fn wake(&self, _start: bool) -> BoxFuture<'_, Result<(), CallFailure>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Nobody;

impl Launcher for Nobody {
    fn launch<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> BoxFuture<'a, Result<RunningProgram, LaunchError>> {
        let plugin = launch.plugin.clone();
        let failed = LaunchError::Keeper { plugin, why: "there is none".to_owned() };
        Box::pin(std::future::ready(Err(failed)))
    }
}

/// A payload of plain words.
pub(super) fn payload(fields: &[(&'static str, &'static str)]) -> Payload {
    fields.iter().fold(Payload::new(), |payload, (name, word)| payload.fact(name, *word))
}

pub(super) fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |(at, text): (usize, &&str)| Line {
        seq: Seq(at as u64),
        unit: Unit::Line,
        text: (*text).to_owned(),
        partial: false,
    };
    texts.iter().enumerate().map(line).collect()
}
