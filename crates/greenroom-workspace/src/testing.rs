//! A session for tests of plugins.

use std::path::Path;
use std::sync::Arc;

use greenroom_engine::SessionId;
use greenroom_engine::term::Size;

use greenroom_protocol::api::ask::SessionAsk;

use crate::spec::{Living, SessionSpec, Surroundings};

pub fn spec(id: u64) -> SessionSpec {
    let argv = vec!["true".into()];
    let size = Size::new(80, 24).unwrap();
    let base = greenroom_engine::SessionSpec::new(argv, std::env::temp_dir(), size);
    SessionSpec::new(SessionId(id), base, SessionAsk::default())
}

struct Nobody;

impl Living for Nobody {
    fn is_alive(&self, _: SessionId) -> bool {
        false
    }
}

/// Everything below one directory, and nobody alive.
pub fn surroundings(home: &Path) -> Surroundings {
    Surroundings {
        state: home.join("state"),
        config: home.join("config"),
        runtime: home.join("run"),
        home: home.to_owned(),
        living: Arc::new(Nobody),
    }
}
