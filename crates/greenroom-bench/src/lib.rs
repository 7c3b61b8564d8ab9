//! What the harness and the benchmarks of parts share: the bytes they are fed with.

#![forbid(unsafe_code)]

pub mod payload;
