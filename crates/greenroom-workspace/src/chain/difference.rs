//! Who changed what of a session: the difference between two specs, for people.
//!
//! Values that a plugin set and that may be seen are shown; the caller's own variables and secrets
//! show by name only.

use std::ffi::OsStr;

use serde::{Deserialize, Serialize};

use crate::spec::SessionSpec;

/// What one plugin did to the spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub plugin: String,
    /// One line each, such as `cwd: /src/app -> /state/worktrees/app/feat`.
    pub lines: Vec<String>,
}

impl Change {
    pub fn between(plugin: &str, before: &SessionSpec, after: &SessionSpec) -> Change {
        let mut lines = Vec::new();
        if before.base.cwd != after.base.cwd {
            let (from, to) = (before.base.cwd.display(), after.base.cwd.display());
            lines.push(format!("cwd: {from} -> {to}"));
        }
        if before.base.argv != after.base.argv || before.wrappers != after.wrappers {
            lines.push(format!("argv: {} -> {}", argv(before), argv(after)));
        }
        environment(before, after, &mut lines);
        let writable = after.writable.iter().filter(|path| !before.writable.contains(path));
        lines.extend(writable.map(|path| format!("writable: + {}", path.display())));
        lines.extend(after.done.iter().skip(before.done.len()).cloned());
        lines.extend(
            after.notes.iter().skip(before.notes.len()).map(|note| format!("note: {note}")),
        );
        Change { plugin: plugin.to_owned(), lines }
    }
}

fn environment(before: &SessionSpec, after: &SessionSpec, lines: &mut Vec<String>) {
    for (name, value) in &after.base.env {
        if before.base.env.get(name) != Some(value) {
            lines.push(format!("env: + {}={}", name.display(), value.display()));
        }
    }
    for (name, value) in &after.secrets {
        if before.secrets.get(name) != Some(value) {
            lines.push(format!("env: + {}=(hidden)", name.display()));
        }
    }
    let has = |name: &OsStr| after.base.env.contains_key(name) || after.secrets.contains_key(name);
    let gone = before.base.env.keys().chain(before.secrets.keys()).filter(|name| !has(name));
    lines.extend(gone.map(|name| format!("env: - {}", name.display())));
}

fn argv(spec: &SessionSpec) -> String {
    let words = spec.wrappers.iter().flatten().chain(&spec.base.argv);
    words.map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
}
