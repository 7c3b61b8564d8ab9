//! Real namespaces, real kernels, real escapes.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is test code"
)]

mod cage;
mod degraded;
#[cfg(target_arch = "x86_64")]
mod escapes;
mod git;
mod life;
mod replaced;
#[cfg(target_arch = "x86_64")]
mod rows;
