//! A host of our own, in a directory that goes with it: for the demo and for `serve --stdio`.

use std::process::Stdio;

use greenroom_config::Paths;
use greenroom_protocol::api::server::ShutdownParams;

use super::keeper::{self, OwnedKeeper, Said};
use super::{HostClient, paths};
use crate::error::Failure;

/// Sessions of a private host end with it; whoever needs longer has been told by EOF already.
const PRIVATE_GRACE_MS: u64 = 1000;

/// It ends with [`PrivateHost::stop`], or at the latest when this value is dropped.
#[derive(Debug)]
pub struct PrivateHost {
    pub host: HostClient,
    keeper: OwnedKeeper,
    /// Dropped after the keeper.
    pub home: tempfile::TempDir,
}

impl PrivateHost {
    /// Starts it; its configuration is the user's. Dropping the future half way leaves nothing
    /// behind.
    pub async fn start() -> Result<PrivateHost, Failure> {
        let refuse = |error: std::io::Error| {
            Failure::io("cannot make a directory for a private host", &error)
        };
        let home = tempfile::Builder::new().prefix("greenroom-").tempdir().map_err(refuse)?;
        let config = paths().ok().map(|paths| paths.config_file()).filter(|file| file.is_file());
        if let Some(config) = config {
            std::fs::copy(config, home.path().join("config.toml")).map_err(refuse)?;
        }
        let mut command = keeper::command(Some(home.path()));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (keeper, said) = keeper::start(command)?;
        let keeper = OwnedKeeper::new(keeper);
        match said.await {
            Said::Up => {}
            Said::Held { why, .. } | Said::Failed(why) => {
                return Err(Failure::unavailable(format!("cannot start a private host: {why}")));
            }
        }
        let host = HostClient::at(&Paths::below(home.path()).socket()).await?;
        Ok(PrivateHost { host, keeper, home })
    }

    /// Ends its sessions and the host, and waits for both.
    pub async fn stop(mut self) -> Result<(), Failure> {
        let params = ShutdownParams { if_idle: false, grace_ms: Some(PRIVATE_GRACE_MS) };
        let stopped = crate::commands::stop(&self.host, &params).await;
        if stopped.is_ok() {
            // It listens no more and has nothing left to do but to exit.
            self.keeper.ended();
        }
        stopped.map(drop)
    }
}
