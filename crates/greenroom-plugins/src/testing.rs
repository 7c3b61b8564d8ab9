//! A session for tests of plugins.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use greenroom_engine::SessionId;
use greenroom_engine::term::Size;

use crate::spec::{Ask, Living, SessionSpec, Surroundings};

pub fn spec(id: u64) -> SessionSpec {
    let base = greenroom_engine::SessionSpec {
        name: None,
        named_after: None,
        argv: vec!["true".into()],
        cwd: std::env::temp_dir(),
        env: BTreeMap::new(),
        size: Size::new(80, 24).unwrap(),
        labels: BTreeMap::new(),
        task: None,
        backend: None,
        effort: None,
        hidden: Vec::new(),
        confinement: None,
    };
    SessionSpec::new(SessionId(id), base, Ask::default())
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
