//! The session plugin `env`: the caller's variables, and values that come from a file.
//!
//! `K=V` is taken as it is, `K=secret:NAME` is read from `<config>/secrets/NAME` (a file only its
//! owner may read), `K=file:PATH` from a file, `K=literal:TEXT` is TEXT whatever it begins with.
//! Every one of them is a [`Secret`]: it reaches the session's environment and nothing else. What
//! another plugin has set before is not replaced.
//!
//! Deliberately absent: the inherited environment, which the daemon puts below all of this.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::spec::{
    Description, Preparing, Refusal, Secret, SessionPlugin, SessionSpec, Surroundings,
};
use crate::threads::blocking;

/// The kernel takes no longer `NAME=VALUE`.
const VALUE_MAX: u64 = 128 * 1024 - 1;

/// More variables than this are a mistake, and `execve` would refuse them anyway.
const COUNT_MAX: usize = 4096;

/// A name in `secrets/`.
const SECRET_NAME_MAX: usize = 128;

pub const ABOUT: Description = Description {
    name: "env",
    summary: Some("variables and secrets of a session"),
    asks: &["env"],
    order: 300,
    durable: false,
};

pub struct Env {
    secrets: PathBuf,
}

impl Env {
    pub fn new(surroundings: &Surroundings) -> Env {
        Env { secrets: surroundings.config.join("secrets") }
    }

    async fn apply(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        let asked = spec.ask.env.0.clone();
        if asked.len() > COUNT_MAX {
            return Err(Refusal::new(format!("cannot set more than {COUNT_MAX} variables")));
        }
        let (secrets, base) = (self.secrets.clone(), spec.project_dir.clone());
        let resolved = blocking(move || {
            let resolve = |(name, text): (String, String)| {
                let value = value(&name, &text, &secrets, &base)?;
                Ok((OsString::from(name), value))
            };
            asked.into_iter().map(resolve).collect::<Result<Vec<_>, Refusal>>()
        });
        for (name, value) in resolved.await? {
            if spec.claimed.contains(&name) {
                let name = name.display();
                spec.note(format!(
                    "{name} is set by another plugin; the caller's value is left out"
                ));
                continue;
            }
            spec.set_secret(name, value);
        }
        Ok(())
    }
}

fn value(name: &str, text: &str, secrets: &Path, base: &Path) -> Result<Secret, Refusal> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Refusal::new(format!("cannot set the variable {name:?}: that is no name")));
    }
    let bytes = text.as_bytes();
    let value = if let Some(secret) = bytes.strip_prefix(b"secret:") {
        from_secret(name, &String::from_utf8_lossy(secret), secrets)?
    } else if let Some(path) = bytes.strip_prefix(b"file:") {
        let path = base.join(OsString::from_vec(path.to_vec()));
        from_file(name, &path, false)?
    } else {
        let literal = bytes.strip_prefix(b"literal:").unwrap_or(bytes);
        OsString::from_vec(literal.to_vec())
    };
    if value.as_bytes().contains(&0) {
        return Err(Refusal::new(format!("cannot set {name}: its value has a NUL byte")));
    }
    if value.len() as u64 + name.len() as u64 >= VALUE_MAX {
        return Err(Refusal::new(format!(
            "cannot set {name}: its value is longer than {VALUE_MAX} bytes"
        )));
    }
    Ok(Secret::new(value))
}

fn from_secret(name: &str, secret: &str, dir: &Path) -> Result<OsString, Refusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let good = (1..=SECRET_NAME_MAX).contains(&secret.len())
        && secret.bytes().all(plain)
        && !secret.starts_with('.');
    if !good {
        // The text may be the secret itself, written in the wrong place: it is not repeated.
        return Err(Refusal::new(format!(
            "cannot set {name}: what follows secret: is no name of a secret"
        ))
        .hint("letters, digits and . _ - make a name; literal: before a value takes it as it is"));
    }
    from_file(name, &dir.join(secret), true)
}

