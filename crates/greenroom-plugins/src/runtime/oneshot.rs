//! One program per call: one line of JSON in, one out.
//!
//! In: a launch, a request, a deadline. Out: its answer or why there is none, by the deadline. stdin is written beside
//! reading, both outputs are read to their caps and drained beyond. When an answer is complete, or time is up, the whole
//! tree is killed and our ends are closed: a grandchild that keeps stdout open delays nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{CallFailure, Launch, Launcher, Reply};

/// Programs at once, of all plugins: each is a tree of processes on a machine that has other work.
pub const AT_ONCE: usize = 8;
/// Programs at once of one plugin, so that none takes every turn.
pub const AT_ONCE_EACH: usize = 2;

/// Who has a turn. One for the whole daemon.
pub struct Turns {
    all: Semaphore,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { all: Semaphore::new(AT_ONCE), each: Mutex::default() }
    }
}

impl Turns {
    /// Runs the program once. Waiting for a turn counts against the deadline.
    pub async fn call(
        &self,
        _launcher: &dyn Launcher,
        launch: &Launch,
        _request: &Value,
        _deadline: Duration,
    ) -> Result<Reply, CallFailure> {
        let _ = (&self.all, &self.each);
        Err(CallFailure::Launch(format!("plugin {}: no runtime yet", launch.plugin)))
    }
}
