//! What may be asked for around a session, stated once. `session.create`, the `session` of a
//! connector file and the flags of `greenroom new` are all a [`SessionAsk`]: a member that is added
//! here is read by all of them.
//!
//! The larger asks have a short and a long form: `"worktree": "slug"` or an object,
//! `"sandbox": true | "full" | "reduced"` or an object, `"scratchpad": true | "name"` or an object.
//! `false` asks for nothing, and goes over what was asked for further out; `null` says nothing.
//! They refuse unknown members by themselves, wherever they are read: a misspelt `allow_hosts`
//! would be a hole. Absent on purpose: whether an ask can be granted.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::is_false;

/// Makes [`SessionAsk`] of its members, so that none is left out where they are put over each other
/// or counted.
macro_rules! asks {
    ($($(#[$about:meta])* $name:ident: $kind:ty,)*) => {
        /// What may be asked for around a session. Each member is answered by one session plugin.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct SessionAsk {
            $($(#[$about])* #[serde(skip_serializing_if = "Member::is_unsaid")] pub $name: $kind,)*
        }

        impl SessionAsk {
            /// The names of all members.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// This where it says something, else `under`; each member by itself.
            #[must_use]
            pub fn over(&self, under: &SessionAsk) -> SessionAsk {
                SessionAsk { $($name: self.$name.over(&under.$name),)* }
            }

            /// The names of the members that ask for something.
            pub fn asked(&self) -> impl Iterator<Item = &'static str> {
                let asked = [$(self.$name.is_asked()),*];
                SessionAsk::NAMES.iter().zip(asked).filter_map(|(name, asked)| asked.then_some(*name))
            }
        }
    };
}

asks! {
    /// Set on top of the inherited environment. `secret:NAME` is read from the host's secrets,
    /// `file:PATH` from a file, `literal:TEXT` is TEXT. Values are not shown anywhere.
    env: Variables,
    /// End it after this long.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// End it after this long without output.
    #[schemars(range(min = 1))]
    idle_timeout_ms: Option<u64>,
    /// Session plugin: work in a git worktree. A slug, or an object. In a connector file
    /// `{worker}`, `{phase}` and `{run}` in it are filled in, and `true` is one of its own.
    #[schemars(with = "Option<WorktreeForms>")]
    worktree: Asked<WorktreeAsk>,
    /// Session plugin: confine it. `true`, a level, or an object.
    #[schemars(with = "Option<SandboxForms>")]
    sandbox: Asked<SandboxAsk>,
    /// Session plugin: a directory shared by several sessions. `true`, a name, or an object.
    #[schemars(with = "Option<ScratchpadForms>")]
    scratchpad: Asked<ScratchpadAsk>,
}

/// A member of [`SessionAsk`].
trait Member: Clone {
    /// Nothing was said of it.
    fn is_unsaid(&self) -> bool;

    /// Something is asked for.
    fn is_asked(&self) -> bool {
        !self.is_unsaid()
    }

    fn over(&self, under: &Self) -> Self {
        if self.is_unsaid() { under.clone() } else { self.clone() }
    }
}

impl<T: Clone> Member for Option<T> {
    fn is_unsaid(&self) -> bool {
        self.is_none()
    }
}

/// Something that is asked for or expressly not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asked<T> {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// `false`: not, whatever was said further out.
    No,
    /// It is asked for.
    Yes(T),
}

impl<T> Asked<T> {
    /// By a plain `true` or `false`.
    pub fn switch(on: Option<bool>) -> Asked<T>
    where
        T: Default,
    {
        on.map_or(Asked::Unsaid, |on| if on { Asked::Yes(T::default()) } else { Asked::No })
    }

    /// What is asked for.
    pub fn yes(&self) -> Option<&T> {
        match self {
            Asked::Yes(ask) => Some(ask),
            Asked::Unsaid | Asked::No => None,
        }
    }

    /// The same, to be changed.
    pub fn yes_mut(&mut self) -> Option<&mut T> {
        match self {
            Asked::Yes(ask) => Some(ask),
            Asked::Unsaid | Asked::No => None,
        }
    }

    /// This, or what is said further out.
    #[must_use]
    pub fn or(self, under: Asked<T>) -> Asked<T> {
        if matches!(self, Asked::Unsaid) { under } else { self }
    }
}

impl<T> From<Option<T>> for Asked<T> {
    fn from(ask: Option<T>) -> Asked<T> {
        ask.map_or(Asked::Unsaid, Asked::Yes)
    }
}

impl<T: Clone> Member for Asked<T> {
    fn is_unsaid(&self) -> bool {
        matches!(self, Asked::Unsaid)
    }

    fn is_asked(&self) -> bool {
        self.yes().is_some()
    }
}

impl<T: Serialize> Serialize for Asked<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Asked::Unsaid => serializer.serialize_none(),
            Asked::No => serializer.serialize_bool(false),
            Asked::Yes(ask) => ask.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Asked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Asked<T>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Asked::Unsaid),
            Value::Bool(false) => Ok(Asked::No),
            value => T::deserialize(value).map(Asked::Yes).map_err(de::Error::custom),
        }
    }
}

/// Variables by name; those said nearer go over those said further out. `Debug` hides the values.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Variables(pub BTreeMap<String, String>);

impl Member for Variables {
    fn is_unsaid(&self) -> bool {
        self.0.is_empty()
    }

