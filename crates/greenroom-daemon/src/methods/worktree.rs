//! `worktree.*`: the worktrees sessions left, and safe removal.

use greenroom_plugins::worktree::{Action, Cleaned, Listed, WorktreeError};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{
    CleanAction, CleanedEntry, WorktreeCleanParams, WorktreeCleanResult, WorktreeEntry,
    WorktreeListResult,
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

/// Git is asked about every worktree: not on a thread that serves others.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorktreeError> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Fault::new(FaultKind::Disk, error.to_string())),
        Err(error) => Err(Fault::new(FaultKind::Internal, error.to_string())),
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
