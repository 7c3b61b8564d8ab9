//! Files that people and other programs write, and that we read or write: connector files,
//! manifests, recordings.
//!
//! [`tree`] reads JSON, TOML and YAML and remembers where each part stands, so that a mistake is
//! told with its line; [`connector`] is the file of a run, [`manifest`] what a plugin says of
//! itself in any of four forms, [`asciicast`] the format of recordings.
//!
//! Deliberately absent: opening files, running anything.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod asciicast;
pub mod connector;
pub mod manifest;
pub mod tree;