    fn over(&self, under: &Variables) -> Variables {
        Variables(under.0.iter().chain(&self.0).map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Work in a git worktree of the session's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(rename = "WorktreeAsk")]
pub struct WorktreeAsk {
    /// Names the worktree and its branch.
    pub slug: String,
    /// Where a new branch begins; `HEAD` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl WorktreeAsk {
    /// What `true` stands for: each worker of a run gets one of its own. Only a connector file
    /// fills it in.
    pub const OWN: &'static str = "{run}/{phase}-{worker}";

    /// The worktree of this name.
    pub fn of(slug: impl Into<String>) -> WorktreeAsk {
        WorktreeAsk { slug: slug.into(), base: None }
    }
}

/// How much of the sandbox must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Every layer; refused where one is missing.
    #[default]
    Full,
    /// File contents and network without namespaces.
    Reduced,
}

impl SandboxLevel {
    /// As on the wire.
    pub fn word(self) -> &'static str {
        match self {
            SandboxLevel::Full => "full",
            SandboxLevel::Reduced => "reduced",
        }
    }
}

/// Confine the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[schemars(rename = "SandboxAsk")]
pub struct SandboxAsk {
    /// What must be enforced, or the session does not start.
    pub level: SandboxLevel,
    /// Hosts it may reach: exact names, or `*.example.org`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Directories it may write besides its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_write: Vec<String>,
    /// Allow plain HTTP (port 80) to the allowed hosts too.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_http: bool,
    /// Exceptions that void a promise: `unix`, `debug`, `network`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<SandboxException>,
}

/// An exception that voids a promise of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxException {
    /// Unix sockets by path.
    Unix,
    /// `ptrace` within the session.
    Debug,
    /// The whole network.
    Network,
}

/// A directory that several sessions share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(rename = "ScratchpadAsk")]
pub struct ScratchpadAsk {
    /// Shared by all who say this name; the session's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ScratchpadAsk {
    /// What may name one.
    pub const NAMES: &'static str = "1 to 64 letters, digits and . _ - make a name; run- and session- are kept for runs and sessions";

    /// Whether it may: it is a file name, and told in lists.
    pub fn may_be_called(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (1..=64).contains(&name.len())
            && name.bytes().all(plain)
            && name.as_bytes()[0].is_ascii_alphanumeric()
            && !["run-", "session-"].iter().any(|word| name.starts_with(word))
    }
}

/// The forms an ask may have on the wire, for its schema.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum WorktreeForms {
    /// One of its own, or none.
    Flag(bool),
    /// Only the slug of the worktree.
    Slug(String),
    /// The long form.
    Long(WorktreeAsk),
}

/// The forms of `sandbox`.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum SandboxForms {
    /// Level full, or none.
    Flag(bool),
    /// Only the level of the sandbox.
    Level(SandboxLevel),
    /// The long form.
    Long(SandboxAsk),
}

/// The forms of `scratchpad`.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum ScratchpadForms {
    /// One of its own, or none.
    Flag(bool),
    /// Only the name of the scratchpad.
    Name(String),
    /// The long form.
    Long(ScratchpadAsk),
}

/// Reads the short form of an ask, or its object; it is written as an object.
macro_rules! short_form {
    ($ask:ident: $wants:literal, $short:expr) => {
        impl Serialize for $ask {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $ask::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $ask {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$ask, D::Error> {
                let short: fn(&Value) -> Option<$ask> = $short;
                match Value::deserialize(deserializer)? {
                    long @ Value::Object(_) => $ask::deserialize(long).map_err(de::Error::custom),
                    value => short(&value)
                        .ok_or_else(|| de::Error::custom(format!("{}, not {value}", $wants))),
                }
            }
        }
    };
}

short_form!(WorktreeAsk: "worktree is a slug, or an object with slug and base", |value| match value {
    Value::Bool(true) => Some(WorktreeAsk::of(WorktreeAsk::OWN)),
    Value::String(slug) => Some(WorktreeAsk::of(slug)),
    _ => None,
});

short_form!(SandboxAsk: "sandbox is true, \"full\", \"reduced\", or an object", |value| match value {
    Value::Bool(true) => Some(SandboxAsk::default()),
    value => Some(SandboxAsk { level: SandboxLevel::deserialize(value).ok()?, ..SandboxAsk::default() }),
});

short_form!(ScratchpadAsk: "scratchpad is true, a name, or an object with name", |value| match value {
    Value::Bool(true) => Some(ScratchpadAsk::default()),
    Value::String(name) => Some(ScratchpadAsk { name: Some(name.clone()) }),
    _ => None,
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_and_long_forms() {
        let read = |value| serde_json::from_value::<SandboxAsk>(value).map_err(|e| e.to_string());
        assert_eq!(read(json!(true)), Ok(SandboxAsk::default()));
        assert_eq!(read(json!("reduced")).unwrap().level, SandboxLevel::Reduced);
        assert_eq!(read(json!({"allow_hosts": ["a.b"]})).unwrap().allow_hosts, ["a.b"]);
        assert!(read(json!({"allow_host": ["a.b"]})).unwrap_err().contains("unknown field"));
        assert!(read(json!("none")).is_err());
        assert!(read(json!(3)).unwrap_err().contains("not 3"));
        let read = |value| serde_json::from_value::<WorktreeAsk>(value).unwrap();
        assert_eq!(read(json!("x")), read(json!({"slug": "x"})));
        let read = |value| serde_json::from_value::<ScratchpadAsk>(value).unwrap();
        assert_eq!(read(json!(true)).name, None);
        assert_eq!(read(json!("team")).name.as_deref(), Some("team"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let ask = SandboxAsk { allow_hosts: vec!["a.b".into()], ..SandboxAsk::default() };
        let again: SandboxAsk =
            serde_json::from_value(serde_json::to_value(&ask).unwrap()).unwrap();
        assert_eq!(again, ask);
    }
}
