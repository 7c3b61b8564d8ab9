//! A program to be started, from whoever asks for it to the process that becomes it, on every way
//! there is.
//!
//! In: a [`Launch`], which lies on the wire beside a ring's size or inside a sealed plan. Out: an
//! [`Image`], the program as the kernel wants it, made ready before the process that becomes it
//! exists: that one may not allocate.
#![expect(unsafe_code, reason = "execve takes arrays of pointers")]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::layout;

/// One program to start: what it is, where, with which variables, on a terminal of which size.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// `argv[0]` is the program and its name; without a slash it is looked up in the `PATH` of
    /// `env`, where it is started.
    pub argv: Vec<OsString>,
    /// Complete, before what a plan sets and unsets. May hold secrets: never shown.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub cols: u16,
    pub rows: u16,
}

layout!(struct Launch { argv, env, cwd, cols, rows });

impl Launch {
    /// With nothing but what every program has.
    pub fn new(
        argv: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        cwd: impl Into<PathBuf>,
        cols: u16,
        rows: u16,
    ) -> Launch {
        Launch { argv, env, cwd: cwd.into(), cols, rows }
    }

    /// What no program could be given, if it is that.
    pub fn check(&self) -> Result<(), &'static str> {
        let clean = |text: &OsStr| !text.as_bytes().contains(&0);
        let given = |text: &OsStr| !text.is_empty() && clean(text);
        if !self.argv.first().is_some_and(|it| given(it)) || !self.argv.iter().all(|it| clean(it)) {
            return Err("the argument list");
        }
        let named = |name: &OsStr| given(name) && !name.as_bytes().contains(&b'=');
        if !self.env.iter().all(|(name, value)| named(name) && clean(value)) {
            return Err("the environment");
        }
        if given(self.cwd.as_os_str()) { Ok(()) } else { Err("the working directory") }
    }

    /// As the kernel wants it; `None` if something holds a NUL byte.
    pub fn image(self) -> Option<Image> {
        let argv: Vec<Vec<u8>> = self.argv.into_iter().map(OsStringExt::into_vec).collect();
        let env = self.env.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec()));
        let program = argv.first()?.clone();
        Image::named(&program, argv, env.collect(), Some(self.cwd.into_os_string().into_vec()))
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("args", &self.argv.len())
            .field("variables", &self.env.len())
            .finish_non_exhaustive()
    }
}

/// Program, arguments, environment and directory.
pub struct Image {
    /// Tried in order, as execvp does with PATH.
    candidates: Vec<CString>,
    argv: CStrings,
    env: CStrings,
    cwd: Option<CString>,
}

/// Strings, and pointers to them that end with a null pointer.
struct CStrings {
    strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl CStrings {
    fn new(items: impl Iterator<Item = Vec<u8>>) -> Option<CStrings> {
        let strings = c_strings(items)?;
        let pointers = strings.iter().map(|it| it.as_ptr()).chain([std::ptr::null()]).collect();
        Some(CStrings { strings, pointers })
    }
}

fn c_strings(items: impl Iterator<Item = Vec<u8>>) -> Option<Vec<CString>> {
    items.map(|item| CString::new(item).ok()).collect()
}

impl Image {
    /// A program that may be called something else than the file it is in; `None` if something
    /// holds a NUL byte. Without `cwd` the child stays where its parent is.
    pub fn named(
        program: &[u8],
        argv: Vec<Vec<u8>>,
        env: Vec<(Vec<u8>, Vec<u8>)>,
        cwd: Option<Vec<u8>>,
    ) -> Option<Image> {
        let path = env.iter().find(|(name, _)| name == b"PATH");
        let candidates = candidates(program, path.map(|(_, value)| value.as_slice()));
        let variable = |(name, value): (Vec<u8>, Vec<u8>)| [&name[..], b"=", &value].concat();
        Some(Image {
            candidates: c_strings(candidates.into_iter())?,
            argv: CStrings::new(argv.into_iter())?,
            env: CStrings::new(env.into_iter().map(variable))?,
            cwd: cwd.map(CString::new).transpose().ok()?,
        })
    }

    /// `argv[0]`.
    pub fn name(&self) -> &CStr {
        self.argv.strings.first().map_or(c"", CString::as_c_str)
    }

    pub fn cwd(&self) -> Option<&CStr> {
        self.cwd.as_deref()
    }

    /// Becomes the first candidate that can be run: a place without the program is passed over, a
    /// place where it must not be run is remembered. Returns the errno if none could. System calls
    /// only.
    pub fn exec(&self) -> i32 {
        let mut worst = libc::ENOENT;
        for candidate in &self.candidates {
            let (argv, env) = (self.argv.pointers.as_ptr(), self.env.pointers.as_ptr());
            // SAFETY: both arrays end with a null pointer and point to strings that live as long as
            // this image.
            unsafe { libc::execve(candidate.as_ptr(), argv, env) };
            match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
                libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ESTALE => {}
                libc::EACCES => worst = libc::EACCES,
                other => return other,
            }
        }
        worst
    }
}

/// Where a program is looked for, as execvp does. An empty element is the working directory; no
/// PATH at all is the system's default one.
fn candidates(program: &[u8], path: Option<&[u8]>) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    path.unwrap_or(b"/bin:/usr/bin")
        .split(|byte| *byte == b':')
        .map(|dir| match dir {
            b"" => [b"./", program].concat(),
            dir => [dir, b"/", program].concat(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[track_caller]
    fn check(program: &str, path: Option<&str>, expected: &[&str]) {
        let found = candidates(program.as_bytes(), path.map(str::as_bytes));
        let expected: Vec<_> = expected.iter().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn programs_are_looked_up_as_execvp_does() {
        check("/bin/sh", Some("/x"), &["/bin/sh"]);
        check("./run", Some("/x"), &["./run"]);
        check("sh", Some("/a:/b"), &["/a/sh", "/b/sh"]);
        check("sh", Some(":/b:"), &["./sh", "/b/sh", "./sh"]);
        check("sh", None, &["/bin/sh", "/usr/bin/sh"]);
    }
}
