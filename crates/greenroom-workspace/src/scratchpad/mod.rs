//! The session plugin `scratchpad`: a directory that several sessions share.
//!
//! It lies in the state directory, outside of every worktree; each session finds it as
//! `scratchpad/` in its directory and in `GREENROOM_SCRATCHPAD`. A named one belongs to all who say
//! the name, that of a run to its workers, any other to one session. Who uses it is written beside
//! it, one file per session; the last one removes it if it is empty, and keeps it if it is not:
//! what workers found out is work. Git does not see the link, neither in the session (`excludes`)
//! nor outside (`outside`).
//!
//! Deliberately absent: locking between writers, and any look into the files.

mod excludes;
mod outside;
mod size;
mod uses;

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use greenroom_engine::SessionId;
use greenroom_protocol::api::ask::ScratchpadAsk;
use serde::{Deserialize, Serialize};

pub use size::{Size, measure};

use crate::disk::{gone, private_dir};
use crate::spec::{
    CleaningUp, Cleanup, CleanupError, Description, PluginState, Preparing, Refusal, SessionEnd,
    SessionPlugin, SessionSpec, Surroundings,
};
use crate::threads::{blocking, lock};
use uses::{Use, Uses};

/// `[scratchpad]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScratchpadConfig {
    /// What each session's directory shows.
    pub link: String,
}

impl Default for ScratchpadConfig {
    fn default() -> ScratchpadConfig {
        ScratchpadConfig { link: "scratchpad".to_owned() }
    }
}

/// The variable in each session.
pub const VARIABLE: &str = "GREENROOM_SCRATCHPAD";

pub struct Scratchpad {
    dir: PathBuf,
    link: String,
    excludes: PathBuf,
    /// Held while links and uses are looked at and changed together.
    turn: Arc<Mutex<()>>,
}

/// What the plugin noted of one session.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Notes {
    name: String,
    dir: PathBuf,
    link: PathBuf,
    /// Ours alone, for git in this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    excludes: Option<PathBuf>,
    /// The repository's own list, which names the link as long as it is there, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outside: Option<(PathBuf, String)>,
}

impl Scratchpad {
    pub fn new(config: ScratchpadConfig, surroundings: &Surroundings) -> Scratchpad {
        Scratchpad {
            link: config.link,
            dir: surroundings.state_dir("scratchpads"),
            excludes: surroundings.state_dir("excludes"),
            turn: Arc::default(),
        }
    }

    fn plan(&self, spec: &SessionSpec) -> Result<Notes, Refusal> {
        let named = spec.ask.scratchpad.yes().and_then(|ask| ask.name.clone());
        let name = match (named, &spec.run) {
            (Some(name), _) => checked(name)?,
            (None, Some(run)) => format!("run-{run}"),
            // A session that is only thought of has no id yet.
            (None, None) if spec.id.0 == 0 => "session-sN".to_owned(),
            (None, None) => format!("session-{}", spec.id),
        };
        let dir = self.dir.join(&name);
        let link = spec.base.cwd.join(&self.link);
        match std::fs::symlink_metadata(&link) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) if std::fs::read_link(&link).is_ok_and(|to| to == dir) => {}
            Ok(_) => {
                return Err(Refusal::new(format!(
                    "cannot show the scratchpad as {}: something else is there",
                    link.display()
                ))
                .hint(
                    "move it away, or start in another directory, for instance with --worktree",
                ));
            }
            Err(error) => {
                return Err(Refusal::new(format!("cannot look at {}: {error}", link.display())));
            }
        }
        let excludes = excludes::needed(spec).then(|| self.excludes.join(spec.id.to_string()));
        let cwd = &spec.base.cwd;
        let outside = excludes::repository(cwd)
            .and_then(outside::list)
            .map(|list| (list, excludes::below(cwd, &link)));
        Ok(Notes { name, dir, link, excludes, outside })
    }

    fn show(&self, notes: &Notes, spec: &mut SessionSpec) {
        spec.set_env(VARIABLE, notes.dir.clone());
        spec.writable.push(notes.dir.clone());
    }
}

/// Where a session's scratchpad is, from the plugin's notes.
pub fn noted(state: &serde_json::Value) -> Option<PathBuf> {
    Some(Notes::deserialize(state).ok()?.dir)
}

