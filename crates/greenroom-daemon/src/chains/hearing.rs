//! Hooks of agents in a confined session: what they write into its pipe becomes events of that
//! session.
//!
//! In: pieces from the pipe, into which anything inside may write. Out: `agent.event`, as by
//! `hook.emit`, for the session whose pipe it is and for no other; nothing else can be asked for
//! here, and nothing is answered. A program that says more than an agent would is not read any
//! faster: the pipe is full then, and the writer waits or gives up.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use greenroom_engine::SessionHandle;
use greenroom_protocol::api::notice::EmitParams;
use greenroom_protocol::hook_pipe::{Assembly, PIECE_BYTES};
use greenroom_workspace::sandbox;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::AbortHandle;

use super::Sessions;
use crate::hooks::agent;

/// Messages at once, and how soon another may come: agents tell of every tool, before and after.
const MESSAGES: Allowance = Allowance { most: 200.0, each_second: 5.0 };
/// Pieces of messages likewise: 4 MiB at once, then 400 KiB a second.
const PIECES: Allowance = Allowance { most: 1024.0, each_second: 100.0 };
/// What a pipe holds.
const PIPE_PIECES: usize = 16;

/// What `greenroom hook` says inside.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    agent: Option<String>,
    data: Map<String, Value>,
}

/// Listens until it is aborted, if the session has a pipe.
pub(crate) fn begin(sessions: &Arc<Sessions>, handle: &SessionHandle) -> Option<AbortHandle> {
    let id = handle.id();
    let path = sandbox::noted(sessions.chains.look(id)?.step(sandbox::ABOUT.name)?.state())?.pipe?;
    // For writing too: else it would be at its end whenever nobody speaks. The session cannot
    // replace it.
    match pipe::OpenOptions::new().read_write(true).open_receiver(&path) {
        Ok(pipe) => {
            let listening = listen(Arc::downgrade(sessions), handle.clone(), pipe);
            Some(tokio::spawn(listening).abort_handle())
        }
        Err(error) => {
            tracing::warn!(session = %id, %error, "hooks inside cannot be heard");
            None
        }
    }
}

async fn listen(sessions: Weak<Sessions>, handle: SessionHandle, mut pipe: pipe::Receiver) {
    let (mut assembly, mut piece) = (Assembly::default(), vec![0; PIECE_BYTES]);
    let (mut messages, mut pieces) = (Bucket::full(&MESSAGES), Bucket::full(&PIECES));
    loop {
        pieces.take().await;
        if let Err(error) = pipe.read_exact(&mut piece).await {
            tracing::warn!(session = %handle.id(), %error, "hooks inside are heard no longer");
            return;
        }
        match assembly.take(&piece) {
            Ok(None) => {}
            Ok(Some(message)) => {
                messages.take().await;
                let Some(sessions) = sessions.upgrade() else { return };
                tell(&sessions, &handle, &message);
            }
            // Once it is empty, what comes next begins a piece. A writer that goes on filling it
            // brings us here again, no faster.
            Err(_) => {
                for _ in 0..PIPE_PIECES {
                    if !pipe.try_read(&mut piece).is_ok_and(|bytes| bytes > 0) {
                        break;
                    }
                }
            }
        }
    }
}

fn tell(sessions: &Arc<Sessions>, handle: &SessionHandle, message: &[u8]) {
    let Ok(Said { agent, data }) = serde_json::from_slice(message) else { return };
    let params = EmitParams { session: handle.id().to_string(), agent, event: None, data };
    if let Err(fault) = agent::tell(&sessions.hooks, handle, params) {
        tracing::debug!(session = %handle.id(), why = fault.message, "a hook said what is no event");
    }
}

struct Allowance {
    most: f64,
    each_second: f64,
}

/// What is left of an allowance.
struct Bucket {
    of: &'static Allowance,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(of: &'static Allowance) -> Bucket {
        Bucket { of, left: of.most, at: Instant::now() }
    }

    /// Takes one, when there is one.
    async fn take(&mut self) {
        let now = Instant::now();
        let since = now.duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * self.of.each_second).min(self.of.most);
        self.at = now;
        if self.left < 1.0 {
            tokio::time::sleep(Duration::from_secs_f64((1.0 - self.left) / self.of.each_second))
                .await;
            self.left = 1.0;
            self.at = Instant::now();
        }
        self.left -= 1.0;
    }
}
