//! A session as others see it: a cheap handle with verbs.
//!
//! Behind it stands one [`actor`] per session. What many readers want often
//! (state, modes, sequence) is published by the actor and read without asking
//! it; everything else is a message with a reply.

pub(crate) mod actor;
pub(crate) mod boot;
mod delivery;
mod facts;
mod filter_worker;
mod handle;
mod heap;
pub(crate) mod input;
mod kill;
mod marks;
mod pages;
pub(crate) mod rebuild;
mod recording;
pub(crate) mod screen;
mod shared;
mod size;
mod sizing;
pub(crate) mod terminal;
mod timers;

pub use delivery::{Push, SubscriberKind, Subscription};
pub use handle::{SCROLLBACK_LINES, SessionHandle};
pub use input::InputError;
pub use kill::Ladder;
pub use pages::Page;
pub use recording::{Recording, RecordingSink};
pub(crate) use shared::Shared;
pub use shared::{Change, SessionInfo, SessionState};
