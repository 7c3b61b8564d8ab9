//! JSON-RPC on one connection, from bytes to a handler and back.
//!
//! `conn` reads frames, `flight` keeps what is not answered yet, `router` finds the row and the handler,
//! `outlet` writes without ever blocking anybody, `peer` is what a handler knows of its caller,
//! `hangup` tells who is gone from who only sends no more, `ask` is one call for those who bring a connection of another
//! kind, `fault` turns every room's errors into the wire's.

pub mod ask;
pub mod conn;
pub mod fault;
mod flight;
pub mod hangup;
pub mod outlet;
pub mod peer;
pub mod router;
