//! The agent on a real PTY.
mod terminal;
