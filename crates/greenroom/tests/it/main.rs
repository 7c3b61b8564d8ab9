//! The real binary, each test with a host of its own in a temporary home.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may: a panic is its failure")]

mod agents;
mod answers;
mod attach;
mod completions;
mod damage;
mod demo;
mod documents;
mod endings;
mod escapes;
mod first_day;
mod home;
mod hosts;
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
mod silence;
mod storms;
mod support;
mod surfaces;
mod verbs;
