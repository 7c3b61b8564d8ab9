//! Settings for the git a session runs, given by its environment: neither the repository's nor the
//! user's files change.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

const COUNT: &str = "GIT_CONFIG_COUNT";

/// More than anybody sets; a larger number in the environment is a mistake we do not follow.
const MAX_COUNT: usize = 1000;

/// Adds `key = value` to what the environment already sets.
pub fn add(env: &mut BTreeMap<OsString, OsString>, key: &str, value: impl Into<OsString>) {
    let count = count(env);
    env.insert(format!("GIT_CONFIG_KEY_{count}").into(), key.into());
    env.insert(format!("GIT_CONFIG_VALUE_{count}").into(), value.into());
    env.insert(COUNT.into(), (count + 1).to_string().into());
}

/// What the environment sets for `key`, the last one.
pub fn get<'a>(env: &'a BTreeMap<OsString, OsString>, key: &str) -> Option<&'a OsStr> {
    (0..count(env)).rev().find_map(|at| {
        let name = env.get(OsStr::new(&format!("GIT_CONFIG_KEY_{at}")))?;
        name.eq_ignore_ascii_case(key).then_some(())?;
        env.get(OsStr::new(&format!("GIT_CONFIG_VALUE_{at}"))).map(OsString::as_os_str)
    })
}

fn count(env: &BTreeMap<OsString, OsString>) -> usize {
    let count = env.get(OsStr::new(COUNT)).and_then(|count| count.to_str()?.parse().ok());
    count.filter(|count| *count <= MAX_COUNT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_before_stays() {
        let mut env = BTreeMap::new();
        add(&mut env, "gc.auto", "0");
        add(&mut env, "core.excludesFile", "/x");
        add(&mut env, "core.excludesFile", "/y");
        assert_eq!(env[OsStr::new(COUNT)], "3");
        assert_eq!(get(&env, "gc.auto"), Some(OsStr::new("0")));
        assert_eq!(get(&env, "core.excludesfile"), Some(OsStr::new("/y")));
        assert_eq!(get(&env, "core.pager"), None);
    }
}
