//! Verbs that begin, end and steer: of sessions, one or many, and of the host itself.

use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use super::{SessionArgs, ended_candidates, live_candidates, parse_pair, parse_time};

#[derive(Debug, Args)]
pub struct NewArgs {
    #[command(flatten)]
    pub session: SessionArgs,
    /// Attach to it at once
    #[arg(long)]
    pub attach: bool,
    /// Attach to the session of this name (or --name) if it runs, else start it
    #[arg(
        short = 'A',
        long = "or-attach",
        value_name = "NAME",
        num_args = 0..=1,
        add = ArgValueCandidates::new(live_candidates)
    )]
    pub or_attach: Option<Option<String>>,
}

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id, name or unambiguous prefix [default: the one that runs]
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(live_candidates))]
    pub session: Option<String>,
    /// Watch only: nothing you type reaches the session
    #[arg(long)]
    pub read_only: bool,
    /// The key that starts a command, such as ctrl-a, or none [default: attach.prefix of
    /// config.toml, else ctrl-b]
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<crate::attach::keys::Prefix>,
    /// Detach everybody else
    #[arg(long)]
    pub exclusive: bool,
}

#[derive(Debug, Args)]
pub struct KillArgs {
    /// Ids, names or unambiguous prefixes
    #[arg(
        value_name = "SESSION",
        required_unless_present_any = ["all", "label"],
        add = ArgValueCandidates::new(live_candidates)
    )]
    pub sessions: Vec<String>,
    /// Every session that runs
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,
    /// Every running session with this label (repeatable: with all of them)
    #[arg(long, value_name = "K=V", value_parser = parse_pair, conflicts_with = "sessions")]
    pub label: Vec<(String, String)>,
    /// The first signal [default: HUP, then TERM]
    #[arg(long, value_name = "NAME")]
    pub signal: Option<String>,
    /// Time before KILL
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct RmArgs {
    /// Ids, names or unambiguous prefixes
    #[arg(
        value_name = "SESSION",
        required_unless_present_any = ["ended", "all", "label"],
        add = ArgValueCandidates::new(ended_candidates)
    )]
    pub sessions: Vec<String>,
    /// All sessions that have ended
    #[arg(long, conflicts_with_all = ["sessions", "all"])]
    pub ended: bool,
    /// All sessions; one that runs is refused, and said so
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,
    /// All sessions with this label (repeatable: with all of them)
    #[arg(long, value_name = "K=V", value_parser = parse_pair, conflicts_with = "sessions")]
    pub label: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct ReloadArgs {}

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// The verb, and what stands behind it
    #[arg(value_name = "VERB")]
    pub verbs: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ShutdownArgs {
    /// Only if no session runs
    #[arg(long)]
    pub if_idle: bool,
    /// Time sessions get between TERM and KILL
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<Duration>,
}
