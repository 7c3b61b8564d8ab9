//! Recordings as asciicast files: version 3 out, versions 2 and 3 in, line by line.
