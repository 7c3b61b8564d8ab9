//! Sessions, journal, egress, events, extension traits.
