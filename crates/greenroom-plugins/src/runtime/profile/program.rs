//! What a program needs to be run at all, where it may run nothing else: itself, and its
//! interpreter.
//!
//! In: a path. Out: the files the kernel, or `env`, will open to run it. Only looks.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel reads no more of a first line.
const FIRST_LINE_BYTES: u64 = 256;

/// The interpreter of a script, and what it in turn becomes if it is `env`.
pub(super) fn needs(program: &Path, path: &Path) -> Vec<PathBuf> {
    let mut line = Vec::new();
    let read = std::fs::File::open(program)
        .and_then(|file| file.take(FIRST_LINE_BYTES).read_to_end(&mut line));
    let Some(words) = read.ok().and_then(|_| interpreter(&line)) else {
        return Vec::new();
    };
    let mut needed: Vec<PathBuf> = words.first().map(PathBuf::from).into_iter().collect();
    if needed.iter().any(|it| it.file_name() == Some("env".as_ref())) {
        let named = words.iter().skip(1).find(|word| !word.starts_with('-') && !word.contains('='));
        needed.extend(named.and_then(|name| find(name, path)));
    }
    needed.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn interpreter(bytes: &[u8]) -> Option<Vec<String>> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let text = std::str::from_utf8(line).ok()?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

fn find(name: &str, path: &Path) -> Option<PathBuf> {
    let dirs = path.as_os_str().as_bytes().split(|byte| *byte == b':');
    let dirs = dirs.map(|dir| Path::new(std::ffi::OsStr::from_bytes(dir)));
    dirs.map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_needs_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        let needed = |text: &str| {
            std::fs::write(&script, text).unwrap();
            needs(&script, Path::new("/usr/bin:/bin"))
        };
        let real = |path: &str| Path::new(path).canonicalize().unwrap();
        assert_eq!(needed("#!/bin/sh\necho"), [real("/bin/sh")]);
        let env = real("/usr/bin/env");
        assert_eq!(needed("#!/usr/bin/env sh\n"), [env.clone(), real("/bin/sh")]);
        assert_eq!(needed("#! /usr/bin/env -S A=1 sh -e\n"), [env.clone(), real("/bin/sh")]);
        assert_eq!(needed("#!/usr/bin/env no-such-program\n"), [env]);
        assert!(needed("\u{7f}ELF").is_empty());
        assert!(needed("").is_empty());
    }
}
