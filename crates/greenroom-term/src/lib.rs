//! Bytes to screen, keys to bytes, terminal query replies.
