//! The verbs: one file each, named as the user types them.
//!
//! A file has the verb's arguments with its help and examples, and what it does. In: the parsed
//! arguments and a [`Context`]. Out: the answer on stdout and an exit code, or a [`Failure`]. One
//! list below makes [`Verb`] and [`run`]. Absent on purpose: what verbs share of the command line
//! (`cli`), reporting a failure (`main`).

mod alert;
mod approval;
mod attach;
pub mod completions;
mod demo;
mod doctor;
mod events;
mod help;
mod hook;
mod hooks;
mod info;
mod key;
mod kill;
mod left;
mod logs;
mod ls;
mod man;
mod mcp;
pub mod new;
mod plugin;
mod read;
mod record;
mod redact;
mod reload;
mod rename;
mod replay;
mod rm;
mod run;
mod sandbox;
mod schema;
mod send;
pub mod serve;
mod several;
mod shutdown;
mod stats;
mod upgrade;
pub mod wait;
mod web;
mod worktree;

pub use serve::wants_session;
pub use shutdown::stop;

use clap::Subcommand;
use greenroom_client::Method;
use greenroom_config::{Config, Paths};

use crate::cli::Global;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::output::Output;

/// What every verb needs.
#[derive(Clone, Debug)]
pub struct Context {
    pub out: Output,
    no_start: bool,
}

impl Context {
    pub fn new(global: &Global) -> Context {
        Context { out: Output::detect(global.json), no_start: global.no_start }
    }

    /// The host, started if need be and allowed.
    pub async fn host(&self) -> Result<HostClient, Failure> {
        let host = HostClient::reach(!self.no_start).await?;
        self.warn_of_wrong_settings();
        Ok(host)
    }

    /// Calls a method of the host; `attempt` ("send to s3") names it in a failure.
    pub async fn call<M: Method>(
        &self,
        params: &M::Params,
        attempt: &str,
    ) -> Result<M::Result, Failure> {
        self.host().await?.call::<M>(params, attempt).await
    }

    /// Calls a method and shows what it answers.
    pub async fn show<M: Method>(
        &self,
        params: &M::Params,
        attempt: &str,
        text: impl FnOnce(&M::Result) -> String,
    ) -> ExitResult {
        let answer = self.call::<M>(params, attempt).await?;
        self.out.answer(&answer, || text(&answer))
    }

    /// The host keeps its old settings when the file has a mistake: the user is told at the next
    /// verb.
    pub fn warn_of_wrong_settings(&self) {
        let Ok(paths) = Paths::from_env() else { return };
        if let Err(mistake) = Config::load(&paths.config_file()) {
            self.out.warn(&[
                &mistake.to_string(),
                "the host keeps the settings it had and starts no session once it was replaced",
            ]);
        }
    }

    /// The host if it is there; never started.
    pub async fn running_host(&self) -> Result<HostClient, Failure> {
        let host = HostClient::reach(false).await?;
        self.warn_of_wrong_settings();
        Ok(host)
    }

    /// The host if one runs; `None` is no failure.
    pub async fn host_if_running(&self) -> Result<Option<HostClient>, Failure> {
        let host = HostClient::if_running().await?;
        if host.is_some() {
            self.warn_of_wrong_settings();
        }
        Ok(host)
    }
}

/// What a verb is: its name in `Verb`, its file, its arguments. The help shows them in this order.
macro_rules! verbs {
    ($($verb:ident $file:ident $args:ident,)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Verb {
            $($verb($file::$args),)*
        }

        /// Runs a verb.
        pub async fn run(verb: Verb, context: &Context) -> ExitResult {
            match verb {
                $(Verb::$verb(args) => $file::run(args, context).await,)*
            }
        }
    };
}

verbs! {
    New new NewArgs,
    Ls ls LsArgs,
    Info info InfoArgs,
    Rename rename RenameArgs,
    Rm rm RmArgs,
    Attach attach AttachArgs,
    Send send SendArgs,
    Key key KeyArgs,
    Read read ReadArgs,
    Wait wait WaitArgs,
    Events events EventsArgs,
    Kill kill KillArgs,
    Record record RecordArgs,
    Replay replay ReplayArgs,
    Run run RunArgs,
    Serve serve ServeArgs,
    Plugin plugin PluginArgs,
    Worktree worktree WorktreeArgs,
    Sandbox sandbox SandboxArgs,
    Redact redact RedactArgs,
    Web web WebArgs,
    Mcp mcp McpArgs,
    Upgrade upgrade UpgradeArgs,
    Doctor doctor DoctorArgs,
    Stats stats StatsArgs,
    Alert alert AlertArgs,
    Approval approval ApprovalArgs,
    Hook hook HookArgs,
    Hooks hooks HooksArgs,
    Logs logs LogsArgs,
    Completions completions CompletionsArgs,
    Man man ManArgs,
    Schema schema SchemaArgs,
    Demo demo DemoArgs,
    Reload reload ReloadArgs,
    Shutdown shutdown ShutdownArgs,
    Help help HelpArgs,
}
