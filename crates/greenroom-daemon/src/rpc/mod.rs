//! JSON-RPC on one connection, from bytes to a handler and back.
//!
//! `conn` reads frames, `flight` keeps what is not answered yet, `router` finds the row and the
//! handler, `hangup` tells clients that are gone from those that only send no more, `ask` is one
//! call for those who bring a connection of another kind.

pub(crate) mod ask;
pub(crate) mod conn;
mod flight;
pub mod hangup;
pub(crate) mod router;
