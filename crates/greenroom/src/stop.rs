//! The signals that ask this process to stop: TERM, INT and HUP. A verb listens to them before it
//! starts anything that must not be left behind.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Failure;

/// The three signals, from the moment it is made.
#[derive(Debug)]
pub struct Stop([Signal; 3]);

impl Stop {
    pub fn listen() -> Result<Stop, Failure> {
        let open =
            |kind| signal(kind).map_err(|error| Failure::io("cannot watch for signals", &error));
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [term, int, hup] = kinds.map(open);
        Ok(Stop([term?, int?, hup?]))
    }

    /// Until one of them has come.
    pub async fn asked(&mut self) {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
        }
    }
}
