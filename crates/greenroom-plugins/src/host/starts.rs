//! What a plugin may change of a session that is about to start: the one table, and the one place that asks it.
//!
//! In: what a plugin wants changed, what it was allowed, and whether the session will be confined. Out: the changes that
//! are changes, or why none of them is made: a plugin that oversteps has failed, and its failure policy says what
//! follows. Every way by which a plugin changes a start goes through [`checked`]. Deliberately absent: how a change is
//! carried out.

use greenroom_protocol::manifest::{Allowed, Hook, HookName};
use serde_json::{Map, Value};

use super::shape::Decision;
use crate::runtime::CallFailure;
use crate::runtime::verdict::shown;

/// The capability without which nothing of a start is changed.
pub const CAPABILITY: &str = "session.transform";

/// Variables that decide which code runs, or that are ours: no plugin sets or removes them. A name that ends in `*`
/// stands for all that begin so.
pub const FIXED: &[&str] = &[
    // Where programs are found, and what a shell does before its first command.
    "PATH",
    "HOME",
    "SHELL",
    "IFS",
    "ENV",
    "BASH_*",
    "BASHOPTS",
    "SHELLOPTS",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "FPATH",
    "INPUTRC",
    // What the loader and the library take in.
    "LD_*",
    "DYLD_*",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    "NLSPATH",
    // Programs that others start.
    "GIT_*",
    "SSH_ASKPASS*",
    "SUDO_ASKPASS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    // What languages load or run by themselves.
    "PYTHON*",
    "PERL5*",
    "PERLLIB",
    "RUBY*",
    "NODE_*",
    "npm_config_*",
    "NPM_CONFIG_*",
    "LUA_INIT*",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "RUSTC*",
    "RUSTFLAGS",
    "CARGO_*",
    "MAKEFLAGS",
    "VIMINIT",
    "EXINIT",
    // Where programs look for settings that name programs.
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "TERMINFO*",
    "TERMCAP",
    // Ours.
    "GREENROOM_*",
];

/// Fields that say where and what a confined session is: its fence was agreed to as it is.
const FENCED: &[&str] =
    &["project_dir", "cwd", "argv", "argv_wrap", "command", "writable_paths", "writable"];

/// Whether no plugin may touch a variable.
pub fn is_fixed(name: &str) -> bool {
    FIXED.iter().any(|fixed| match fixed.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *fixed,
    })
}

/// What is known of the session and of the plugin that wants to change its start.
pub struct Start<'a> {
    /// What the plugins were told.
    pub told: &'a Map<String, Value>,
    pub grants: &'a Allowed,
    /// A sandbox will be around it.
    pub confined: bool,
}

/// Lets a decision about a start pass, without what is no change, or says why it is refused.
pub fn checked(
    hook: HookName,
    start: &Start<'_>,
    decision: Decision,
) -> Result<Decision, CallFailure> {
    let Decision::Change(fields) = decision else { return Ok(decision) };
    if hook.hook != Hook::SessionBefore {
        return Ok(Decision::Change(fields));
    }
    let changes = differing(start.told, fields);
    if changes.is_empty() {
        return Ok(Decision::Pass);
    }
    let names: Vec<String> = changes.keys().map(|name| shown(name)).collect();
    let refused = |what: String| Err(CallFailure::NotAllowed(what));
    // datawatch's contract lets its hook change a start; whoever agreed to it was told so.
    let allowed = hook.seed || start.grants.get(CAPABILITY).is_some_and(|allow| allow.any());
    if !allowed {
        let names = names.join(", ");
        return refused(format!("to change {names} of a start: it lacks {CAPABILITY}"));
    }
    if let Some(Value::Object(env)) = changes.get("env")
        && let Some((name, value)) = env.iter().find(|(name, _)| is_fixed(name))
    {
        let (verb, name) = (if value.is_null() { "remove" } else { "set" }, shown(name));
        return refused(format!("to {verb} the variable {name}: it decides what runs"));
    }
    if start.confined
        && let Some(name) = FENCED.iter().find(|name| changes.contains_key(**name))
    {
        return refused(format!("to change {name} of a confined session"));
    }
    Ok(Decision::Change(changes))
}

