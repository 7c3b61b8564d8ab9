//! Session plugins with real repositories, real processes, real files.

mod worktree;
