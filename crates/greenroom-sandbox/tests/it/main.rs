//! Real namespaces, real kernels, real escapes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is test code")]

mod cage;
mod life;
