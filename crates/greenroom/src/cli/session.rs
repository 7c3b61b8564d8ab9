//! The flags that say what a session is to be: of `new`, `serve` and `sandbox explain`; and the verbs of the plugins
//! behind some of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCandidates;
use greenroom_protocol::api::ask::{SandboxException, SandboxLevel};
use greenroom_protocol::api::screen::Size;

use super::{parse_pair, parse_size, parse_time};
use crate::commands::candidates::worktree_candidates;

/// How a session is to be started.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct SessionArgs {
    /// A name to call it by [default: from the worktree or the program]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Columns and rows [default: this terminal's, else 80x24]
    #[arg(long, value_name = "COLSxROWS", value_parser = parse_size)]
    pub size: Option<Size>,
    /// Where to start it [default: here]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Set a variable; K=secret:NAME and K=file:PATH read its value
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub env: Vec<(String, String)>,
    /// Read variables from a file of K=V lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Attach a label, to find it by
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub label: Vec<(String, String)>,
    /// What it is for; told to plugins before the start
    #[arg(long, value_name = "TEXT")]
    pub task: Option<String>,
    /// Which agent does it, such as claude; told to plugins before the start
    #[arg(long, value_name = "WORD")]
    pub backend: Option<String>,
    /// How hard it shall think; told to plugins before the start
    #[arg(long, value_name = "WORD")]
    pub effort: Option<String>,
    /// Work in a git worktree and branch of its own
    #[arg(long, value_name = "SLUG", help_heading = PLUGINS)]
    pub worktree: Option<String>,
    /// Where a new branch begins [default: HEAD]
    #[arg(long, value_name = "REF", requires = "worktree", help_heading = PLUGINS)]
    pub base: Option<String>,
    /// Confine it: full (the default) or reduced
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full",
        help_heading = PLUGINS
    )]
    pub sandbox: Option<Level>,
    /// A host a confined session may reach, such as api.example.com or *.example.com
    #[arg(long, value_name = "HOST", help_heading = PLUGINS)]
    pub allow_host: Vec<String>,
    /// A directory a confined session may write besides its own
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = PLUGINS)]
    pub allow_write: Vec<PathBuf>,
    /// Also plain HTTP to those hosts
    #[arg(long, help_heading = PLUGINS)]
    pub allow_http: bool,
    /// An exception: unix sockets, debugging, the whole network
    #[arg(long, value_name = "WHAT", help_heading = PLUGINS)]
    pub sandbox_allow: Vec<Exception>,
    /// A directory shared by all who say the same name, or its own
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        help_heading = PLUGINS
    )]
    pub scratchpad: Option<String>,
    /// End it after this long: seconds, or 90m
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = PLUGINS)]
    pub timeout: Option<Duration>,
    /// End it after this long without output
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = PLUGINS)]
    pub idle_timeout: Option<Duration>,
    /// Another session plugin by name (repeatable)
    #[arg(long, value_name = "PLUGIN", help_heading = PLUGINS)]
    pub with: Vec<String>,
    /// Start nothing; show the session and who changed what
    #[arg(long, help_heading = PLUGINS)]
    pub dry_run: bool,
    /// The program and its arguments [default: $SHELL]
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

const PLUGINS: &str = "Session plugins";

/// How much of the sandbox must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Every layer
    Full,
    /// Without namespaces: file contents and network only
    Reduced,
}

impl From<Level> for SandboxLevel {
    fn from(level: Level) -> SandboxLevel {
        match level {
            Level::Full => SandboxLevel::Full,
            Level::Reduced => SandboxLevel::Reduced,
        }
    }
}

/// An exception that voids a promise of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exception {
    /// Unix sockets by path
    Unix,
    /// ptrace within the session
    Debug,
    /// The whole network
    Network,
}

impl From<Exception> for SandboxException {
    fn from(exception: Exception) -> SandboxException {
        match exception {
            Exception::Unix => SandboxException::Unix,
            Exception::Debug => SandboxException::Debug,
            Exception::Network => SandboxException::Network,
        }
    }
}

#[derive(Debug, Args)]
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

/// One worktree.
#[derive(Clone, Debug, Args)]
pub struct WorktreeArg {
    /// Its slug, branch or path, or the session that works or worked in it
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(worktree_candidates))]
    pub worktree: String,
}

/// Some worktrees.
#[derive(Clone, Debug, Args)]
pub struct WorktreesArg {
    /// Slugs, branches or paths, or the sessions that work or worked in them
    #[arg(value_name = "NAME", required = true, add = ArgValueCandidates::new(worktree_candidates))]
    pub worktrees: Vec<String>,
}

#[derive(Debug, Args)]
pub struct SandboxArgs {
    #[command(subcommand)]
    pub verb: SandboxVerb,
}

#[derive(Debug, Subcommand)]
pub enum SandboxVerb {
    /// Try each layer on this machine, and say how to get what is missing
    Doctor,
    /// Say what would be enforced on a session with these flags
    Explain(Box<SessionArgs>),
}

#[derive(Debug, Args)]
pub struct RedactArgs {
    #[command(subcommand)]
    pub verb: RedactVerb,
}

#[derive(Debug, Subcommand)]
pub enum RedactVerb {
    /// Show what the rules find in a file
    Test {
        /// The file; - for stdin
        file: std::path::PathBuf,
        /// Print the masked text instead of the findings
        #[arg(long)]
        show: bool,
    },
    /// List the rules that are on
    Rules,
}
