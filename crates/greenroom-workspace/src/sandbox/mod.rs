//! The session plugin `sandbox`: the policy a set of wishes gives, and the fence it makes.
//!
//! In: the spec as all plugins before have left it (the worktree is the cwd, the scratchpad is
//! writable), and what this machine can enforce. Out: a [`Confinement`] with a compiled plan, or a
//! refusal that names the layer that is missing. The session's private `/tmp` is made here and
//! removed after it. Deliberately absent: how any of it is enforced (`greenroom_sandbox`), and the
//! proxy (the daemon's).

mod agents;
mod hidden;
mod policy;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_engine::spec::Confinement;
use greenroom_protocol::hook_pipe::PIPE_VARIABLE;
pub use greenroom_sandbox::plan::Refused;
pub use greenroom_sandbox::plan::{Explanation, explain};
pub use greenroom_sandbox::plan::{PROXY_PORT, Place, Plan};
pub use greenroom_sandbox::policy::{HostPattern, Network, Policy, Reach, normalise};
use greenroom_sandbox::policy::{Level, Private};
pub use greenroom_sandbox::probe::{LazyProbe, Probe};
pub use greenroom_sandbox::seatbelt;
use serde::{Deserialize, Serialize};

pub use self::agents::logins::Login;
use self::agents::private::Tree;
use self::policy::Made;

use crate::disk::private_dir;
use crate::live::Live;
use crate::spec::{
    CleaningUp, Cleanup, CleanupError, Description, PluginState, Preparing, Refusal, SessionEnd,
    SessionPlugin, SessionSpec, Surroundings,
};
use crate::threads::blocking;

/// `[sandbox]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Hidden besides the usual credentials and our own state. `~` is the user's home.
    pub hide: Vec<String>,
    /// Not hidden although it is in the usual list.
    pub show: Vec<String>,
    pub allow_hosts: Vec<String>,
    pub allow_write: Vec<String>,
    pub without_landlock: bool,
}

pub const ABOUT: Description = Description {
    name: "sandbox",
    summary: Some("what a session may read, write and reach"),
    asks: &["sandbox"],
    order: 900,
    // Its `/tmp` need not survive the machine: what is left there is swept at the next start.
    durable: false,
};

pub struct Sandbox {
    config: Live<SandboxConfig>,
    around: Surroundings,
    probe: LazyProbe,
}

/// What the plugin noted of one session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Notes {
    tmp_dir: PathBuf,
    /// Into which hooks of agents speak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe: Option<PathBuf>,
    /// What it may reach; `None` if it needs no proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    /// The logins of which it has copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logins: Vec<Login>,
}

/// The plugin's notes of a session.
pub fn noted(state: &serde_json::Value) -> Option<Notes> {
    Notes::deserialize(state).ok()
}

/// What this machine can enforce.
pub struct Capability {
    pub probe: Probe,
    pub full: bool,
    pub reduced: bool,
    /// What to do about level full, if it cannot be enforced.
    pub remedies: Vec<String>,
}

/// What became of the wishes: what is enforced, and what the user should know.
pub struct Fenced {
    pub plan: Plan,
    pub notes: Vec<String>,
    /// State of agents, which has to be made before the plan is carried out.
    trees: Vec<Tree>,
}

impl Sandbox {
    pub fn new(config: SandboxConfig, around: &Surroundings, probe: LazyProbe) -> Sandbox {
        Sandbox { config: Live::new(config), around: around.clone(), probe }
    }

    /// Other settings, for sessions from now on.
    pub fn reconfigure(&self, config: SandboxConfig) {
        self.config.set(config);
    }

