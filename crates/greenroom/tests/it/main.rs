//! The real binary, each test with a host of its own in a temporary home.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may: a panic is its failure")]

mod answers;
mod attach;
mod completions;
mod demo;
mod escapes;
mod first_day;
mod json;
mod lifecycle;
mod mistakes;
mod notices;
mod pipelines;
mod plugin_verbs;
mod plugins;
mod programs;
mod record;
mod reload;
mod run;
mod seeds;
mod serve;
mod storms;
mod support;
mod surfaces;
mod verbs;
