//! The host with plugins that are closures: no process, every answer and every silence on purpose.

mod fakes;
mod filters;
mod gates;
mod life;
mod observers;
mod reference;
