//! A scripted program that paints like a terminal coding agent.
