//! The real binary, each test with a host of its own in a temporary home.
#![forbid(unsafe_code)]

mod attach;
mod completions;
mod demo;
mod json;
mod lifecycle;
mod mistakes;
mod programs;
mod record;
mod serve;
mod support;
mod verbs;
