//! `[plugins]`: what the operator decides about plugins.

use std::collections::BTreeMap;
use std::time::Duration;

use greenroom_formats::manifest::{HookName, OnFailure, TIMEOUT_MS_MAX};
use greenroom_plugins::runtime::profile::Enforcement;

use super::value::{Given, count, pairs, word};

/// datawatch's own default; also what 0 means there.
const TIMEOUT_MS: u64 = 2000;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    pub enabled: bool,
    pub dir: Option<String>,
    pub timeout_ms: Duration,
    pub disabled: Vec<String>,
    pub policy: BTreeMap<String, OnFailure>,
    pub min_enforcement: Enforcement,
    pub idle: Duration,
    pub approval_timeout: Duration,
}

pub(super) fn milliseconds(given: &Given) -> Result<Duration, String> {
    let ms = match count(given, 0, TIMEOUT_MS_MAX)? {
        0 => TIMEOUT_MS,
        ms => ms,
    };
    Ok(Duration::from_millis(ms))
}

pub(super) fn enforcement(given: &Given) -> Result<Enforcement, String> {
    let word = word(given)?;
    Enforcement::named(&word)
        .ok_or_else(|| format!("must be advisory, partial or enforced, not \"{word}\""))
}

/// `HOOK` or `PLUGIN/HOOK` to a policy that the hook's class knows.
pub(super) fn policies(given: &Given) -> Result<BTreeMap<String, OnFailure>, String> {
    let one = |(name, word): (String, String)| {
        let hook = name.rsplit_once('/').map_or(&*name, |(_, hook)| hook);
        let Some(hook) = HookName::parse(hook) else {
            return Err(format!("must name hooks such as \"output.filter\", not \"{name}\""));
        };
        let known = hook.hook.class().policies();
        let policy = known.iter().find(|policy| policy.word() == word);
        match policy {
            Some(policy) => Ok((name, *policy)),
            None => {
                let words: Vec<&str> = known.iter().map(|policy| policy.word()).collect();
                Err(format!("must say one of {} for {name}, not \"{word}\"", words.join(", ")))
            }
        }
    };
    pairs(given)?.into_iter().map(one).collect()
}
