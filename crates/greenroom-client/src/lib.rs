//! Typed async client of the host.
//!
//! ```no_run
//! # async fn example() -> Result<(), greenroom_client::ClientError> {
//! use greenroom_client::{Client, api, method};
//! let client = Client::connect("/run/user/1000/greenroom/greenroom.sock").await?;
//! let params = api::session::CreateParams::default();
//! let made = client.call::<method::SessionCreate>(&params).await?;
//! println!("{}", made.session);
//! # Ok(())
//! # }
//! ```
//!
//! The map: [`Client`] calls methods and comes back by itself when the daemon restarts;
//! [`AttachStream`] is an attached terminal, [`EventStream`] the event log; `connection` is one
//! socket with many calls in flight; [`ClientError`] is everything that can go wrong.
//! Deliberately absent: starting the host, the user's terminal, configuration.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod attach;
mod client;
mod connect;
mod connection;
mod error;
mod events;
mod notifications;
mod silence;
mod wire;

pub use attach::{AttachEvent, AttachStream};
pub use client::{Client, Options};
pub use connect::{PATIENCE, is_listening, open_stream as open};
pub use error::ClientError;
pub use events::{EventFilter, EventStream};
pub use greenroom_protocol::methods::{Method, method};
pub use greenroom_protocol::{Fault, FaultKind, api, attach as attach_wire};
pub use notifications::{Notifications, Push};
