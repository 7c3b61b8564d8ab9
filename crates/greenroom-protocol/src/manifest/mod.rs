//! Manifests: what a plugin says of itself.
//!
//! In: the text of `plugin.toml`, `plugin.yaml` or `plugin.json`, or one of three foreign forms told
//! apart by their shape. Out: one [`Manifest`], or every mistake with line and column. The types are
//! the schema that `greenroom schema manifest` prints, and the same schema is what a file is checked
//! against. [`hook::HOOKS`] and [`capability::CAPABILITIES`] are the two tables everything else reads.
//!
//! Deliberately absent: files, running anything, grants.

pub mod capability;
pub mod faces;
pub mod file;
pub mod hook;

pub use capability::{Allow, Allowed, CAPABILITIES, Capabilities};
pub use file::{Format, HookEntry, Manifest, Runtime, RuntimeKind};
pub use hook::{Class, HOOKS, Hook, HookName, OnFailure, Stage};

/// A larger file is no manifest.
pub const FILE_MAX: usize = 256 * 1024;
/// Brackets within brackets; a real file has about four.
pub const DEPTH_MAX: usize = 32;
/// Programs of one plugin.
pub const RUNTIMES_MAX: usize = 16;
/// Hooks of one plugin: each hook a few times over.
pub const HOOKS_MAX: usize = 64;
/// Settings of one plugin.
pub const SETTINGS_MAX: usize = 100;
/// Words of a command.
pub const COMMAND_MAX: usize = 64;
/// Variables of one environment.
pub const ENV_MAX: usize = 64;
/// Neighbours named in `before` and `after`.
pub const AFTER_MAX: usize = 32;
/// Topics, verbs, screens and the like in one list.
pub const NAMES_MAX: usize = 64;
/// Characters of a regular expression; a longer one is a program.
pub const REGEX_MAX: usize = 4096;
/// A call that takes longer than ten minutes is no call.
pub const TIMEOUT_MS_MAX: u64 = 600_000;
