//! Hook plugins on a real daemon: real programs, started by the real keeper through the stage.

mod filters;
mod gates;
mod notices;
mod observers;
pub mod stage;
mod starts;
