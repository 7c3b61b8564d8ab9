//! Every type that crosses a process boundary; codecs without I/O.
