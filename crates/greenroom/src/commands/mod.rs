//! The verbs: one file each, named as the user types them.
//!
//! In: the parsed arguments of a verb and a [`Context`]. Out: the answer on stdout and an exit code,
//! or a [`Failure`]. [`run`] is the one table from verb to file.
//! Absent on purpose: parsing (`cli`), reporting a failure (`main`).

mod alert;
mod approval;
mod attach;
pub mod candidates;
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
mod serve;
mod several;
mod shutdown;
mod stats;
mod upgrade;
mod wait;
mod web;
mod worktree;

pub use serve::wants_session;
pub use shutdown::stop;

use greenroom_daemon::Paths;
use greenroom_daemon::config::Config;

use crate::cli::{Global, Verb};
use crate::error::{Failure, Outcome};
use crate::host::Host;
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
    pub async fn host(&self) -> Result<Host, Failure> {
        let host = Host::reach(!self.no_start).await?;
        self.mind_the_configuration();
        Ok(host)
    }

    /// A host goes on with what it read before; whoever wrote the mistake should hear of it.
    fn mind_the_configuration(&self) {
        let Ok(paths) = Paths::from_env() else { return };
        if let Err(mistake) = Config::load(&paths.config_file()) {
            self.out.note(&format!(
                "warning: {mistake}\nwarning: the host keeps the settings it had and starts no session once it was replaced"
            ));
        }
    }

    /// The host if it is there; never started.
    pub async fn running_host(&self) -> Result<Host, Failure> {
        Host::reach(false).await
    }
}

/// Runs a verb.
pub async fn run(verb: Verb, context: &Context) -> Outcome {
    match verb {
        Verb::New(args) => new::run(args, context).await,
        Verb::Ls(args) => ls::run(args, context).await,
        Verb::Info(args) => info::run(args, context).await,
        Verb::Rename(args) => rename::run(args, context).await,
        Verb::Rm(args) => rm::run(args, context).await,
        Verb::Attach(args) => attach::run(args, context).await,
        Verb::Send(args) => send::run(args, context).await,
        Verb::Key(args) => key::run(args, context).await,
        Verb::Read(args) => read::run(args, context).await,
        Verb::Wait(args) => wait::run(args, context).await,
        Verb::Events(args) => events::run(args, context).await,
        Verb::Kill(args) => kill::run(args, context).await,
        Verb::Record(args) => record::run(args, context).await,
        Verb::Replay(args) => replay::run(args, context).await,
        Verb::Run(args) => run::run(args, context).await,
        Verb::Serve(args) => serve::run(args, context).await,
        Verb::Plugin(args) => plugin::run(args, context).await,
        Verb::Worktree(args) => worktree::run(args, context).await,
        Verb::Redact(args) => redact::run(args, context).await,
        Verb::Sandbox(args) => sandbox::run(args, context).await,
        Verb::Web(args) => web::run(args, context).await,
        Verb::Mcp(_) => mcp::run(context).await,
        Verb::Upgrade(args) => upgrade::run(args, context).await,
        Verb::Doctor(args) => doctor::run(args, context).await,
        Verb::Stats(args) => stats::run(args, context).await,
        Verb::Alert(args) => alert::run(args, context).await,
        Verb::Approval(args) => approval::run(args, context).await,
        Verb::Hook(args) => hook::run(args, context).await,
        Verb::Hooks(args) => hooks::run(&args, context),
        Verb::Logs(args) => logs::run(args, context).await,
        Verb::Completions(args) => completions::run(&args, context),
        Verb::Man(args) => man::run(&args, context),
        Verb::Schema(args) => schema::run(&args, context),
        Verb::Demo(args) => demo::run(args, context).await,
        Verb::Reload(args) => reload::run(args, context).await,
        Verb::Shutdown(args) => shutdown::run(args, context).await,
        Verb::Help(args) => help::run(&args, context),
    }
}
