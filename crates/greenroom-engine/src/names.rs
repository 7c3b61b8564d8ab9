//! What sessions are called: which names are allowed, whose a name is, and who gives one up.
//!
//! In: texts, and the sessions as they are. Out: an id, a claim on a name, or why not.
//!
//! A name is one live session's. An ended session keeps its name until a live one takes it; then it
//! goes by its id and remembers what it was called. A session without a chosen name gets one made
//! from what runs: `bash`, `make-2`. Absent on purpose: records and events, which are the engine's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::EngineError;
use crate::id::SessionId;
use crate::lock::lock;
use crate::session::SessionInfo;
use crate::spec::SessionSpec;
use crate::store::RecordState;

/// A name is for people and for file-system-free listings.
const NAME_MAX: usize = 64;

/// A name made from something longer is cut to this; a number still fits behind it.
const MADE_MAX: usize = 40;

/// As many of one kind are numbered; the next goes by its id.
const NUMBERED_MAX: u32 = 9999;

/// It will not run again.
pub(crate) fn is_over(state: &RecordState) -> bool {
    matches!(state, RecordState::Ended { .. } | RecordState::Failed { .. })
}

/// A name must not look like an id, or `s3` would mean two things.
pub(crate) fn check(name: &str) -> Result<(), EngineError> {
    let bad = |why| Err(EngineError::BadName { name: name.to_owned(), why });
    if name.is_empty() || name.len() > NAME_MAX {
        return bad("it must have 1 to 64 characters");
    }
    if !name.bytes().all(is_allowed) {
        return bad("only letters, digits and . _ - / are allowed");
    }
    if !name.as_bytes()[0].is_ascii_alphanumeric() {
        return bad("it must begin with a letter or digit");
    }
    if name.parse::<SessionId>().is_ok() {
        return bad("names like s3 are kept for ids");
    }
    Ok(())
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-/".contains(&byte)
}

/// No live session but `except` has it.
pub(crate) fn check_free(
    name: &str,
    except: Option<SessionId>,
    sessions: &[SessionInfo],
) -> Result<(), EngineError> {
    let has = |info: &&SessionInfo| info.record.name == name && Some(info.record.id) != except;
    match sessions.iter().filter(|info| !is_over(&info.record.state)).find(has) {
        Some(info) => Err(EngineError::NameTaken { name: name.to_owned(), by: info.record.id }),
        None => Ok(()),
    }
}

/// The session that `text` names: an id, a name, or the beginning of one name. Live sessions come
/// first: an ended one is meant only if no live one fits. What looks like an id is one: `s1` never
/// means `s10`.
pub(crate) fn find(text: &str, sessions: &[SessionInfo]) -> Result<SessionId, EngineError> {
    let not_found = |nearest| Err(EngineError::NotFound { name: text.to_owned(), nearest });
    if let Ok(id) = text.parse::<SessionId>() {
        return if sessions.iter().any(|info| info.record.id == id) {
            Ok(id)
        } else {
            not_found(None)
        };
    }
    let (over, live): (Vec<_>, Vec<_>) =
        sessions.iter().map(|info| &info.record).partition(|record| is_over(&record.state));
    // The last: of two ended ones with a name the later is meant.
    let named = |records: &[&crate::store::SessionRecord]| {
        records.iter().rev().find(|record| record.name == text).map(|record| record.id)
    };
    if let Some(id) = named(&live).or_else(|| named(&over)) {
        return Ok(id);
    }
    for records in [&live, &over] {
        let fitting: Vec<_> = records
            .iter()
            .filter(|record| !text.is_empty() && record.name.starts_with(text))
            .collect();
        match fitting.as_slice() {
            [] => {}
            [record] => return Ok(record.id),
            several => {
                let candidates = several.iter().map(|record| record.name.clone()).collect();
                return Err(EngineError::Ambiguous { name: text.to_owned(), candidates });
            }
        }
    }
    not_found(nearest(text, live.iter().chain(&over).map(|record| record.name.as_str())))
}

fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let shares = |name: &str| name.chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
    names
        .map(|name| (shares(name), name))
        .filter(|(shared, _)| *shared >= 2)
        .max_by_key(|(shared, _)| *shared)
        .map(|(_, name)| name.to_owned())
}

/// Names of sessions that are about to have them. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimed(Arc<Mutex<BTreeSet<String>>>);

/// A name nobody else can take until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    pub name: String,
    claimed: Claimed,
}

impl Claimed {
    /// The name of a session to be: the one that was chosen, else one that is free.
    pub(crate) fn claim(
        &self,
        id: SessionId,
        spec: &SessionSpec,
        sessions: &[SessionInfo],
    ) -> Result<Claim, EngineError> {
        if let Some(name) = &spec.name {
            return self.claim_name(id, name, sessions);
        }
        let mut claimed = self.names();
        // A name that somebody chose stays with its session after the end; one that was made up
        // does not.
        let free = |name: &str| {
            let taken = |info: &SessionInfo| {
                let record = &info.record;
                record.name == name && (record.chosen || !is_over(&record.state))
            };
            !claimed.contains(name) && !sessions.iter().any(taken)
        };
        let made = spec.named_after.as_deref().and_then(|text| made_up(text, free));
        let name = made.unwrap_or_else(|| id.to_string());
        claimed.insert(name.clone());
        Ok(Claim { name, claimed: self.clone() })
    }

    /// This name for the session `id`.
    pub(crate) fn claim_name(
        &self,
        id: SessionId,
        name: &str,
        sessions: &[SessionInfo],
    ) -> Result<Claim, EngineError> {
        let mut claimed = self.names();
        check_free(name, Some(id), sessions)?;
        if !claimed.insert(name.to_owned()) {
            return Err(EngineError::NameClaimed { name: name.to_owned() });
        }
        Ok(Claim { name: name.to_owned(), claimed: self.clone() })
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.0)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claimed.names().remove(&self.name);
    }
}

/// A name from `text` that is `free`: `make`, `make-2`, …
fn made_up(text: &str, free: impl Fn(&str) -> bool) -> Option<String> {
    let plain: String =
        text.chars().map(|c| if c.is_ascii() && is_allowed(c as u8) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let base = plain[..plain.len().min(MADE_MAX)].trim_end_matches(['-', '.', '_', '/']);
    check(base).ok()?;
    let numbered = (2..NUMBERED_MAX).map(|number| format!("{base}-{number}"));
    std::iter::once(base.to_owned()).chain(numbered).find(|name| free(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "feat/x", "fix-1.2_b", "9"] {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "s3", "-a", ".a", "a b", "a\n", "ä", &long] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_made_from_what_runs() {
        let made = |text: &str| made_up(text, |name| name != "make" && name != "make-2");
        assert_eq!(made("bash").as_deref(), Some("bash"));
        assert_eq!(made("make").as_deref(), Some("make-3"));
        assert_eq!(made("feat/ä b").as_deref(), Some("feat/--b"));
        assert_eq!(made("-bash").as_deref(), Some("bash"));
        for none in ["s3", "", "…", "-"] {
            assert_eq!(made(none), None, "{none:?}");
        }
        let long = made(&"x".repeat(500)).unwrap();
        assert!(check(&long).is_ok() && long.len() == MADE_MAX, "{long}");
    }
}
