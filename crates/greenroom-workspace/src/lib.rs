//! What prepares a session and cleans up after it.
//!
//! | room | what it is |
//! |---|---|
//! | `spec` | what a session plugin sees and says |
//! | `chain` | the transaction around session plugins, and the file that outlives the host |
//! | `worktree` | session plugin: a branch and a working tree of the session's own |
//! | `scratchpad` | session plugin: a directory that workers of a run share |
//! | `env` | session plugin: the caller's variables, with values from files |
//! | `sandbox` | session plugin: the policy a session is held by, and the state of agents inside |
//! | `timeout` | session plugin: how long a session may live |
//! | `git` | git on a repository that somebody else could write |
//! | `live` | a setting that may change while the host runs |
//! | `disk`, `threads` | what is done to files, locks and blocking work in one way |
//!
//! In comes a [`spec::SessionSpec`] with what the caller asked for; each plugin of the chain
//! changes it; out goes a spec the engine can start, and after the session's end a list of what was
//! removed and what was kept.
//!
//! Deliberately absent: sockets, JSON-RPC and configuration files (the daemon's), processes' lives
//! (the keeper's), enforcement of a policy (`greenroom_sandbox`), and plugins that are programs
//! (`greenroom_plugins`).
#![forbid(unsafe_code)]

use std::sync::Arc;

pub mod chain;
mod disk;
pub mod env;
pub mod git;
pub mod live;
pub mod sandbox;
pub mod scratchpad;
pub mod spec;
#[cfg(test)]
pub(crate) mod testing;
mod threads;
pub mod timeout;
pub mod worktree;

use sandbox::{LazyProbe, Sandbox, SandboxConfig};
use spec::{SessionPlugin, Surroundings};
use worktree::{WorktreeConfig, Worktrees};

/// The session plugins of this house, and those of them that others ask too.
pub struct BuiltIn {
    pub plugins: Vec<Arc<dyn SessionPlugin>>,
    pub worktrees: Worktrees,
    pub sandbox: Arc<Sandbox>,
}

impl BuiltIn {
    pub fn new(
        worktree: WorktreeConfig,
        sandbox: SandboxConfig,
        scratchpad: scratchpad::ScratchpadConfig,
        around: &Surroundings,
    ) -> BuiltIn {
        let worktrees = Worktrees::new(worktree, around);
        let sandbox = Arc::new(Sandbox::new(sandbox, around, LazyProbe::default()));
        let plugins: Vec<Arc<dyn SessionPlugin>> = vec![
            Arc::new(worktree::Worktree(worktrees.clone())),
            Arc::new(scratchpad::Scratchpad::new(scratchpad, around)),
            Arc::new(env::Env::new(around)),
            sandbox.clone(),
            Arc::new(timeout::Timeout),
        ];
        BuiltIn { plugins, worktrees, sandbox }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::api::ask::SessionAsk;

    use super::*;

    #[test]
    fn whatever_can_be_asked_for_is_answered_by_one_plugin() {
        let home = tempfile::tempdir().unwrap();
        let around = testing::surroundings(home.path());
        let built_in =
            BuiltIn::new(Default::default(), Default::default(), Default::default(), &around);
        let answered = built_in.plugins.iter().flat_map(|plugin| plugin.about().asks);
        let mut answered: Vec<&str> = answered.copied().collect();
        let mut asks = SessionAsk::NAMES.to_vec();
        asks.sort_unstable();
        answered.sort_unstable();
        assert_eq!(answered, asks);
    }
}
