//! The keeper as a process, with a daemon played by the test.

mod host;
mod lifecycle;
mod load;
mod replace;
mod spawn;
