//! What is wrong with the host's own files, and what holds instead: for `doctor`, the log, and
//! whoever starts a session.
//!
//! A damaged file never keeps the host from answering, and never makes it show more than before; it
//! is set aside or done without, and a sentence here says so.

use std::sync::Mutex;

use crate::sync::lock;

/// See the module.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<All>);

#[derive(Default)]
struct All {
    config: Option<String>,
    files: Vec<String>,
}

impl Troubles {
    /// A file could not be used.
    pub(crate) fn note(&self, what: String) {
        tracing::error!("{what}");
        lock(&self.0).files.push(what);
    }

    /// The configuration has mistakes, or none any more.
    pub(crate) fn config_is(&self, trouble: Option<String>) {
        if let Some(what) = &trouble {
            tracing::error!("{what}");
        }
        lock(&self.0).config = trouble;
    }

    /// What is wrong with the configuration: with a file that is not understood no session is
    /// started.
    pub(crate) fn config(&self) -> Option<String> {
        lock(&self.0).config.clone()
    }

    /// Everything that is wrong, in sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let all = lock(&self.0);
        all.config.iter().chain(&all.files).cloned().collect()
    }
}