    /// What can be enforced here. Blocks for the first trial.
    pub fn capability(&self) -> Capability {
        let probe = self.probe.get();
        let level = |level| {
            let mut policy = Policy::new(level, "/srv/session", "/srv/tmp");
            policy.without_landlock = self.config.now().without_landlock;
            greenroom_sandbox::plan::compile(&policy, probe)
        };
        let (full, reduced) = (level(Level::Full), level(Level::Reduced));
        let remedies = match &full {
            Err(Refused::Missing(missing)) => {
                missing.remedies().into_iter().map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let (full, reduced) = (full.is_ok(), reduced.is_ok());
        Capability { probe: probe.clone(), full, reduced, remedies }
    }

    /// Where the session's `/tmp` lies outside.
    fn tmp_dir(&self, spec: &SessionSpec) -> PathBuf {
        self.around.state_dir("tmp").join(spec.id.to_string())
    }

    /// Where hooks of agents speak. The session may write the pipe and nothing beside it.
    fn pipe(&self, spec: &SessionSpec) -> PathBuf {
        self.around.state_dir("told").join(spec.id.to_string())
    }

    /// The plan for a session like this. Makes nothing. Blocks for the first trial.
    pub fn plan(&self, spec: &SessionSpec) -> Result<Fenced, Refusal> {
        let Made { policy, notes, trees } =
            policy::of(spec, &self.config.now(), &self.around, self.tmp_dir(spec))?;
        let mut policy = policy;
        let pipe = policy::as_made(&self.pipe(spec))?;
        policy.private.push(Private { at: pipe.clone(), from: pipe, views: Vec::new() });
        let plan = greenroom_sandbox::plan::compile(&policy, self.probe.get()).map_err(refusal)?;
        Ok(Fenced { plan, notes, trees })
    }

    fn fence(&self, spec: &mut SessionSpec, fenced: Fenced) {
        spec.base.cwd.clone_from(&fenced.plan.policy.cwd);
        // Nobody inside may talk to the host: its address would only mislead.
        spec.unset_env("GREENROOM_SOCKET");
        spec.set_env(PIPE_VARIABLE, self.pipe(spec));
        for (name, at) in fenced.trees.iter().flat_map(Tree::variables) {
            spec.set_env(name, at);
        }
        spec.notes.extend(fenced.notes);
        spec.done.push(format!("sandbox: {}", policy::summary(&fenced.plan.policy)));
        spec.base.confinement = Some(Arc::new(Fence { plan: fenced.plan }));
    }
}

fn refusal(refused: Refused) -> Refusal {
    let refusal = Refusal::new(refused.to_string());
    match &refused {
        Refused::Missing(missing) => {
            let remedies = missing.remedies();
            let first = remedies.first().copied().unwrap_or_default();
            refusal.hint(format!("{first}; more: greenroom sandbox doctor"))
        }
        Refused::TooWide { .. } => refusal.hint("start in a project directory, or with --worktree"),
        Refused::HostsNeedFull => refusal.hint("use --sandbox=full, or leave out --allow-host"),
        Refused::ReducedAsRoot => refusal.hint("use --sandbox=full, or another user"),
        _ => refusal.hint("see what these flags give with greenroom sandbox explain"),
    }
}

/// A compiled plan, ready for the program.
struct Fence {
    plan: Plan,
}

impl Confinement for Fence {
    fn level(&self) -> &str {
        self.plan.policy.level.name()
    }

    fn summary(&self) -> String {
        policy::summary(&self.plan.policy)
    }

    fn plan(&self, spec: &greenroom_engine::SessionSpec) -> io::Result<OwnedFd> {
        self.plan.seal(&crate::spec::launch(spec)).map_err(io::Error::other)
    }
}

impl SessionPlugin for Sandbox {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        state: &'a mut PluginState,
    ) -> Preparing<'a> {
        Box::pin(async move {
            // A trial and a few calls to the file system, each shorter than handing it to another
            // thread.
            let mut fenced = self.plan(spec)?;
            let tmp_dir = self.tmp_dir(spec);
            let logins = fenced.trees.iter().flat_map(Tree::logins).collect();
            let reach = match &fenced.plan.policy.network {
                Network::Hosts(hosts) => {
                    let http = spec.ask.sandbox.yes().is_some_and(|ask| ask.allow_http);
                    Some(Reach { hosts: hosts.clone(), http })
                }
                Network::None | Network::Open => None,
            };
            let pipe = self.pipe(spec);
            let noted = Some(pipe.clone());
            state.record(&Notes { tmp_dir: tmp_dir.clone(), pipe: noted, reach, logins })?;
            private_dir(&tmp_dir).map_err(|error| {
                Refusal::new(format!("cannot make its /tmp in {}: {error}", tmp_dir.display()))
                    .hint("check the space and rights of the state directory")
            })?;
            make_pipe(&pipe).map_err(|error| {
                Refusal::new(format!("cannot make a pipe for hooks in {}: {error}", pipe.display()))
                    .hint("check the space and rights of the state directory")
            })?;
            fenced.trees = prepared(fenced.trees).await?;
            self.fence(spec, fenced);
            Ok(())
        })
    }

    fn after_session<'a>(&'a self, _: &'a SessionEnd, state: &'a PluginState) -> CleaningUp<'a> {
        Box::pin(async move {
            let Some(notes) = state.read::<Notes>()? else { return Ok(Cleanup::Nothing) };
            blocking(move || {
                for login in &notes.logins {
                    if let Err(error) = login.exchange() {
                        tracing::warn!(login = %login.real.display(), %error, "bringing it back");
                    }
                }
                if let Some(pipe) = &notes.pipe {
                    let _ = std::fs::remove_file(pipe);
                }
                tree::remove(&notes.tmp_dir).map_err(|error| {
                    let at = notes.tmp_dir.display();
                    CleanupError::new(format!("cannot remove its /tmp in {at}: {error}"))
                })?;
                Ok(Cleanup::Nothing)
            })
            .await
        })
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        Box::pin(async move {
            let fenced = self.plan(spec)?;
            self.fence(spec, fenced);
            Ok(())
        })
    }
}

fn make_pipe(path: &Path) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    let _ = std::fs::remove_file(path);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, mode)?)
}

/// Makes what agents find as their state. Copying may take a while, so not here.
async fn prepared(trees: Vec<Tree>) -> Result<Vec<Tree>, Refusal> {
    if trees.is_empty() {
        return Ok(trees);
    }
    blocking(move || {
        for tree in &trees {
            tree.prepare().map_err(|error| {
                let (name, at) = (tree.agent.name, tree.dir.display());
                Refusal::new(format!("cannot make a private copy of {name}'s state in {at}: {error}"))
                    .hint("check the space and rights of the state directory, and who owns the agent's own")
            })?;
        }
        Ok(trees)
    })
    .await
}

/// Removes what sessions that are no more left in `tmp/`: their chain's notes did not survive the
/// machine.
pub fn sweep(around: &Surroundings) {
    agents::private::sweep(around);
    let list = |name| std::fs::read_dir(around.state_dir(name)).into_iter().flatten().flatten();
    let is_over = |entry: &std::fs::DirEntry| {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        id.is_some_and(|id| !around.living.is_alive(id))
    };
    for entry in list("told").filter(is_over) {
        let _ = std::fs::remove_file(entry.path());
    }
    for entry in list("tmp").filter(is_over) {
        if let Err(error) = tree::remove(&entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "sweeping an old /tmp");
        }
    }
}

#[cfg(test)]
mod tests;
