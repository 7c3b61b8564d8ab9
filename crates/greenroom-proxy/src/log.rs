//! The decisions about one session: a line in its log for each, and each new denial told once.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use greenroom_protocol::Timestamp;
use serde_json::json;

/// The log of one session: enough for thousands of decisions, and no more.
const LOG_MAX: u64 = 4 * 1024 * 1024;

/// Denials that are told; a program that tries names in a loop must not flood the event log.
const TOLD_MAX: usize = 200;

/// Is told each new denial: what, why.
pub type Tell = Arc<dyn Fn(&str, &str) + Send + Sync>;

pub struct Decisions {
    state: Mutex<State>,
    tell: Tell,
}

struct State {
    file: Option<File>,
    written: u64,
    told: HashSet<String>,
}

impl Decisions {
    /// The log is made when there is something to write. Without a place for it decisions are only
    /// told.
    pub fn new(log: &Path, tell: Tell) -> Decisions {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        if let Err(error) = &file {
            tracing::warn!(path = %log.display(), %error, "the log of a session's proxy");
        }
        let written =
            file.as_ref().ok().and_then(|file| Some(file.metadata().ok()?.len())).unwrap_or(0);
        let state = State { file: file.ok(), written, told: HashSet::new() };
        Decisions { state: Mutex::new(state), tell }
    }

    pub fn allowed(&self, what: &str) {
        self.write("allow", what, None);
    }

    pub fn denied(&self, what: &str, why: &str) {
        if self.write("deny", what, Some(why)) {
            (self.tell)(what, why);
        }
    }

    /// A host that may be reached and was not there.
    pub fn failed(&self, what: &str, why: &str) {
        self.write("fail", what, Some(why));
    }

    /// True if this is a denial that was not told yet.
    fn write(&self, verdict: &str, what: &str, why: Option<&str>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let time = Timestamp::from_system(SystemTime::now());
        let mut line = json!({ "time": time, "verdict": verdict, "what": what });
        if let Some(why) = why {
            line["why"] = json!(why);
        }
        let line = format!("{line}\n");
        if state.written + line.len() as u64 <= LOG_MAX {
            state.written += line.len() as u64;
            if let Some(file) = &mut state.file {
                // A full disk loses lines of a log, not connections.
                let _ = file.write_all(line.as_bytes());
            }
        }
        verdict == "deny" && state.told.len() < TOLD_MAX && state.told.insert(what.to_owned())
    }
}
