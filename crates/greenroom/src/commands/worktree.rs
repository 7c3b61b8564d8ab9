//! `greenroom worktree`: the worktrees of sessions, bringing their work home, and safe removal.

mod home;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{
    CleanAction, CleanedEntry, WorktreeCleanParams, WorktreeEntry, WorktreeParams,
};

use super::Context;
use super::ls::at_home;
use crate::commands::completions::worktree_candidates;
use crate::error::ExitResult;
use crate::output::{Cell, Tone, bytes};

/// Worktrees of sessions: look at their work, merge it, remove what holds none
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom worktree ls\n  cd \"$(greenroom worktree path feat-x)\"\n  greenroom worktree diff feat-x --stat\n  greenroom worktree merge feat-x feat-y\n  greenroom worktree rm feat-x\n  greenroom worktree clean --dry-run\n\nA worktree is removed only if nothing in it is modified, untracked or stashed, and\n  every commit can be reached from elsewhere. Exit code 1: one could not be looked at."
)]
pub struct WorktreeArgs {
    #[command(subcommand)]
    pub verb: WorktreeVerb,
}

#[derive(Debug, Subcommand)]
pub enum WorktreeVerb {
    /// Every worktree we made, and why it is kept
    #[command(visible_alias = "list")]
    Ls,
    /// Remove those that hold no work
    Clean {
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Print where it is, for cd "$(greenroom worktree path NAME)"
    Path {
        #[command(flatten)]
        worktree: WorktreeArg,
    },
    /// Show what it has that its base has not, committed or not
    #[command(
        after_help = "Examples:\n  greenroom worktree diff feat-x\n  greenroom worktree diff feat-x feat-y --stat\n  greenroom worktree diff feat-x --base main\n\nUncommitted and untracked files are in it; ignored ones are only named."
    )]
    Diff {
        #[command(flatten)]
        worktrees: WorktreesArg,
        /// Names and counts instead of the lines
        #[arg(long)]
        stat: bool,
        /// Against this commit [default: where its branch began]
        #[arg(long, value_name = "REF")]
        base: Option<String>,
    },
    /// Merge its branch into what is checked out in your repository
    #[command(
        after_help = "Examples:\n  greenroom worktree merge feat-x\n  greenroom worktree merge feat-x feat-y feat-z\n  greenroom worktree merge feat-x --squash --message \"feat: x\"\n  greenroom worktree merge feat-x --into develop\n\nEach is merged whole or not at all: conflicts, uncommitted changes in your checkout\n  and files that would be overwritten leave everything as it was, and are named.\n  Exit code 1: one could not be merged; the others were."
    )]
    Merge {
        #[command(flatten)]
        worktrees: WorktreesArg,
        /// Into this branch [default: what is checked out where the worktree was made from]
        #[arg(long, value_name = "BRANCH")]
        into: Option<String>,
        /// One commit with everything, instead of the branch's own
        #[arg(long)]
        squash: bool,
        /// What to say in the commit
        #[arg(short, long, value_name = "TEXT")]
        message: Option<String>,
    },
    /// Remove some of them, if nothing is lost
    #[command(
        visible_alias = "remove",
        after_help = "Examples:\n  greenroom worktree rm feat-x\n  greenroom worktree rm feat-x feat-y\n  greenroom worktree rm feat-x --force\n\n--force removes one that holds work. What would be lost is named, and put under a ref\n  of your repository first: refs/greenroom/kept/… One a session works in stays."
    )]
    Rm {
        #[command(flatten)]
        worktrees: WorktreesArg,
        /// Although it holds work; that is kept under a ref
        #[arg(long)]
        force: bool,
    },
}

/// The argument of a verb about one worktree.
#[derive(Clone, Debug, Args)]
pub struct WorktreeArg {
    /// Its slug, branch or path, or the session that works or worked in it
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(worktree_candidates))]
    pub worktree: String,
}

/// The arguments of a verb about several worktrees.
#[derive(Clone, Debug, Args)]
pub struct WorktreesArg {
    /// Slugs, branches or paths, or the sessions that work or worked in them
    #[arg(value_name = "NAME", required = true, add = ArgValueCandidates::new(worktree_candidates))]
    pub worktrees: Vec<String>,
}

pub async fn run(args: WorktreeArgs, context: &Context) -> ExitResult {
    match args.verb {
        WorktreeVerb::Ls => list(context).await,
        WorktreeVerb::Clean { dry_run } => clean(dry_run, context).await,
        WorktreeVerb::Path { worktree } => {
            let attempt = format!("find the worktree {}", worktree.worktree);
            let params = WorktreeParams { worktree: worktree.worktree, cwd: home::cwd() };
            let path = |entry: &WorktreeEntry| entry.path.clone();
            context.show::<method::WorktreeInfo>(&params, &attempt, path).await
        }
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

async fn list(context: &Context) -> ExitResult {
    let list = context.call::<method::WorktreeList>(&Empty {}, "list worktrees").await?;
    let none = "no worktrees; make one with greenroom new --worktree SLUG";
    context.out.list(&list, &list.worktrees, none, || {
        let head = ["SLUG", "BRANCH", "STATE", "SIZE", "PATH", "WHY"];
        context.out.table(head, list.worktrees.iter().map(row), &["SLUG", "BRANCH", "PATH"])
    })
}

fn row(entry: &WorktreeEntry) -> [Cell; 6] {
    let state = match (&entry.session, entry.live) {
        (Some(session), true) => Cell::toned(Tone::Good, format!("▶ {session}")),
        _ => Cell::toned(Tone::Dim, "○ kept"),
    };
    let why = if entry.why.is_empty() && !entry.live {
        "nothing would be lost (greenroom worktree clean removes it)".to_owned()
    } else {
        entry.why.join("; ")
    };
    [
        entry.slug.as_str().into(),
        entry.branch.as_str().into(),
        state,
        bytes(entry.size_bytes).into(),
        Cell::path(at_home(&entry.path)),
        Cell::whole(why),
    ]
}

async fn clean(dry_run: bool, context: &Context) -> ExitResult {
    let params = WorktreeCleanParams { dry_run };
    let cleaned = context.call::<method::WorktreeClean>(&params, "clean up worktrees").await?;
    let entries = &cleaned.worktrees;
    context.out.list(&cleaned, entries, "no worktrees", || {
        let line = |CleanedEntry { slug, path, branch, action, why, .. }: &CleanedEntry| {
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
            format!("{} {slug} ({}, branch {branch}){why}", action.word(), at_home(path))
        };
        entries.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(u8::from(entries.iter().any(|entry| entry.action == CleanAction::Failed)))
}
