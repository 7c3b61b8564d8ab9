//! `greenroom worktree`: the worktrees of sessions, bringing their work home, and safe removal.

mod home;

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{
    CleanAction, WorktreeCleanParams, WorktreeCleanResult, WorktreeEntry, WorktreeListResult,
};

use super::Context;
use super::ls::at_home;
use crate::cli::{WorktreeArgs, WorktreeVerb};
use crate::error::Outcome;
use crate::output::{Cell, Tone, bytes};

pub async fn run(args: WorktreeArgs, context: &Context) -> Outcome {
    match args.verb {
        WorktreeVerb::Ls => list(context).await,
        WorktreeVerb::Clean { dry_run } => clean(dry_run, context).await,
        WorktreeVerb::Path { worktree } => home::path(worktree.worktree, context).await,
        WorktreeVerb::Diff { worktrees, stat, base } => {
            home::diff(worktrees.worktrees, stat, base, context).await
        }
        WorktreeVerb::Merge { worktrees, into, squash, message } => {
            let how = home::Merge { into, squash, message };
            home::merge(worktrees.worktrees, &how, context).await
        }
        WorktreeVerb::Rm { worktrees, force } => {
            home::remove(worktrees.worktrees, force, context).await
        }
    }
}

async fn list(context: &Context) -> Outcome {
    let host = context.host().await?;
    let list: WorktreeListResult = host.call("worktree.list", &Empty {}, "list worktrees").await?;
    if !context.out.json && list.worktrees.is_empty() {
        context.out.note("no worktrees; make one with greenroom new --worktree SLUG");
        return Ok(0);
    }
    context.out.answer(&list, || {
        let rows: Vec<Vec<Cell>> = list.worktrees.iter().map(row).collect();
        let head = ["SLUG", "BRANCH", "STATE", "SIZE", "PATH", "WHY"];
        context.out.table(&head, &rows, &["SLUG", "BRANCH", "PATH"])
    })?;
    Ok(0)
}

fn row(entry: &WorktreeEntry) -> Vec<Cell> {
    let state = match (&entry.session, entry.live) {
        (Some(session), true) => Cell::toned(Tone::Good, format!("▶ {session}")),
        _ => Cell::toned(Tone::Dim, "○ kept"),
    };
    vec![
        Cell::from(entry.slug.as_str()),
        Cell::from(entry.branch.as_str()),
        state,
        Cell::from(bytes(entry.size_bytes)),
        Cell::path(at_home(&entry.path)),
        Cell::whole(entry.why.join("; ")),
    ]
}

async fn clean(dry_run: bool, context: &Context) -> Outcome {
    let host = context.host().await?;
    let params = WorktreeCleanParams { dry_run };
    let cleaned: WorktreeCleanResult =
        host.call("worktree.clean", &params, "clean up worktrees").await?;
    let failed = cleaned.worktrees.iter().any(|entry| entry.action == CleanAction::Failed);
    if !context.out.json && cleaned.worktrees.is_empty() {
        context.out.note("no worktrees");
        return Ok(0);
    }
    context.out.answer(&cleaned, || {
        let line = |entry: &greenroom_protocol::api::fence::CleanedEntry| {
            let why = match entry.why.is_empty() {
                true => String::new(),
                false => format!(": {}", entry.why.join("; ")),
            };
            let place = at_home(&entry.path);
            format!(
                "{} {} ({}, branch {}){why}",
                entry.action.word(),
                entry.slug,
                place,
                entry.branch
            )
        };
        cleaned.worktrees.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(u8::from(failed))
}
