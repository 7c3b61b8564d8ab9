//! The worktree as a link of the chain.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::end::{Ended, Outcome};
use super::error::WorktreeError;
use super::make::{Made, Request, Target};
use super::record::Record;
use super::{Worktrees, excludes, values};
use crate::spec::{
    CleaningUp, Cleanup, Description, EndedHow, GitPlace, PluginState, Preparing, Refusal,
    SessionEnd, SessionPlugin, SessionSpec,
};
use crate::threads::blocking;

pub const ABOUT: Description = Description {
    name: "worktree",
    summary: Some("a worktree of its own for a session"),
    asks: &["worktree"],
    order: 100,
    durable: true,
};

/// `--worktree SLUG [--base REF]`.
pub struct Worktree(pub Worktrees);

/// What the chain keeps for us; the rest is in the worktree's own record.
#[derive(Serialize, Deserialize)]
struct Notes {
    record: PathBuf,
    path: PathBuf,
}

impl SessionPlugin for Worktree {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        state: &'a mut PluginState,
    ) -> Preparing<'a> {
        Box::pin(async move {
            let Some(ask) = spec.ask.worktree.yes().cloned() else { return Err(no_slug()) };
            let target = self.find(&spec.base.cwd, &ask.slug).await?;
            state.record(&Notes { record: target.record.clone(), path: target.path.clone() })?;
            let (worktrees, id, env) = (self.0.clone(), spec.id, spec.base.env.clone());
            let confined = spec.ask.sandbox.yes().is_some();
            let made = blocking(move || {
                let request =
                    Request { session: id, base: ask.base.as_deref(), env: &env, confined };
                let made = worktrees.make(&target, &request)?;
                let record = Record::load(&target.record)?;
                Ok::<_, WorktreeError>((made, record.as_ref().map(values::of).unwrap_or_default()))
            });
            let (made, values) = made.await?;
            apply(made, spec);
            spec.hides.extend(values);
            Ok(())
        })
    }

    fn after_session<'a>(&'a self, end: &'a SessionEnd, state: &'a PluginState) -> CleaningUp<'a> {
        Box::pin(async move {
            let Some(notes) = state.read::<Notes>()? else { return Ok(Cleanup::Nothing) };
            let how = match end.how {
                EndedHow::NeverStarted => Ended::NeverStarted,
                EndedHow::Exited(_) => Ended::Exited,
                EndedHow::TimedOut(_) => Ended::TimedOut,
            };
            let (worktrees, id) = (self.0.clone(), end.id);
            let outcome = blocking(move || worktrees.end(&notes.record, id, how)).await?;
            Ok(match outcome {
                Outcome::Nothing => Cleanup::Nothing,
                Outcome::Removed { path, branch, branch_kept } => {
                    let and = if branch_kept { "" } else { " and its branch " };
                    let branch = if branch_kept { String::new() } else { branch };
                    Cleanup::Removed { what: format!("worktree {}{and}{branch}", path.display()) }
                }
                Outcome::Kept { path, branch, why } => Cleanup::Kept {
                    what: format!("worktree {} on branch {branch}", path.display()),
                    why: why.join("; "),
                },
            })
        })
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        Box::pin(async move {
            let Some(ask) = spec.ask.worktree.yes().cloned() else { return Err(no_slug()) };
            let target = self.find(&spec.base.cwd, &ask.slug).await?;
            let worktrees = self.0.clone();
            let (path, branch) = (target.path.clone(), target.branch.clone());
            let base = blocking(move || worktrees.foresee(&target, ask.base.as_deref())).await?;
            spec.note(match base {
                Some(base) => format!("would make branch {branch} at {}", base.short()),
                None => format!("would resume the worktree on {branch}"),
            });
            spec.base.cwd = path;
            Ok(())
        })
    }
}

impl Worktree {
    async fn find(&self, cwd: &std::path::Path, slug: &str) -> Result<Target, WorktreeError> {
        let (worktrees, cwd, slug) = (self.0.clone(), cwd.to_owned(), slug.to_owned());
        blocking(move || worktrees.target(&cwd, &slug)).await
    }
}

fn no_slug() -> Refusal {
    Refusal::new("a worktree needs a slug").hint("--worktree feat-auth")
}

fn apply(made: Made, spec: &mut SessionSpec) {
    for (name, value) in made.env() {
        spec.set_env(name, value);
    }
    if let Some(file) = &made.excludes {
        excludes::use_file(&mut spec.base.env, file);
    }
    let (branch, repository) = (&made.branch, made.common_dir.display());
    spec.done.push(format!("git: branch {branch} of {repository}"));
    spec.git = Some(GitPlace {
        worktree: made.path,
        common_dir: made.common_dir,
        admin_dir: made.admin_dir,
        branch: made.branch,
        resumed: made.resumed,
    });
    spec.base.cwd = made.cwd;
    spec.notes.extend(made.notes);
}
