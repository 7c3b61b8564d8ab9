//! What is wrong with the host's own files, and what holds instead: for `doctor`, the log, and whoever starts a session.
//!
//! A damaged file never keeps the host from answering, and never makes it show more than before; it is set aside or done
//! without, and a sentence here says so.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Default)]
pub struct Troubles(Mutex<All>);

#[derive(Default)]
struct All {
    config: Option<String>,
    files: Vec<String>,
}

impl Troubles {
    /// A file could not be used.
    pub fn note(&self, what: String) {
        tracing::error!("{what}");
        self.all().files.push(what);
    }

    /// The configuration has mistakes, or none any more.
    pub fn config_is(&self, trouble: Option<String>) {
        if let Some(what) = &trouble {
            tracing::error!("{what}");
        }
        self.all().config = trouble;
    }

    /// What is wrong with the configuration: with a file that is not understood no session is started.
    pub fn config(&self) -> Option<String> {
        self.all().config.clone()
    }

    /// Everything, in sentences.
    pub fn told(&self) -> Vec<String> {
        let all = self.all();
        all.config.iter().chain(&all.files).cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