/// What differs from what was told; of labels and variables name by name.
fn differing(told: &Map<String, Value>, fields: Map<String, Value>) -> Map<String, Value> {
    let changed = |(name, value): (String, Value)| match (told.get(&name), value) {
        (Some(old), new) if *old == new => None,
        (Some(Value::Object(old)), Value::Object(new)) => {
            let new: Map<String, Value> =
                new.into_iter().filter(|(key, value)| old.get(key) != Some(value)).collect();
            (!new.is_empty()).then_some((name, Value::Object(new)))
        }
        (None, Value::Object(new)) if new.is_empty() => None,
        (_, new) => Some((name, new)),
    };
    fields.into_iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::manifest::Allow;
    use serde_json::json;

    use super::*;

    fn check(granted: bool, seed: bool, confined: bool, fields: Value) -> Result<Value, String> {
        let told = json!({ "task": "t", "project_dir": "/p", "labels": { "a": "1" } });
        let mut grants = Allowed::new();
        grants.insert(CAPABILITY.to_owned(), Allow::Flag(granted));
        let start = Start { told: told.as_object().unwrap(), grants: &grants, confined };
        let hook = HookName { hook: Hook::SessionBefore, seed };
        let change = Decision::Change(fields.as_object().unwrap().clone());
        match checked(hook, &start, change) {
            Ok(Decision::Change(fields)) => Ok(Value::Object(fields)),
            Ok(Decision::Pass) => Ok(json!({})),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn nothing_is_changed_without_the_capability() {
        for fields in [
            json!({ "task": "x" }),
            json!({ "labels": { "a": "2" } }),
            json!({ "env": { "A": "b" } }),
        ] {
            let said = check(false, false, false, fields.clone()).unwrap_err();
            assert!(said.contains("session.transform"), "{said}");
            assert!(check(true, false, false, fields.clone()).is_ok());
            assert!(check(false, true, false, fields).is_ok(), "datawatch's contract");
        }
        // To say again what was told is no change.
        let same = json!({ "task": "t", "project_dir": "/p", "labels": { "a": "1" }, "env": {} });
        assert_eq!(check(false, false, true, same), Ok(json!({})));
    }

    #[test]
    fn what_runs_code_is_nobodys() {
        let fixed = [
            "PATH",
            "HOME",
            "SHELL",
            "IFS",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "PS1",
            "PS4",
            "PROMPT_COMMAND",
            "LD_PRELOAD",
            "LD_",
            "DYLD_INSERT_LIBRARIES",
            "GIT_SSH",
            "SSH_ASKPASS",
            "EDITOR",
            "VISUAL",
            "PAGER",
            "BROWSER",
            "PYTHONPATH",
            "PERL5LIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "CARGO_HOME",
            "XDG_CONFIG_HOME",
            "ZDOTDIR",
            "TERMINFO",
            "GREENROOM_SESSION_KEY",
        ];
        for name in fixed {
            for value in [json!("x"), Value::Null] {
                for seed in [true, false] {
                    let said =
                        check(true, seed, false, json!({ "env": { "A": "b", name: value } }));
                    assert!(said.unwrap_err().contains(name), "{name}");
                }
            }
        }
        let free = json!({ "env": { "path": "x", "MY_PATH": "x", "NODE": "x", "PYTHO": null } });
        assert_eq!(check(true, false, true, free.clone()), Ok(free));
    }

    #[test]
    fn a_fence_stays_where_it_was_agreed_to() {
        for seed in [true, false] {
            let moved = json!({ "project_dir": "/other" });
            assert!(check(true, seed, true, moved.clone()).unwrap_err().contains("confined"));
            assert_eq!(check(true, seed, false, moved.clone()), Ok(moved));
        }
    }
}
