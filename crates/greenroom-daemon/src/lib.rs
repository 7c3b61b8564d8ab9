//! The edge: socket, router, config, store, keeper link.
#![forbid(unsafe_code)]

pub mod config;
pub mod paths;

pub use paths::{Paths, PathsError};
