//! The secrets in files that were brought into a worktree: `.env` and its like.
//!
//! In: the files of a worktree that are ours. Out: values that nothing which leaves the session may
//! show. A line counts that gives a name a value, if the name says that it is a secret or the value
//! looks like one; a mode or a port in the same file would hide half of every text. Deliberately
//! absent: other formats. The built-in rules know their secrets by where they stand.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::record::{Ours, Record};
use crate::spec::Secret;

/// A file with more is no list of settings.
const FILE_MAX: u64 = 256 * 1024;

/// Files looked at, and values taken: more would cost every reader of the session.
const FILES_MAX: usize = 256;
const VALUES_MAX: usize = 256;

/// Shorter values are too common to be hidden.
const VALUE_MIN: usize = 6;

/// Parts of names that say what their value is.
const TELLING: &[&str] = &[
    "apikey",
    "auth",
    "cookie",
    "cred",
    "creds",
    "dsn",
    "hmac",
    "jwt",
    "key",
    "keys",
    "pass",
    "passphrase",
    "passwd",
    "pat",
    "private",
    "psk",
    "pw",
    "pwd",
    "salt",
    "signature",
    "webhook",
];

/// Parts of names that end like this say so, too.
const TELLING_ENDS: &[&str] =
    &["apikey", "credential", "credentials", "password", "secret", "secrets", "token", "tokens"];

/// Words that are settings, whatever the name says.
const SETTINGS: &[&str] =
    &["default", "disabled", "enabled", "localhost", "optional", "required", "session"];

/// The values in files that were brought and are still there.
pub fn of(record: &Record) -> Vec<Secret> {
    let mut values: Vec<String> = record
        .ours
        .iter()
        .filter(|ours| matches!(ours, Ours::File { .. } | Ours::Link { .. }))
        .take(FILES_MAX)
        .filter_map(|ours| text_of(&record.path.join(ours.path())))
        .flat_map(|text| secrets_in(&text))
        .collect();
    values.sort_unstable();
    values.dedup();
    values.into_iter().take(VALUES_MAX).map(Secret::new).collect()
}

/// What is no text, too long or no file says nothing. Does not wait for whoever a pipe belongs to.
fn text_of(path: &Path) -> Option<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path).ok()?;
    let meta = file.metadata().ok().filter(|meta| meta.is_file() && meta.len() <= FILE_MAX)?;
    let mut text = String::with_capacity(usize::try_from(meta.len()).ok()?);
    file.take(FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

fn secrets_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in text.lines().filter_map(assignment) {
        if value.len() < VALUE_MIN || SETTINGS.contains(&value.to_ascii_lowercase().as_str()) {
            continue;
        }
        if let Some(password) = password_in(value) {
            found.extend((password.len() >= VALUE_MIN).then(|| password.to_owned()));
        } else if is_telling(name) || is_random(value) {
            found.push(value.to_owned());
        }
    }
    found
}

/// `NAME=value`, also with `export` and in quotes.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let value = value.trim_start();
    let quoted = value.chars().next().filter(|c| "\"'`".contains(*c));
    let value = match quoted {
        Some(quote) => value[1..].split(quote).next()?,
        // A comment begins with a blank before it.
        None => value.split(" #").next()?.trim_end(),
    };
    Some((name, value))
}

/// The password of `scheme://user:password@host`; the rest of such a value is printed for good
/// reasons.
fn password_in(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let (user, _) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['_', '.', '-'])
        .any(|part| TELLING.contains(&part) || TELLING_ENDS.iter().any(|end| part.ends_with(end)))
}

/// Long, without blanks, and of letters and digits in no order: hex or base64 of something.
fn is_random(value: &str) -> bool {
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"+/_=-.~".contains(&byte);
    if !value.bytes().all(is_word) || value.starts_with(['/', '.', '~']) {
        return false;
    }
    let (digits, upper) = (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase));
    let lower = count(u8::is_ascii_lowercase);
    let is_hex = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && digits >= 4) || (value.len() >= 24 && digits >= 3 && upper >= 3 && lower >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_and_settings_are_not() {
        let text = "\
# a comment with KEY=not-a-value
export API_KEY='quoted value 1'
DB_PASSWORD=\"hunter2-and-more\" # a comment
GITHUBTOKEN = spaced-out-token
DATABASE_URL=postgres://app:s3cret-db@db.example.com:5432/app?x=1
PLAIN_URL=https://example.com/a@b
NODE_ENV=production
PORT=300000
AUTH_MODE=disabled
KEYBOARD_LAYOUT=dvorak
SHORT_KEY=abc
OPAQUE=Zq8Lm2Xv7Nw4Rt6Yb1Kc9Pd3Fg5
HASH=0123456789abcdef0123456789abcdef
LOG_FILE=/var/log/greenroom/Some1234Path/With567Letters
not an assignment
two words=value-of-it
";
        let expected = [
            "quoted value 1",
            "hunter2-and-more",
            "spaced-out-token",
            "s3cret-db",
            "Zq8Lm2Xv7Nw4Rt6Yb1Kc9Pd3Fg5",
            "0123456789abcdef0123456789abcdef",
        ];
        assert_eq!(secrets_in(text), expected);
    }
}