/// Makes everything that was noted. Blocks.
fn make(notes: &Notes, turn: &Mutex<()>, id: SessionId) -> Result<(), Refusal> {
    let _turn = lock(turn);
    let refuse = |what: &str, path: &Path, error: io::Error| {
        Refusal::new(format!("cannot make {what} {}: {error}", path.display()))
            .hint("check the space and rights there")
    };
    Uses::of(&notes.dir)
        .add(id, &Use { link: notes.link.clone() })
        .map_err(|error| refuse("a note beside", &notes.dir, error))?;
    private_dir(&notes.dir).map_err(|error| refuse("the scratchpad", &notes.dir, error))?;
    if std::fs::symlink_metadata(&notes.link).is_err() {
        symlink(&notes.dir, &notes.link).map_err(|error| refuse("the link", &notes.link, error))?;
    }
    if let Some((list, below)) = &notes.outside
        && let Err(error) = outside::hide(list, id, &notes.link, below)
    {
        // The session does not need it.
        tracing::warn!(session = %id, %error, list = %list.display(), "git outside sees the scratchpad");
    }
    Ok(())
}

/// Takes back what was noted, as far as nobody else uses it. Blocks.
fn take_back(notes: &Notes, turn: &Mutex<()>, id: SessionId) -> Result<Cleanup, CleanupError> {
    let _turn = lock(turn);
    let refuse = |what: &str, path: &Path, error: io::Error| {
        CleanupError::new(format!("cannot {what} {}: {error}", path.display()))
    };
    if let Some(file) = &notes.excludes {
        gone(std::fs::remove_file(file)).map_err(|error| refuse("remove", file, error))?;
    }
    if let Some((list, _)) = &notes.outside {
        outside::show(list, id, &notes.link).map_err(|error| refuse("change", list, error))?;
    }
    let uses = Uses::of(&notes.dir);
    uses.remove(id).map_err(|error| refuse("remove the note beside", &notes.dir, error))?;
    let others = uses.all().map_err(|error| refuse("read the notes beside", &notes.dir, error))?;
    let shown_by_others = others.iter().any(|(_, other)| other.link == notes.link);
    // Only if it is still ours: the session could have put anything there.
    if !shown_by_others && std::fs::read_link(&notes.link).is_ok_and(|to| to == notes.dir) {
        gone(std::fs::remove_file(&notes.link))
            .map_err(|error| refuse("remove the link", &notes.link, error))?;
    }
    if !others.is_empty() {
        return Ok(Cleanup::Nothing);
    }
    match std::fs::remove_dir(&notes.dir) {
        Ok(()) => {
            uses.forget();
            Ok(Cleanup::Removed { what: format!("the empty scratchpad {}", notes.name) })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            uses.forget();
            Ok(Cleanup::Nothing)
        }
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            uses.forget();
            let what = format!("scratchpad {}", notes.dir.display());
            Ok(Cleanup::Kept { what, why: format!("it holds {}", measure(&notes.dir)) })
        }
        Err(error) => Err(refuse("remove", &notes.dir, error)),
    }
}

fn checked(name: String) -> Result<String, Refusal> {
    if ScratchpadAsk::may_be_called(&name) {
        return Ok(name);
    }
    let refusal = Refusal::new(format!("cannot name a scratchpad {name:?}"));
    Err(refusal.hint(ScratchpadAsk::NAMES))
}

pub const ABOUT: Description = Description {
    name: "scratchpad",
    summary: Some("a directory of its own for a session"),
    asks: &["scratchpad"],
    order: 200,
    durable: true,
};

impl SessionPlugin for Scratchpad {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        state: &'a mut PluginState,
    ) -> Preparing<'a> {
        Box::pin(async move {
            let notes = self.plan(spec)?;
            state.record(&notes)?;
            let (turn, id) = (self.turn.clone(), spec.id);
            let theirs = notes.clone();
            blocking(move || make(&theirs, &turn, id)).await?;
            excludes::apply(spec, &notes.link, notes.excludes.as_deref()).map_err(|error| {
                Refusal::new(format!("cannot hide the scratchpad from git: {error}"))
            })?;
            spec.readable.extend(notes.excludes.clone());
            self.show(&notes, spec);
            Ok(())
        })
    }

    fn after_session<'a>(&'a self, end: &'a SessionEnd, state: &'a PluginState) -> CleaningUp<'a> {
        Box::pin(async move {
            let Some(notes) = state.read::<Notes>()? else { return Ok(Cleanup::Nothing) };
            let (turn, id) = (self.turn.clone(), end.id);
            blocking(move || take_back(&notes, &turn, id)).await
        })
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        Box::pin(async move {
            let notes = self.plan(spec)?;
            self.show(&notes, spec);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
