//! Where everything of a host lies, and how it is set up: what the command line and the daemon must
//! agree on.
//!
//! In: the environment and the configuration file. Out: [`Paths`] and [`Config`]. Deliberately
//! absent: acting on either.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod address;
mod config;
mod paths;

pub use address::{AddressError, loopback};
pub use config::{Config, ConfigError, KEYS, Key, Log, Prefix, Settled};
pub use paths::{Paths, PathsError};
