//! The one table of hooks: what may be hooked, how a call behaves, what happens when it fails.
//!
//! Everything that needs to know a hook (manifest check, host, `plugin order`, documents) reads
//! [`HOOKS`]. Absent on purpose: payloads, which the rooms that fire a hook make.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Before the fact, one plugin after the other; may block or change.
    Gate,
    /// On a stream of lines; may replace or drop them.
    Filter,
    /// After the fact, from a queue of its own; its answer changes nothing.
    Observe,
}

/// What is done when a plugin does not answer in time, dies or answers nonsense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// As if it had said yes: fail open.
    Pass,
    /// Gate: as if it had said no.
    Block,
    /// Gate: a person decides.
    Ask,
    /// Filter: the text is shown as stars of the same width.
    Mask,
    /// Filter: nothing is shown for a while, then `hold.then`.
    Hold,
    /// Filter: the text is left out and the gap is marked. Observer: the event is lost to it.
    Drop,
    /// Filter: the sink is closed for this session.
    Seal,
}

words! { OnFailure {
    Pass "pass", Block "block", Ask "ask", Mask "mask", Hold "hold", Drop "drop", Seal "seal",
} }

words! { Class { Gate "gate", Filter "filter", Observe "observe", } }

impl Class {
    /// The policies that make sense for this class.
    pub fn policies(self) -> &'static [OnFailure] {
        use OnFailure::{Ask, Block, Drop, Hold, Mask, Pass, Seal};
        match self {
            Class::Gate => &[Pass, Block, Ask],
            Class::Filter => &[Pass, Mask, Hold, Drop, Seal],
            Class::Observe => &[Drop],
        }
    }
}

/// Where in a hook's order an entry stands; inside a stage the priority decides.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// First: takes out what nobody may see.
    Redact,
    /// Then: changes what is left.
    #[default]
    Transform,
    /// Last: only looks.
    Observe,
}

words! { Stage { Redact "redact", Transform "transform", Observe "observe", } }

/// One row of the table of hooks.
#[derive(Clone, Copy, Debug)]
pub struct HookRow {
    /// Which hook the row is about.
    pub hook: Hook,
    /// `noun.verb`.
    pub name: &'static str,
    /// How it is called.
    pub class: Class,
    /// How long one call may take unless the manifest says otherwise.
    pub deadline: Duration,
    /// What a failure means unless the manifest says otherwise.
    pub on_failure: OnFailure,
    /// The name datawatch has for it, and what a failure means under that name.
    pub datawatch: Option<DatawatchHook>,
    /// When it fires.
    pub summary: &'static str,
}

/// A hook under its datawatch name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatawatchHook {
    /// As written in `manifest.yaml` and sent in `hook`.
    pub name: &'static str,
    /// By its contract.
    pub on_failure: OnFailure,
}

macro_rules! hooks {
    ($($hook:ident $name:literal $class:ident $deadline:literal $failure:ident $datawatch:expr, $summary:literal;)*) => {
        /// What may be hooked, as a closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Hook {
            $(#[doc = $summary] $hook,)*
        }

        /// Every hook, in the order of [`Hook`].
        pub const HOOKS: &[HookRow] = &[
            $(HookRow {
                hook: Hook::$hook,
                name: $name,
                class: Class::$class,
                deadline: Duration::from_millis($deadline),
                on_failure: OnFailure::$failure,
                datawatch: $datawatch,
                summary: $summary,
            },)*
        ];
    };
}

const fn datawatch(name: &'static str, on_failure: OnFailure) -> Option<DatawatchHook> {
    Some(DatawatchHook { name, on_failure })
}

