//! A session for tests of plugins.

use std::collections::BTreeMap;

use greenroom_engine::SessionId;
use greenroom_engine::term::Size;

use crate::spec::{Ask, SessionSpec};

pub fn spec(id: u64) -> SessionSpec {
    let base = greenroom_engine::SessionSpec {
        name: None,
        argv: vec!["true".into()],
        cwd: std::env::temp_dir(),
        env: BTreeMap::new(),
        size: Size::new(80, 24).unwrap(),
        labels: BTreeMap::new(),
        task: None,
        confinement: None,
    };
    SessionSpec::new(SessionId(id), base, Ask::default())
}
