//! What the host pushes, for whoever listens.
//!
//! Bounded: a listener that falls behind loses the oldest and is told how many. Listeners that
//! must not lose anything use an [`EventStream`](crate::EventStream), which can replay.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

use crate::client::Client;

/// Pushes kept for a slow listener.
pub(crate) const KEPT: usize = 1024;

/// What the host pushes to a client.
#[derive(Clone, Debug)]
pub enum Push {
    /// As the host sent it.
    Notification {
        /// Such as `session.changed`.
        method: String,
        /// Undecoded.
        params: Arc<RawValue>,
    },
    /// The connection was lost; the listener connects again by itself.
    Disconnected,
    /// The daemon restarted and we are connected again. What was asked with
    /// `server.set_notifications` was asked again; other subscriptions are the caller's to renew.
    Reconnected,
    /// This many pushes were lost because this listener was slow.
    Lagged(u64),
}

impl Push {
    /// The params of a notification of this method.
    pub fn params<T: DeserializeOwned>(&self, wanted: &str) -> Option<T> {
        match self {
            Push::Notification { method, params } if method == wanted => {
                serde_json::from_str(params.get()).ok()
            }
            _ => None,
        }
    }
}

/// Pushes from the moment it was made.
#[derive(Debug)]
pub struct Notifications {
    receiver: broadcast::Receiver<Push>,
    client: Client,
    /// The connection was lost and nobody may be calling: connect before listening on.
    lost_connection: bool,
    lost: u64,
}

impl Notifications {
    pub(crate) fn new(receiver: broadcast::Receiver<Push>, client: Client) -> Notifications {
        Notifications { receiver, client, lost_connection: false, lost: 0 }
    }

    /// The next push; `None` once the host cannot be reached any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Push> {
        if self.lost_connection {
            self.client.connection().await.ok()?;
            self.lost_connection = false;
        }
        match self.receiver.recv().await {
            Ok(push) => {
                self.lost_connection = matches!(push, Push::Disconnected);
                Some(push)
            }
            Err(broadcast::error::RecvError::Lagged(count)) => {
                self.lost += count;
                // The loss of the connection may be among what was lost.
                self.lost_connection = true;
                Some(Push::Lagged(count))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// How many were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
