//! `{worker}`, `{phase}`, `{run}` and `{scratchpad}` in texts of a file.
//!
//! A prompt is full of braces that mean something else, so only these four are filled in and
//! everything else stays as it is. `{{worker}}` is how to write `{worker}` itself.

use super::meant;

/// What can be filled in.
pub const NAMES: [&str; 4] = ["worker", "phase", "run", "scratchpad"];

/// What to fill in.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The worker's number, or the speaker's name.
    pub worker: &'a str,
    /// The phase's name.
    pub phase: &'a str,
    /// The run's id.
    pub run: &'a str,
    /// The path of the run's directory.
    pub scratchpad: &'a str,
}

impl Values<'_> {
    fn of(&self, name: &str) -> Option<&str> {
        match name {
            "worker" => Some(self.worker),
            "phase" => Some(self.phase),
            "run" => Some(self.run),
            "scratchpad" => Some(self.scratchpad),
            _ => None,
        }
    }
}

/// Fills in. What is filled in is not looked at again.
pub fn fill(text: &str, values: &Values<'_>) -> String {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Escaped(name) => {
                filled.push('{');
                filled.push_str(name);
                filled.push('}');
            }
            Piece::Name(name) => filled.push_str(values.of(name).unwrap_or_default()),
        }
    }
    filled
}

/// Whether a text asks for this to be filled in.
pub fn names(text: &str, name: &str) -> bool {
    pieces(text).any(|piece| matches!(piece, Piece::Name(found) if found == name))
}

enum Piece<'a> {
    Text(&'a str),
    /// A known name in double braces.
    Escaped(&'a str),
    /// A known name.
    Name(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, len)) = known(rest, "{{", "}}") {
            rest = &rest[len..];
            return Some(Piece::Escaped(name));
        }
        if let Some((name, len)) = known(rest, "{", "}") {
            rest = &rest[len..];
            return Some(Piece::Name(name));
        }
        // Up to the next brace, at least one character.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest[first..].find('{').map_or(rest.len(), |at| first + at);
        let (plain, more) = rest.split_at(end);
        rest = more;
        Some(Piece::Text(plain))
    })
}

fn known(text: &str, open: &str, close: &str) -> Option<(&'static str, usize)> {
    NAMES.into_iter().find_map(|name| {
        let after = text.strip_prefix(open)?.strip_prefix(name)?.strip_prefix(close)?;
        Some((name, text.len() - after.len()))
    })
}

/// Longest slug: with the prefix of its branch it must be a file name.
const SLUG_MAX: usize = 100;

/// Whether a text can be a worktree's name once it is filled in; if not, why.
pub fn check_slug(text: &str) -> Result<(), String> {
    for piece in pieces(text) {
        if matches!(piece, Piece::Name("scratchpad")) {
            return Err("a worktree's name cannot hold a path: {scratchpad}".to_owned());
        }
    }
    let values = Values { worker: "1", phase: "p", run: "r1", scratchpad: "" };
    let slug = fill(text, &values);
    if let Some(at) = slug.find('{') {
        let end = slug[at..].find('}').map_or(slug.len(), |end| at + end);
        let wrong = &slug[at + 1..end];
        let known = NAMES.into_iter().filter(|name| *name != "scratchpad");
        return Err(format!("unknown template {{{wrong}}} in {text:?}{}", meant(wrong, known)));
    }
    is_slug(&slug)
        .then_some(())
        .ok_or_else(|| format!("{text:?} cannot name a worktree: {SLUG_RULE}"))
}

const SLUG_RULE: &str = "only a to z, 0 to 9 and . _ - / are allowed, it begins with a letter or digit and has no \"..\"";

/// As the worktree plugin wants them.
pub fn is_slug(slug: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts = slug.bytes().next().is_some_and(plain);
    starts
        && slug.len() <= SLUG_MAX
        && slug.bytes().all(|byte| plain(byte) || b"._-/".contains(&byte))
        && !slug.contains("..")
        && !slug.contains("//")
        && !slug.ends_with(['/', '.'])
        && !slug.contains("/.")
        && !slug.ends_with(".lock")
}

/// A name as part of a slug: lower case, everything else a dash.
pub fn slugged(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        let kept = c.is_ascii_lowercase() || c.is_ascii_digit();
        if kept {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "x".to_owned() } else { slug.to_owned() }
}
