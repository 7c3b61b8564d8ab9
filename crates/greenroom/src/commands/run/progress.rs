//! How a run goes, on stderr: a line for each thing that happened and, on a terminal, one at the
//! bottom that changes. Silent with `--json`.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Instant;

use greenroom_protocol::api::event::Event;
use greenroom_protocol::events::{EventData as _, RunPhase, RunStarted, RunWorker};
use serde_json::Value;

use crate::error::without_errno;
use crate::output::{Output, Tone, begin, millis, one_line, span, take_back};

pub struct Progress {
    out: Output,
    /// A line at the bottom can be drawn again.
    live: bool,
    drawn: bool,
    began: Instant,
    /// Workers by phase and name, and how each stands.
    workers: BTreeMap<(String, String), String>,
    phases: Vec<String>,
    total: u64,
}

impl Progress {
    pub fn new(out: &Output) -> Progress {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Progress {
            out: *out,
            live: !out.json && !dumb && std::io::stderr().is_terminal(),
            drawn: false,
            began: Instant::now(),
            workers: BTreeMap::new(),
            phases: Vec::new(),
            total: 0,
        }
    }

    pub fn event(&mut self, event: &Event) {
        let data = &event.data;
        let line = match event.kind.as_str() {
            RunStarted::KIND => {
                self.total = data["workers"].as_u64().unwrap_or(0);
                let name = data["name"].as_str().map(|name| format!(" ({name})"));
                Some(format!("run {}{}", word(data, "run"), one_line(&name.unwrap_or_default())))
            }
            RunPhase::KIND => self.phase(data),
            RunWorker::KIND => self.worker(data),
            _ => None,
        };
        if let Some(line) = line {
            self.say(&line);
        }
        self.draw();
    }

    fn phase(&mut self, data: &Value) -> Option<String> {
        let (name, state) = (word(data, "phase"), word(data, "state"));
        self.phases.retain(|phase| *phase != name);
        match state.as_str() {
            "running" => {
                self.phases.push(name.clone());
                Some(self.out.paint(Tone::Head, &one_line(&name)))
            }
            "skipped" => {
                let why = data["why"].as_str().map(|why| one_line(&without_errno(why)));
                let why = why.map(|why| format!(": {why}"));
                let skipped = self.out.paint(Tone::Dim, "left out");
                Some(format!("{} {skipped}{}", one_line(&name), why.unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn worker(&mut self, data: &Value) -> Option<String> {
        let (phase, worker, state) =
            (word(data, "phase"), word(data, "worker"), word(data, "state"));
        let label = one_line(&format!("  {phase} {worker}"));
        self.workers.insert((phase, worker), state.clone());
        let why = data["why"].as_str().map(|why| one_line(&without_errno(why)));
        let took = data["took_ms"].as_u64().map(|ms| format!(" in {}", span(ms)));
        let took = took.unwrap_or_default();
        Some(match state.as_str() {
            "starting" => {
                let why = why?;
                let again = self.out.paint(Tone::Warn, "again");
                format!("{label}  {again}: {why}")
            }
            "running" => {
                let model = data["model"].as_str().unwrap_or("shell");
                let running = self.out.paint(Tone::Busy, "running");
                format!("{label}  {running} as {} ({model})", word(data, "session"))
            }
            "done" => format!("{label}  {}{took}", self.out.paint(Tone::Good, "done")),
            "failed" => {
                let failed = self.out.paint(Tone::Bad, "failed");
                format!("{label}  {failed}{took}: {}", why.unwrap_or_default())
            }
            "cancelled" => format!("{label}  {}", self.out.paint(Tone::Dim, "stopped")),
            _ => return None,
        })
    }

    /// A line that stays.
    pub fn say(&mut self, line: &str) {
        self.clear();
        self.out.note(line);
        self.draw();
    }

    pub fn tick(&mut self) {
        if self.drawn {
            self.clear();
            self.draw();
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            take_back();
        }
    }

    fn draw(&mut self) {
        if !self.live || self.phases.is_empty() {
            return;
        }
        self.clear();
        let count = |state: &str| self.workers.values().filter(|found| *found == state).count();
        let over = count("done") + count("failed") + count("skipped") + count("cancelled");
        let took = span(millis(self.began.elapsed()));
        let phases = one_line(&self.phases.join(", "));
        let text = format!(
            "{phases}: {} running, {over} of {} over, {took}",
            count("running"),
            self.total
        );
        // Wider than the window it could not be taken back.
        let text = self.out.fitted(&text);
        begin(&self.out.paint(Tone::Dim, &text));
        self.drawn = true;
    }
}

fn word(data: &Value, key: &str) -> String {
    data[key].as_str().unwrap_or("?").to_owned()
}
