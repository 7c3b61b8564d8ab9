//! What a caller asked for, as the session that plugins see first.

use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;
use greenroom_protocol::Fault;
use greenroom_protocol::api::ask::WorktreeAsk;
use greenroom_protocol::api::session::CreateParams;
use greenroom_workspace::spec::SessionSpec;

use super::{Sessions, environment};
use crate::convert;

/// Labels of one session, and the length of each name and value: they are kept in memory and told
/// in every list.
const LABELS_MAX: usize = 64;
const LABEL_BYTES: usize = 1024;

/// A task's description.
const TASK_BYTES: usize = 64 * 1024;

/// Words such as `claude` and `thorough`.
const WORD_BYTES: usize = 256;

/// The session before any plugin saw it. No session has its id yet: nothing is named after it.
pub(crate) fn spec(sessions: &Sessions, params: &CreateParams) -> Result<SessionSpec, Fault> {
    environment::check(params)?;
    check_labels(params)?;
    let worktree = params.ask.worktree.yes();
    if worktree.is_some_and(|ask| ask.slug == WorktreeAsk::OWN) {
        let message = "worktree is a slug, or an object with slug and base, not true";
        return Err(Fault::invalid_params(message));
    }
    let named = worktree.map(|ask| ask.slug.clone());
    let env = environment::of(sessions, params);
    let size = match (params.size, params.rows, params.cols) {
        (None, None, None) => {
            let (cols, rows) = sessions.settings.now().sessions.default_size;
            greenroom_engine::term::Size::new(cols, rows)
                .ok_or_else(|| Fault::invalid_params("size"))?
        }
        _ => convert::size_in(params.size())?,
    };
    let argv = match params.argv() {
        Some(argv) => argv.into_iter().map(std::ffi::OsString::from).collect(),
        None => vec![environment::shell(sessions, params, &env)],
    };
    let cwd = match &params.cwd {
        Some(cwd) => PathBuf::from(cwd),
        None => match params.ask.env.0.get("HOME").map(PathBuf::from) {
            Some(home) => home,
            None => env.get(std::ffi::OsStr::new("HOME")).map_or_else(|| "/".into(), PathBuf::from),
        },
    };
    let program = || Some(Path::new(argv.first()?).file_name()?.to_string_lossy().into_owned());
    let base = greenroom_engine::SessionSpec {
        name: params.name.clone(),
        named_after: named.or_else(program),
        env,
        about: params.about().written(),
        ..greenroom_engine::SessionSpec::new(argv, cwd, size)
    };
    let spec = SessionSpec::new(SessionId(0), base, params.ask.clone());
    Ok(SessionSpec { with: params.with.clone(), run: params.run.clone(), ..spec })
}

fn check_labels(params: &CreateParams) -> Result<(), Fault> {
    if params.labels.len() > LABELS_MAX {
        return Err(Fault::invalid_params(format!("more than {LABELS_MAX} labels")));
    }
    if params.labels.iter().any(|(name, value)| name.len().max(value.len()) > LABEL_BYTES) {
        return Err(Fault::invalid_params(format!("a label longer than {LABEL_BYTES} bytes")));
    }
    if params.task.as_ref().is_some_and(|task| task.len() > TASK_BYTES) {
        return Err(Fault::invalid_params(format!("a task longer than {TASK_BYTES} bytes")));
    }
    for (what, word) in [("backend", &params.backend), ("effort", &params.effort)] {
        if word.as_ref().is_some_and(|word| word.is_empty() || word.len() > WORD_BYTES) {
            return Err(Fault::invalid_params(format!("{what} has 1 to {WORD_BYTES} bytes")));
        }
    }
    Ok(())
}
