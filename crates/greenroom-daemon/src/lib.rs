//! The edge: socket, router, config, store, keeper link.
