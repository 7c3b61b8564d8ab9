//! Which worktrees a run works in.
//!
//! A name in the file is taken as it is while it is free. If an earlier run or a session has it, or
//! left work in it, this run gets one with its own id, `feat-x-r2`: two runs of a file never
//! continue each other's branches unless somebody says so. What was settled at the start holds for
//! the whole run, also when it is resumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use greenroom_formats::connector::Plan;
use greenroom_protocol::{Fault, FaultKind};

use crate::Terminals;

/// Longest name of a worktree.
const SLUG_MAX: usize = 100;

/// The names that are taken, and what they are to be in this run.
pub(crate) async fn fresh(
    terminals: &Arc<dyn Terminals>,
    plan: &Plan,
    run: &str,
    cwd: &str,
) -> Result<BTreeMap<String, String>, Fault> {
    let sessions = plan.phases.iter().flat_map(|phase| &phase.workers).map(|one| &one.session);
    let mut asked: Vec<(String, std::path::PathBuf)> = Vec::new();
    for session in sessions.filter(|session| !session.resumes) {
        let Some(ask) = session.ask.worktree.yes() else { continue };
        let place = Path::new(cwd).join(session.cwd.as_deref().unwrap_or(""));
        asked.push((ask.slug.clone(), place));
    }
    asked.sort();
    asked.dedup();
    let (terminals, run) = (terminals.clone(), run.to_owned());
    let looked = tokio::task::spawn_blocking(move || {
        let mut renamed = BTreeMap::new();
        for (slug, place) in asked {
            if !renamed.contains_key(&slug) && terminals.is_taken(&place, &slug) {
                let kept = SLUG_MAX - run.len() - 1;
                let stem = slug.get(..kept).unwrap_or(&slug).trim_end_matches(['/', '.']);
                renamed.insert(slug.clone(), format!("{stem}-{run}"));
            }
        }
        renamed
    });
    looked.await.map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))
}

/// Puts the names of this run into its plan, and says so.
pub(crate) fn rename(plan: &mut Plan, renamed: &BTreeMap<String, String>) {
    let workers = plan.phases.iter_mut().flat_map(|phase| &mut phase.workers);
    for session in workers.map(|worker| &mut worker.session).filter(|session| !session.resumes) {
        if let Some(ask) = session.ask.worktree.yes_mut()
            && let Some(name) = renamed.get(&ask.slug)
        {
            ask.slug.clone_from(name);
        }
    }
    for (slug, name) in renamed {
        plan.notes.push(format!(
            "worktree {slug} is there already: this run works in {name} (--reuse-worktrees goes on in {slug})"
        ));
    }
}
