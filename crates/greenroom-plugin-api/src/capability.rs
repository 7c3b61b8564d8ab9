//! The one table of capabilities: what a plugin may ask for, and in which form.
//!
//! Absent means denied. Absent on purpose: enforcement, which is the host's (on each call) and the
//! sandbox's (on the process).

use std::collections::BTreeMap;
use std::fmt;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
#[cfg(feature = "schema")]
use serde_json::{Map, Value, json};

/// Entries of one allow-list; a longer one is no list a person can consent to.
pub const LIST_MAX: usize = 64;

/// In which form a capability is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// `true`.
    Flag,
    /// A list of what is allowed.
    List,
    /// Either: `true` is everything.
    Either,
}

/// Who holds a plugin to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// The host, on every call of the plugin.
    Host,
    /// The operating system, on the process; as strong as the sandbox here.
    Sandbox,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CapabilityRow {
    /// `group.verb`.
    pub name: &'static str,
    /// Flag or list.
    pub takes: Takes,
    /// Who enforces it.
    pub held_by: HeldBy,
    /// What it allows, in words for the person who is asked.
    pub summary: &'static str,
}

macro_rules! capabilities {
    ($($name:literal $takes:ident $held:ident $summary:literal;)*) => {
        /// Every capability.
        pub const CAPABILITIES: &[CapabilityRow] = &[
            $(CapabilityRow { name: $name, takes: Takes::$takes, held_by: HeldBy::$held, summary: $summary },)*
        ];
    };
}

capabilities! {
    "session.spawn" Flag Host "start sessions";
    "session.kill" Flag Host "end sessions";
    "session.resize" Flag Host "change the size of sessions";
    "session.list" Flag Host "see which sessions there are";
    "session.transform" Flag Host "change how a session is started";
    "screen.read" Flag Host "read screens";
    "transcript.read" Flag Host "read what sessions have shown";
    "input.write" Flag Host "type into sessions";
    "matcher.wait" Flag Host "wait for something to be shown";
    "output.filter" Flag Host "see and change output on its way out";
    "output.observe" Flag Host "see output on its way out";
    "output.raw" Flag Host "see output before secrets are masked";
    "input.filter" Flag Host "see and change what is typed";
    "agent.events" Flag Host "see what agents report of themselves";
    "approval.resolve" Flag Host "answer an agent's request for leave";
    "bus.publish" Either Host "publish topics";
    "bus.subscribe" Either Host "read topics";
    "fs.read" List Sandbox "read files outside its own directory";
    "fs.write" List Sandbox "write files outside its own data directory";
    "net.connect" Either Sandbox "connect to hosts";
    "proc.exec" Either Sandbox "run other programs";
    "proc.managed" List Host "have the host run programs for it";
    "socket.dial" List Sandbox "connect to local sockets";
    "secrets.read" List Host "read secrets";
    "secrets.mask" Flag Host "name values to be masked everywhere";
    "workspace.write" Flag Host "change files of a session's workspace";
    "ui.screen" Flag Host "show screens of its own";
    "ui.statusline" Flag Host "write in the status line";
    "ui.sidebar" Flag Host "write in the sidebar";
    "ui.clipboard" Flag Host "set the clipboard";
    "ui.notify" Flag Host "show notifications";
    "cli.namespace" List Host "add verbs to the command line";
    "tty.handoff" Flag Host "take over the terminal for a while";
    "host.action" List Host "trigger actions of the host";
    "env.inherit" List Host "see variables of the host's environment";
}

/// The row of this name.
pub fn find(name: &str) -> Option<&'static CapabilityRow> {
    CAPABILITIES.iter().find(|row| row.name == name)
}

/// What is asked of one capability, or granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged)]
pub enum Allow {
    /// All or nothing.
    Flag(bool),
    /// These only.
    List(Vec<String>),
}

impl Allow {
    /// Whether anything at all is allowed.
    pub fn any(&self) -> bool {
        match self {
            Allow::Flag(flag) => *flag,
            Allow::List(list) => !list.is_empty(),
        }
    }

    /// Whether all that `other` allows is allowed here too.
    pub fn covers(&self, other: &Allow) -> bool {
        match (self, other) {
            (_, other) if !other.any() => true,
            (Allow::Flag(all), _) => *all,
            (Allow::List(_), Allow::Flag(_)) => false,
            (Allow::List(mine), Allow::List(theirs)) => theirs.iter().all(|one| mine.contains(one)),
        }
    }

    /// The entries of a list; none for a flag.
    pub fn entries(&self) -> &[String] {
        match self {
            Allow::Flag(_) => &[],
            Allow::List(list) => list,
        }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allow::Flag(true) => f.write_str("yes"),
            Allow::Flag(false) => f.write_str("no"),
            Allow::List(list) => f.write_str(&list.join(" ")),
        }
    }
}

/// What is allowed, by the names of [`CAPABILITIES`]. The same type is a request and a grant.
pub type Allowed = BTreeMap<String, Allow>;

/// `[capabilities]`: what the plugin asks for, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Why each is needed; shown when consent is asked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reason: BTreeMap<String, String>,
    /// By name.
    #[serde(flatten)]
    pub asked: Allowed,
}

impl Capabilities {
    /// What is asked under this name, if anything.
    pub fn get(&self, name: &str) -> Option<&Allow> {
        self.asked.get(name).filter(|allow| allow.any())
    }

    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        !self.asked.values().any(Allow::any)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Capabilities {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Capabilities".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json!({"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": LIST_MAX});
        let mut properties: Map<String, Value> = CAPABILITIES
            .iter()
            .map(|row| {
                let mut schema = match row.takes {
                    Takes::Flag => json!({"type": "boolean"}),
                    Takes::List => list.clone(),
                    Takes::Either => json!({"anyOf": [{"type": "boolean"}, list]}),
                };
                schema["description"] = row.summary.into();
                (row.name.to_owned(), schema)
            })
            .collect();
        let reasons: Map<String, Value> = CAPABILITIES
            .iter()
            .map(|row| (row.name.to_owned(), json!({"type": "string"})))
            .collect();
        properties.insert(
            "reason".to_owned(),
            json!({
                "description": "Why each is needed; shown when consent is asked.",
                "type": "object", "properties": reasons, "additionalProperties": false,
            }),
        );
        schemars::json_schema!({
            "description": "What the plugin may do; what is absent is denied.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for row in CAPABILITIES {
            assert!(seen.insert(row.name), "{} twice", row.name);
            assert_eq!(find(row.name).unwrap().name, row.name);
        }
    }

    #[test]
    fn a_grant_covers_what_it_names() {
        let list = |names: &[&str]| Allow::List(names.iter().map(|n| (*n).to_owned()).collect());
        assert!(Allow::Flag(true).covers(&list(&["a"])));
        assert!(!list(&["a"]).covers(&Allow::Flag(true)));
        assert!(list(&["a", "b"]).covers(&list(&["b"])));
        assert!(!list(&["a"]).covers(&list(&["a", "b"])));
        assert!(Allow::Flag(false).covers(&list(&[])));
        assert!(!Allow::Flag(false).covers(&list(&["a"])));
    }
}
