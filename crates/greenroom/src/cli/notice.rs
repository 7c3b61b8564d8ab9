//! Verbs about what people are told and asked, and about agents' own hooks.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub struct AlertArgs {
    /// What to say
    pub text: String,
    /// How urgent
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub severity: Severity,
    /// The session it is about; inside a session, that one
    #[arg(long, value_name = "SESSION", env = "GREENROOM_SESSION")]
    pub session: Option<String>,
    /// A word by which plugins tell alerts apart
    #[arg(long, value_name = "WORD")]
    pub channel: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Severity {
    Info,
    Warn,
    Error,
}

#[derive(Debug, Args)]
pub struct HookArgs {
    /// Which agent calls; guessed from what it says if not told
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// What it says, if not on stdin: some agents give it as an argument
    // Not `json`: that is the flag of every verb.
    #[arg(id = "said", value_name = "JSON")]
    pub json: Option<String>,
}

#[derive(Debug, Args)]
pub struct HooksArgs {
    #[command(subcommand)]
    pub verb: HooksVerb,
}

#[derive(Debug, Subcommand)]
pub enum HooksVerb {
    /// Show what to add to an agent's settings, so that it tells plugins what it does
    Install {
        /// Which agent
        agent: Agent,
        /// Print it; nothing is written
        #[arg(long, required = true)]
        print: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Agent {
    Claude,
    Codex,
}

#[derive(Debug, Args)]
pub struct ApprovalArgs {
    #[command(subcommand)]
    pub verb: ApprovalVerb,
}

#[derive(Debug, Subcommand)]
pub enum ApprovalVerb {
    /// List what waits for a decision, and what was decided last
    #[command(alias = "ls")]
    List,
    /// Say yes
    Allow(DecisionArgs),
    /// Say no
    Deny(DecisionArgs),
}

#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// Its name, such as a1
    pub approval: String,
    /// Why; told to whoever asked
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}
