//! The client against a host of a few lines on a real socket.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attach;
mod calls;
mod connect;
mod events;
mod fake_host;
mod pushes;
