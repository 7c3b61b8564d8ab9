//! Processes: spawn, hold, reap.
