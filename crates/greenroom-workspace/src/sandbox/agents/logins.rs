//! Logins of agents: the user's go in, and tokens that were refreshed inside come back out.
//!
//! A token that refreshes others can often be used once. If one is used inside and its successor
//! stays there, the agent outside is logged out. So what a session's copy has that is fresher goes
//! into the user's file: tokens and their time, each checked for what it is, in places where the
//! user's file has tokens already. Everything else of that file stays as it is. A login made inside
//! where there is none outside stays inside. Deliberately absent: whether a token works; only its
//! maker can tell.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AGENTS, Kind, copy};
use crate::disk::read_plain;
use crate::threads::lock;

/// The largest file of logins that is read.
const FILE_MAX: u64 = 1024 * 1024;
const TOKEN_MAX: usize = 16 * 1024;
/// No token lives longer than this from now on.
const LIFE_MAX_MS: u64 = 400 * 24 * 3600 * 1000;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// What a file of logins looks like.
pub struct Shape {
    /// Where tokens are: names on the way to an object; `*` is each member.
    places: &'static [&'static [&'static str]],
    tokens: &'static [&'static str],
    /// Must be the same inside and outside: whose login it is.
    same: &'static [&'static str],
    time: Time,
}

/// By what one version is fresher than another.
enum Time {
    /// When the token ends, in milliseconds, beside it.
    Ends(&'static str),
    /// When it was refreshed, as text in UTC, at the top.
    Refreshed(&'static str),
}

pub const CLAUDE: Shape = Shape {
    places: &[&["claudeAiOauth"], &["mcpOAuth", "*"]],
    tokens: &["accessToken", "refreshToken"],
    same: &["serverUrl", "serverName", "clientId"],
    time: Time::Ends("expiresAt"),
};

pub const CODEX: Shape = Shape {
    places: &[&["tokens"]],
    tokens: &["id_token", "access_token", "refresh_token"],
    same: &["account_id"],
    time: Time::Refreshed("last_refresh"),
};

pub const CODEX_SERVERS: Shape = Shape {
    places: &[&["*"]],
    tokens: &["access_token", "refresh_token"],
    same: &["server_name", "server_url", "client_id"],
    time: Time::Ends("expires_at"),
};

pub const GOOGLE: Shape = Shape {
    places: &[&[]],
    tokens: &["access_token", "refresh_token", "id_token"],
    same: &["token_type"],
    time: Time::Ends("expiry_date"),
};

/// A login of one session: the user's file and its copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    agent: String,
    entry: String,
    /// The file of the user.
    pub real: PathBuf,
    /// The file of the session.
    pub own: PathBuf,
    /// Exists while `own` came from `real`. No session can write it.
    mark: PathBuf,
}

/// One exchange at a time: whoever compares must find both as they were when it writes.
static EXCHANGE: Mutex<()> = Mutex::new(());

impl Login {
    pub fn new(agent: &str, entry: &str, real: PathBuf, own: PathBuf, mark: PathBuf) -> Login {
        Login { agent: agent.to_owned(), entry: entry.to_owned(), real, own, mark }
    }

    fn shape(&self) -> Option<&'static Shape> {
        let agent = AGENTS.iter().find(|agent| agent.name == self.agent)?;
        let entries = agent.homes.iter().flat_map(|home| home.entries);
        entries.into_iter().find_map(|(name, kind)| match kind {
            Kind::Login(shape) if *name == self.entry => Some(*shape),
            _ => None,
        })
    }

    /// Brings both to the same, fresher state. Blocks.
    pub fn exchange(&self) -> io::Result<()> {
        let Some(shape) = self.shape() else { return Ok(()) };
        let _alone = lock(&EXCHANGE);
        let aside = self.mark.parent().ok_or(io::ErrorKind::InvalidInput)?;
        // The user's may be a link to where such things are kept.
        let real = self.real.canonicalize().unwrap_or_else(|_| self.real.clone());
        let Some(outside) = read_plain(&real, FILE_MAX)? else {
            // Logged out outside: what came from there is no login any more.
            if self.mark.exists() {
                copy::clear(&self.own)?;
                std::fs::remove_file(&self.mark)?;
            }
            return Ok(());
        };
        let inside = read_plain(&self.own, FILE_MAX).unwrap_or_default().unwrap_or_default();
        let fresher = match (serde_json::from_slice(&outside), serde_json::from_slice(&inside)) {
            (Ok(outside), Ok(inside)) => merged(shape, &outside, &inside, now_ms()),
            _ => None,
        };
        let content = match fresher {
            Some(fresher) => {
                let content = serde_json::to_vec(&fresher).map_err(io::Error::other)?;
                copy::replace(&real, &content)?;
                tracing::info!(agent = self.agent, "a login was refreshed inside a session");
                content
            }
            None => outside,
        };
        if inside != content {
            copy::put(&self.own, &content, aside)?;
        }
        if !self.mark.exists() {
            std::fs::write(&self.mark, "")?;
        }
        Ok(())
    }
}

