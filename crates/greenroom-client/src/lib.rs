//! Typed async client.
