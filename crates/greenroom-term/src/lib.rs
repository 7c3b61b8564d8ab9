//! Bytes to screen, keys to bytes, terminal query replies.
//!
//! In: what a program writes to its terminal; keys, pastes and mouse events for it. Out: a typed
//! picture, marks, replies, and the bytes a key becomes.
//! Deliberately absent: PTYs, files, time, other crates of the workspace. This is a leaf.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod frame;
mod front;
mod guest;
mod input_modes;
mod keyframe;
mod keys;
mod lexer;
mod mark;
mod mouse;
pub mod paint;
mod palette;
mod paste;
mod screen;
mod sgr;
mod size;
mod state;

pub use frame::{Color, Cursor, CursorShape, Frame, Row, Run, Style, Underline};
pub use input_modes::{InputModes, MouseEncoding, MouseMode, kitty};
pub use keyframe::AnnotatedKeyframe;
pub use keys::{Key, KeyError, KeyPress, Keypad, Mods, encode_key};
pub use lexer::tokens::{STRING_MAX, Tokenizer, Tokens};
pub use mark::Mark;
pub use mouse::{
    MouseButton, MouseEvent, MouseKind, encode_alternate_scroll, encode_focus, encode_mouse,
};
pub use paste::encode_paste;
pub use screen::Screen;
pub use size::{MAX_SIDE, Size};
