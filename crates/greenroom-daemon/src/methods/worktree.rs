//! `worktree.*`: the worktrees sessions left, safe removal, and bringing work home.

use std::path::PathBuf;

use greenroom_plugins::worktree::{
    Action, Ask, Cleaned, DiffAsk, Found, How, Listed, MergeAsk, WorktreeError, Worktrees,
};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{
    CleanAction, CleanedEntry, MergeAction, WorktreeCleanParams, WorktreeCleanResult,
    WorktreeDiffParams, WorktreeDiffResult, WorktreeEntry, WorktreeListResult, WorktreeMergeParams,
    WorktreeMergeResult, WorktreeParams, WorktreeRemoveParams, WorktreeRemoveResult,
};
use greenroom_protocol::{Fault, FaultKind};

use crate::chains;
use crate::hooks;
use crate::rpc::router::Call;

pub async fn list(call: Call, _: Empty) -> Result<WorktreeListResult, Fault> {
    let worktrees = call.host.built_in.worktrees.clone();
    let listed = blocking(move || worktrees.list()).await?;
    let mut worktrees: Vec<WorktreeEntry> = listed.into_iter().map(entry).collect();
    for pending in chains::pending(&call.host).iter().filter(|one| one.plugin == "worktree") {
        let of = |entry: &&mut WorktreeEntry| entry.session.as_ref() == Some(&pending.session);
        if let Some(entry) = worktrees.iter_mut().find(of) {
            entry.why.push(format!("its clean-up failed and is tried again: {}", pending.why));
        }
    }
    Ok(WorktreeListResult { worktrees })
}

pub async fn clean(call: Call, params: WorktreeCleanParams) -> Result<WorktreeCleanResult, Fault> {
    let worktrees = call.host.built_in.worktrees.clone();
    let cleaned = blocking(move || worktrees.clean(params.dry_run)).await?;
    for removed in cleaned.iter().filter(|one| one.action == Action::Removed) {
        let path = removed.path.display().to_string();
        hooks::worktree_removed(&call.host.hooks.plugins, None, &path);
    }
    Ok(WorktreeCleanResult { worktrees: cleaned.into_iter().map(cleaned_entry).collect() })
}

/// A diff over this is cut: it must fit a frame, escaped as JSON.
const DIFF_MAX: usize = 6 << 20;

pub async fn info(call: Call, params: WorktreeParams) -> Result<WorktreeEntry, Fault> {
    named(&call, params.worktree, params.cwd, |worktrees, found| {
        let listed = worktrees.list()?.into_iter().find(|one| one.path == found.path());
        listed
            .map(entry)
            .ok_or_else(|| WorktreeError::Unknown { name: found.slug().to_owned(), nearest: None })
    })
    .await
}

pub async fn diff(call: Call, params: WorktreeDiffParams) -> Result<WorktreeDiffResult, Fault> {
    let ask = DiffAsk { base: params.base, stat: params.stat };
    named(&call, params.worktree, params.cwd, move |worktrees, found| {
        let diff = worktrees.diff(found, &ask)?;
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

pub async fn merge(call: Call, params: WorktreeMergeParams) -> Result<WorktreeMergeResult, Fault> {
    let ask = MergeAsk { into: params.into, squash: params.squash, message: params.message };
    named(&call, params.worktree, params.cwd, move |worktrees, found| {
        let merged = worktrees.merge(found, &ask)?;
        Ok(WorktreeMergeResult {
            slug: found.slug().to_owned(),
            branch: found.branch().to_owned(),
            into: merged.into,
            checkout: merged.checkout.map(|top| top.display().to_string()),
            action: match merged.how {
                How::Nothing => MergeAction::Nothing,
                How::FastForward => MergeAction::FastForward,
                How::Merged => MergeAction::Merged,
                How::Squashed => MergeAction::Squashed,
            },
            commit: merged.commit.to_string(),
            commits: merged.commits as u64,
            notes: merged.notes,
        })
    })
    .await
}

pub async fn remove(
    call: Call,
    params: WorktreeRemoveParams,
) -> Result<WorktreeRemoveResult, Fault> {
    let force = params.force;
    let removed = named(&call, params.worktree, params.cwd, move |worktrees, found| {
        worktrees.remove_one(found, force)
    })
    .await?;
    if removed.cleaned.action == Action::Removed {
        let path = removed.cleaned.path.display().to_string();
        hooks::worktree_removed(&call.host.hooks.plugins, None, &path);
    }
    let worktree = cleaned_entry(removed.cleaned);
    Ok(WorktreeRemoveResult { worktree, kept_as: removed.kept_as })
}

/// Does something with the worktree a word means.
async fn named<T: Send + 'static>(
    call: &Call,
    name: String,
    cwd: Option<String>,
    work: impl FnOnce(&Worktrees, &Found) -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, Fault> {
    // By its exact name or id: a prefix is not enough for verbs that remove things.
    let session = call.host.engine.find(&name).ok().map(|handle| handle.info().record);
    let session = session.filter(|one| one.name == name || one.id.to_string() == name);
    let ask =
        Ask { session_dir: session.map(|record| record.cwd), cwd: cwd.map(PathBuf::from), name };
    let worktrees = call.host.built_in.worktrees.clone();
    blocking(move || work(&worktrees, &worktrees.find(&ask)?)).await
}

/// Git is asked about every worktree: not on a thread that serves others.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(fault(&error)),
        Err(error) => Err(Fault::new(FaultKind::Internal, error.to_string())),
    }
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

fn entry(listed: Listed) -> WorktreeEntry {
    WorktreeEntry {
        slug: listed.slug,
        path: listed.path.display().to_string(),
        branch: listed.branch,
        repo: listed.repo.display().to_string(),
        session: listed.session,
        live: listed.live,
        why: listed.why,
        size_bytes: listed.size_bytes,
    }
}

fn cleaned_entry(cleaned: Cleaned) -> CleanedEntry {
    CleanedEntry {
        slug: cleaned.slug,
        path: cleaned.path.display().to_string(),
        branch: cleaned.branch,
        repo: cleaned.repo.display().to_string(),
        action: match cleaned.action {
            Action::Removed => CleanAction::Removed,
            Action::WouldRemove => CleanAction::WouldRemove,
            Action::Kept => CleanAction::Kept,
            Action::InUse => CleanAction::InUse,
            Action::Failed => CleanAction::Failed,
        },
        why: cleaned.why,
        size_bytes: cleaned.size_bytes,
    }
}
