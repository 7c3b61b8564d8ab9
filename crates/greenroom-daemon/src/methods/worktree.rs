//! `worktree.*`: the worktrees sessions left, safe removal, and bringing work home.

use std::path::PathBuf;

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{
    CleanAction, CleanedEntry, WorktreeCleanParams, WorktreeCleanResult, WorktreeDiffParams,
    WorktreeDiffResult, WorktreeEntry, WorktreeListResult, WorktreeMergeParams,
    WorktreeMergeResult, WorktreeParams, WorktreeRemoveParams, WorktreeRemoveResult,
};
use greenroom_protocol::{Fault, FaultKind};
use greenroom_workspace::worktree::{Ask, Found, WorktreeError, Worktrees};

use crate::call::Call;
use crate::chains;
use crate::hooks;
use crate::sync::blocking;

pub(crate) async fn list(call: Call, _: Empty) -> Result<WorktreeListResult, Fault> {
    let mut worktrees = asked(&call, Worktrees::list).await?;
    for pending in
        chains::pending(&call.host.sessions).iter().filter(|one| one.plugin == "worktree")
    {
        let of = |entry: &&mut WorktreeEntry| entry.session.as_ref() == Some(&pending.session);
        if let Some(entry) = worktrees.iter_mut().find(of) {
            entry.why.push(format!("its clean-up failed and is tried again: {}", pending.why));
        }
    }
    Ok(WorktreeListResult { worktrees })
}

pub(crate) async fn clean(
    call: Call,
    params: WorktreeCleanParams,
) -> Result<WorktreeCleanResult, Fault> {
    let worktrees = asked(&call, move |worktrees| worktrees.clean(params.dry_run)).await?;
    worktrees.iter().for_each(|cleaned| tell_if_removed(&call, cleaned));
    Ok(WorktreeCleanResult { worktrees })
}

/// A diff over this is cut: it must fit a frame, escaped as JSON.
const DIFF_MAX: usize = 6 << 20;

pub(crate) async fn info(call: Call, params: WorktreeParams) -> Result<WorktreeEntry, Fault> {
    named(&call, params.worktree, params.cwd, |worktrees, found| {
        worktrees
            .listed_at(found.path())?
            .ok_or_else(|| WorktreeError::Unknown { name: found.slug().to_owned(), nearest: None })
    })
    .await
}

pub(crate) async fn diff(
    call: Call,
    params: WorktreeDiffParams,
) -> Result<WorktreeDiffResult, Fault> {
    named(&call, params.worktree.clone(), params.cwd.clone(), move |worktrees, found| {
        let diff = worktrees.diff(found, &params)?;
        let mut text = String::from_utf8_lossy(&diff.text).into_owned();
        let truncated = text.len() > DIFF_MAX;
        if truncated {
            let end = text.floor_char_boundary(DIFF_MAX);
            text.truncate(text[..end].rfind('\n').map_or(end, |at| at + 1));
        }
        Ok(WorktreeDiffResult {
            slug: found.slug().to_owned(),
            path: found.path().display().to_string(),
            branch: found.branch().to_owned(),
            base: diff.base.to_string(),
            commits: diff.commits as u64,
            diff: text,
            truncated,
            notes: diff.notes,
        })
    })
    .await
}

pub(crate) async fn merge(
    call: Call,
    params: WorktreeMergeParams,
) -> Result<WorktreeMergeResult, Fault> {
    named(&call, params.worktree.clone(), params.cwd.clone(), move |worktrees, found| {
        worktrees.merge(found, &params)
    })
    .await
}

pub(crate) async fn remove(
    call: Call,
    params: WorktreeRemoveParams,
) -> Result<WorktreeRemoveResult, Fault> {
    let force = params.force;
    let removed = named(&call, params.worktree, params.cwd, move |worktrees, found| {
        worktrees.remove_one(found, force)
    })
    .await?;
    tell_if_removed(&call, &removed.worktree);
    Ok(removed)
}

fn tell_if_removed(call: &Call, cleaned: &CleanedEntry) {
    if cleaned.action == CleanAction::Removed {
        hooks::worktree_removed(call.host.hooks.plugins(), None, &cleaned.path);
    }
}

/// Does something with the worktree a word means.
async fn named<T: Send + 'static>(
    call: &Call,
    name: String,
    cwd: Option<String>,
    work: impl FnOnce(&Worktrees, &Found) -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, Fault> {
    // By its exact name or id: a prefix is not enough for verbs that remove things.
    let session = call.host.sessions.engine().find(&name).ok().map(|handle| handle.info().record);
    let session = session.filter(|one| one.name == name || one.id.to_string() == name);
    let ask =
        Ask { session_dir: session.map(|record| record.cwd), cwd: cwd.map(PathBuf::from), name };
    asked(call, move |worktrees| work(worktrees, &worktrees.find(&ask)?)).await
}

/// Git is asked about every worktree: not on a thread that serves others.
async fn asked<T: Send + 'static>(
    call: &Call,
    work: impl FnOnce(&Worktrees) -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, Fault> {
    let worktrees = call.host.sessions.worktrees().clone();
    blocking(move || work(&worktrees)).await?.map_err(|error| fault(&error))
}

fn fault(error: &WorktreeError) -> Fault {
    let kind = match error {
        WorktreeError::Unknown { .. } | WorktreeError::NoBranch { .. } => FaultKind::NotFound,
        WorktreeError::Ambiguous { .. } => FaultKind::Ambiguous,
        WorktreeError::Base { .. } | WorktreeError::IntoItself { .. } => FaultKind::InvalidParams,
        WorktreeError::Dirty { .. }
        | WorktreeError::Conflicts { .. }
        | WorktreeError::NoCheckout { .. }
        | WorktreeError::NotMerged { .. }
        | WorktreeError::Unfit { .. }
        | WorktreeError::NoCommit { .. }
        | WorktreeError::Live { .. } => FaultKind::Conflict,
        _ => FaultKind::Disk,
    };
    let mut fault = Fault::new(kind, error.to_string());
    if let WorktreeError::Conflicts { files, .. } | WorktreeError::Dirty { files, .. } = error {
        fault = fault.with("files", files.clone());
    }
    match error.hint() {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}
