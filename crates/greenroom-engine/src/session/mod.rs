//! A session as others see it: a cheap handle with verbs.
//!
//! Behind it stands one [`actor`] per session. What many readers want often
//! (state, modes, sequence) is published by the actor and read without asking
//! it; everything else is a message with a reply.

pub(crate) mod actor;
pub(crate) mod boot;
mod followers;
mod govern;
mod handle;
mod heap;
pub(crate) mod input;
mod kill;
mod marks;
mod pages;
mod painter;
pub(crate) mod rebuild;
mod recording;
mod shared;
mod size;
mod sizing;
mod subscribers;
mod telling;
pub(crate) mod terminal;
mod timers;
pub(crate) mod view;

pub use handle::{SCROLLBACK_LINES, SessionHandle};
pub use input::InputError;
pub use kill::Ladder;
pub use pages::Page;
pub use recording::{Recording, RecordingSink};
pub(crate) use shared::Shared;
pub use shared::{Change, SessionInfo, SessionState};
pub use subscribers::{Following, Push, Subscription};
