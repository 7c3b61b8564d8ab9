//! What a plugin and the host say to each other: the manifest, its hooks and its capabilities, as
//! types.
//!
//! [`Manifest`] is what a plugin says of itself; [`hook::HOOKS`] and [`capability::CAPABILITIES`]
//! are the two tables everything else reads. Made to be depended on by whoever writes a plugin:
//! serde and nothing else of weight; JSON Schemas of the types come with the feature `schema`.
//!
//! Deliberately absent: reading files in their several forms (`greenroom-formats`), running
//! anything, grants.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

/// The word of each member of a closed list, as files, listings and the wire have it.
#[macro_export]
macro_rules! words {
    ($list:ident { $($member:ident $word:literal,)* }) => {
        impl $list {
            /// Every member, in order.
            pub const ALL: &[$list] = &[$($list::$member,)*];

            /// As it is written.
            pub fn word(self) -> &'static str {
                match self {
                    $($list::$member => $word,)*
                }
            }
        }

        impl std::fmt::Display for $list {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

pub mod capability;
pub mod entry;
pub mod faces;
pub mod file;
pub mod hook;

pub use capability::{Allow, Allowed, CAPABILITIES, Capabilities};
pub use file::{Format, HookEntry, Manifest, Runtime, RuntimeKind};
pub use hook::{Class, HOOKS, Hook, HookName, OnFailure, Stage};

/// Neighbours named in `before` and `after`.
pub const AFTER_MAX: usize = 32;
/// Characters of a regular expression; a longer one is a program.
pub const REGEX_MAX: usize = 4096;
/// A call that takes longer than ten minutes is no call.
pub const TIMEOUT_MS_MAX: u64 = 600_000;
/// Words of a command.
pub const COMMAND_MAX: usize = 64;
/// Variables of one environment.
pub const ENV_MAX: usize = 64;
/// Topics, verbs, screens and the like in one list.
pub const NAMES_MAX: usize = 64;
/// Hooks of one plugin: each hook a few times over.
pub const HOOKS_MAX: usize = 64;
/// Programs of one plugin.
pub const RUNTIMES_MAX: usize = 16;
/// Settings of one plugin.
pub const SETTINGS_MAX: usize = 100;

/// For `skip_serializing_if`: what is as it would be anyway is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