/// The file's content without its last line end.
fn from_file(name: &str, path: &Path, private: bool) -> Result<OsString, Refusal> {
    let refuse = |why: String| {
        let refusal = Refusal::new(format!("cannot set {name} from {}: {why}", path.display()));
        match private {
            true => refusal
                .hint(format!("put the value there: install -m 600 /dev/stdin {}", path.display())),
            false => refusal.hint("to set a text that begins with file: write literal: before it"),
        }
    };
    let io = |error: io::Error| refuse(error.to_string());
    // Opened without waiting for a writer of a pipe, and looked at through what was opened.
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(io)?;
    let meta = file.metadata().map_err(io)?;
    if !meta.is_file() {
        return Err(refuse("it is not a file".to_owned()));
    }
    let ours = rustix::process::geteuid().as_raw();
    if private && (meta.mode() & 0o077 != 0 || meta.uid() != ours) {
        let refusal = refuse("others could read it".to_owned());
        return Err(refusal.hint(format!("chmod 600 {}", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(VALUE_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    Ok(OsString::from_vec(bytes))
}

impl SessionPlugin for Env {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        Box::pin(self.apply(spec))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::{spec, surroundings};

    async fn apply(home: &Path, pairs: &[(&str, &str)]) -> Result<SessionSpec, Refusal> {
        let plugin = Env::new(&surroundings(home));
        let mut spec = spec(1);
        spec.project_dir = home.to_owned();
        spec.set_env("GREENROOM_PORT", "7000");
        let pairs = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        spec.ask.env.0 = pairs.collect();
        plugin.dry_run(&mut spec).await?;
        Ok(spec)
    }

    fn put(path: &Path, text: &str, mode: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn values_from_everywhere() {
        let home = tempfile::tempdir().unwrap();
        put(&home.path().join("config/secrets/key"), "sk-12345\n", 0o600);
        put(&home.path().join("ca.pem"), "two\nlines\r\n", 0o644);
        let spec = apply(
            home.path(),
            &[
                ("A", "plain"),
                ("B", "secret:key"),
                ("C", "file:ca.pem"),
                ("D", "literal:file:./dev.db"),
                ("GREENROOM_PORT", "1"),
            ],
        )
        .await
        .unwrap();
        let of = |name: &str| spec.secrets.get(OsStr::new(name)).map(|value| value.reveal());
        assert_eq!(of("A"), Some(OsStr::new("plain")));
        assert_eq!(of("B"), Some(OsStr::new("sk-12345")));
        assert_eq!(of("C"), Some(OsStr::new("two\nlines")));
        assert_eq!(of("D"), Some(OsStr::new("file:./dev.db")));
        assert_eq!(
            (of("GREENROOM_PORT"), spec.env("GREENROOM_PORT")),
            (None, Some(OsStr::new("7000")))
        );
        assert!(
            spec.notes[0].starts_with("GREENROOM_PORT is set by another plugin"),
            "{:?}",
            spec.notes
        );
        assert!(!format!("{spec:?}").contains("sk-12345"));
        assert_eq!(spec.redactions().len(), 3);
        let engine = spec.into_engine();
        assert_eq!(engine.env.get(OsStr::new("B")).unwrap(), "sk-12345");
        assert!(!format!("{engine:?}").contains("sk-12345"));
    }

    #[tokio::test]
    async fn refusals_say_what_to_do_and_never_the_value() {
        let home = tempfile::tempdir().unwrap();
        put(&home.path().join("config/secrets/open"), "sk-12345\n", 0o644);
        put(&home.path().join("nul"), "a\0b", 0o600);
        put(&home.path().join("long"), &"x".repeat(200_000), 0o600);
        let cases = [
            (("K", "secret:none"), "No such file"),
            (("K", "secret:open"), "others could read it"),
            (("K", "secret:../key"), "is no name of a secret"),
            (("K", "secret:sk-oops with spaces"), "is no name of a secret"),
            (("K", "file:/"), "it is not a file"),
            (("K", "file:nul"), "NUL byte"),
            (("K", "file:long"), "longer than"),
            (("A=B", "x"), "that is no name"),
        ];
        for (pair, expected) in cases {
            let refusal = apply(home.path(), &[pair]).await.unwrap_err();
            assert!(refusal.what.contains(expected), "{pair:?}: {refusal}");
            assert!(!format!("{refusal:?}").contains("sk-oops"), "{refusal:?}");
        }
    }
}