fn now_ms() -> u64 {
    crate::spec::millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The user's file with the tokens from inside that are fresher; `None` if none are.
fn merged(shape: &Shape, outside: &Value, inside: &Value, now: u64) -> Option<Value> {
    let mut result = outside.clone();
    let mut changed = false;
    for place in shape.places {
        changed |= walk(shape, place, &mut result, inside, (outside, inside), now);
    }
    if let (true, Time::Refreshed(field)) = (changed, &shape.time) {
        result.as_object_mut()?.insert((*field).to_owned(), inside.get(*field)?.clone());
    }
    changed.then_some(result)
}

fn walk(
    shape: &Shape,
    place: &[&str],
    to: &mut Value,
    from: &Value,
    tops: (&Value, &Value),
    now: u64,
) -> bool {
    let (Value::Object(to), Value::Object(from)) = (to, from) else { return false };
    match place.split_first() {
        None => refresh(shape, to, from, tops, now),
        Some((&"*", rest)) => {
            let each = to.iter_mut().filter_map(|(name, to)| Some((to, from.get(name)?)));
            each.fold(false, |changed, (to, from)| walk(shape, rest, to, from, tops, now) | changed)
        }
        Some((name, rest)) => match (to.get_mut(*name), from.get(*name)) {
            (Some(to), Some(from)) => walk(shape, rest, to, from, tops, now),
            _ => false,
        },
    }
}

/// Replaces the tokens of one object, if those from inside are fresher and are what they should be.
fn refresh(
    shape: &Shape,
    to: &mut Map<String, Value>,
    from: &Map<String, Value>,
    tops: (&Value, &Value),
    now: u64,
) -> bool {
    let fresher = match &shape.time {
        Time::Ends(field) => ends(from, field, now).filter(|ends| {
            to.get(*field).and_then(Value::as_u64).is_some_and(|known| *ends > known)
        }),
        Time::Refreshed(field) => {
            let time = |top: &Value| millis(top.get(*field)?.as_str()?);
            time(tops.1).filter(|refreshed| {
                *refreshed < now + DAY_MS && time(tops.0).is_some_and(|known| *refreshed > known)
            })
        }
    };
    let tokens: Vec<&&str> = shape.tokens.iter().filter(|name| to.contains_key(**name)).collect();
    let good = tokens.iter().all(|name| from.get(**name).is_some_and(is_token));
    let same = shape.same.iter().all(|name| to.get(*name) == from.get(*name));
    if fresher.is_none() || tokens.is_empty() || !good || !same {
        return false;
    }
    for name in tokens {
        to.insert((*name).to_string(), from[*name].clone());
    }
    if let Time::Ends(field) = &shape.time {
        to.insert((*field).to_owned(), from[*field].clone());
    }
    true
}

fn ends(from: &Map<String, Value>, field: &str, now: u64) -> Option<u64> {
    let ends = from.get(field)?.as_u64()?;
    (ends + DAY_MS > now && ends < now + LIFE_MAX_MS).then_some(ends)
}

/// Letters, digits and what tokens have between them: nothing that a shell, a header or a terminal
/// would read otherwise.
fn is_token(value: &Value) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=|:".contains(&byte);
    value
        .as_str()
        .is_some_and(|text| (8..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(plain))
}

/// `2026-11-17T22:10:03.123Z` in milliseconds.
fn millis(text: &str) -> Option<u64> {
    greenroom_protocol::time::Timestamp::parse(text).map(|time| time.unix_ms())
}

#[cfg(test)]
mod tests;
