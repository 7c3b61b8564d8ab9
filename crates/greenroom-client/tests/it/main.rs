//! The client against a host of a few lines on a real socket.

mod attach;
mod calls;
mod connect;
mod events;
mod fake_host;
mod pushes;