hooks! {
    SessionBefore "session.before" Gate 10_000 Block datawatch("pre_session_start", OnFailure::Pass),
        "a session is about to start; may block it or change task, project_dir, backend, effort, env, labels";
    SessionStarted "session.started" Observe 2_000 Drop None,
        "its program runs";
    OutputFilter "output.filter" Filter 250 Mask datawatch("post_session_output", OnFailure::Pass),
        "lines of output on their way to a sink; may replace or drop them";
    InputSubmit "input.submit" Gate 2_000 Block None,
        "text is about to be submitted to a session by a program; may block or change it";
    SessionState "session.state" Observe 2_000 Drop None,
        "what the agent in it does has changed";
    SessionIdle "session.idle" Observe 2_000 Drop None,
        "it has shown nothing new for a while";
    SessionTitle "session.title" Observe 2_000 Drop None,
        "its window title changed";
    SessionBeforeKill "session.before_kill" Gate 1_000 Pass None,
        "somebody asks to end it; may block that";
    SessionExited "session.exited" Observe 2_000 Drop datawatch("post_session_complete", OnFailure::Drop),
        "its program ended";
    ClientBeforeAttach "client.before_attach" Gate 2_000 Block None,
        "a client is about to attach; may block it or make it read-only";
    AgentEvent "agent.event" Observe 2_000 Drop None,
        "an agent's own hook was posted with greenroom hook";
    ApprovalRequest "approval.request" Gate 5_000 Ask None,
        "an agent asks for leave; may allow or deny, else a person is asked";
    AlertFilter "alert.filter" Gate 1_000 Pass None,
        "an alert is about to be raised; may change or drop it";
    AlertEmit "alert.emit" Observe 2_000 Drop datawatch("on_alert", OnFailure::Drop),
        "an alert was raised";
    WorktreeCreated "worktree.created" Observe 2_000 Drop None,
        "a worktree was made for a session";
    WorktreeRemoved "worktree.removed" Observe 2_000 Drop None,
        "a worktree was removed";
    PluginState "plugin.state" Observe 2_000 Drop None,
        "a plugin's state changed";
    DaemonStarted "daemon.started" Observe 2_000 Drop None,
        "the daemon serves";
}

impl Hook {
    /// The row of this hook.
    pub fn row(self) -> &'static HookRow {
        &HOOKS[self as usize]
    }

    /// `noun.verb`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How it is called.
    pub fn class(self) -> Class {
        self.row().class
    }

    /// The hook of this native name.
    pub fn from_name(name: &str) -> Option<Hook> {
        HOOKS.iter().find(|row| row.name == name).map(|row| row.hook)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hook as a manifest names it. The name decides the dialect: under its datawatch name a plugin
/// gets datawatch's payload, gives datawatch's verdicts and fails as datawatch promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HookName {
    /// What fires.
    pub hook: Hook,
    /// Named as datawatch names it.
    pub datawatch: bool,
}

impl HookName {
    /// By either name.
    pub fn parse(name: &str) -> Option<HookName> {
        let native = Hook::from_name(name).map(|hook| HookName { hook, datawatch: false });
        native.or_else(|| {
            let row = HOOKS
                .iter()
                .find(|row| row.datawatch.is_some_and(|datawatch| datawatch.name == name))?;
            Some(HookName { hook: row.hook, datawatch: true })
        })
    }

    /// As in the manifest, and in `hook` on the wire.
    pub fn name(self) -> &'static str {
        match self.hook.row().datawatch {
            Some(datawatch) if self.datawatch => datawatch.name,
            _ => self.hook.name(),
        }
    }

    /// Every name a manifest may use.
    pub fn all() -> impl Iterator<Item = &'static str> {
        let theirs = HOOKS.iter().filter_map(|row| row.datawatch).map(|datawatch| datawatch.name);
        HOOKS.iter().map(|row| row.name).chain(theirs)
    }
}

impl From<Hook> for HookName {
    fn from(hook: Hook) -> HookName {
        HookName { hook, datawatch: false }
    }
}

impl fmt::Display for HookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for HookName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for HookName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HookName, D::Error> {
        let name = String::deserialize(deserializer)?;
        HookName::parse(&name)
            .ok_or_else(|| de::Error::custom(format!("there is no hook {name:?}")))
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for HookName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HookName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "The name of a hook; datawatch's four names are known too.",
            "type": "string",
            "enum": HookName::all().collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_each_name_is_one_hook() {
        let mut seen = HashSet::new();
        for (at, row) in HOOKS.iter().enumerate() {
            assert_eq!(row.hook as usize, at);
            assert!(row.class.policies().contains(&row.on_failure), "{}", row.name);
            assert_eq!(HookName::parse(row.name), Some(row.hook.into()));
            for name in [Some(row.name), row.datawatch.map(|datawatch| datawatch.name)]
                .into_iter()
                .flatten()
            {
                assert!(seen.insert(name), "{name} twice");
                assert_eq!(HookName::parse(name).unwrap().name(), name);
            }
        }
        assert_eq!(HookName::parse("on_alrt"), None);
    }
}
