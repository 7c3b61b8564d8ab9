//! What a caller may ask of the built-in session plugins, in the short and the long form of each:
//! `"worktree": "slug"` or an object, `"sandbox": true | "full" | "reduced"` or an object,
//! `"scratchpad": true | "name"` or an object. `false` and `null` ask for nothing.
//!
//! These refuse unknown members by themselves, wherever they are read: a misspelt `allow_hosts` would be a hole.
//! Absent on purpose: whether an ask can be granted.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::is_false;

/// Work in a git worktree of the session's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorktreeAsk {
    /// Names the worktree and its branch.
    pub slug: String,
    /// Where a new branch begins; `HEAD` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScratchpadAsk {
    /// Shared by all who say this name; the session's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `false` and `null` are `None`; use as `deserialize_with` of an `Option`.
pub fn asked<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(de::Error::custom),
    }
}

/// The forms an ask may have on the wire, for its schema.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum WorktreeForms {
    /// `false`: none.
    Flag(bool),
    /// A slug.
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
    /// A level.
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
    /// A name.
    Name(String),
    /// The long form.
    Long(ScratchpadAsk),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorktreeLong {
    slug: String,
    #[serde(default)]
    base: Option<String>,
}

impl<'de> Deserialize<'de> for WorktreeAsk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wants = "a slug, or an object with slug and base";
        match Value::deserialize(deserializer)? {
            Value::String(slug) => Ok(WorktreeAsk { slug, base: None }),
            value @ Value::Object(_) => {
                let long: WorktreeLong = long(value)?;
                Ok(WorktreeAsk { slug: long.slug, base: long.base })
            }
            other => Err(unfit("worktree", wants, &other)),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct SandboxLong {
    level: SandboxLevel,
    allow_hosts: Vec<String>,
    allow_write: Vec<String>,
    allow_http: bool,
    allow: Vec<SandboxException>,
}

impl<'de> Deserialize<'de> for SandboxAsk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wants = "true, \"full\", \"reduced\", or an object";
        match Value::deserialize(deserializer)? {
            Value::Bool(true) => Ok(SandboxAsk::default()),
            value @ Value::String(_) => {
                Ok(SandboxAsk { level: long(value)?, ..SandboxAsk::default() })
            }
            value @ Value::Object(_) => {
                let SandboxLong { level, allow_hosts, allow_write, allow_http, allow } =
                    long(value)?;
                Ok(SandboxAsk { level, allow_hosts, allow_write, allow_http, allow })
            }
            other => Err(unfit("sandbox", wants, &other)),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScratchpadLong {
    #[serde(default)]
    name: Option<String>,
}

impl<'de> Deserialize<'de> for ScratchpadAsk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(true) => Ok(ScratchpadAsk::default()),
            Value::String(name) => Ok(ScratchpadAsk { name: Some(name) }),
            value @ Value::Object(_) => {
                let long: ScratchpadLong = long(value)?;
                Ok(ScratchpadAsk { name: long.name })
            }
            other => Err(unfit("scratchpad", "true, a name, or an object with name", &other)),
        }
    }
}

fn long<T: serde::de::DeserializeOwned, E: de::Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(E::custom)
}

fn unfit<E: de::Error>(what: &str, wants: &str, got: &Value) -> E {
    E::custom(format!("{what} is {wants}, not {got}"))
}

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
