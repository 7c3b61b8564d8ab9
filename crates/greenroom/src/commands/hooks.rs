//! `greenroom hooks install`: what to add to an agent's settings.
//!
//! Only shown: settings of agents are their users' own, with comments and an order we would spoil.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::Context;
use crate::error::ExitResult;

/// Let an agent's own hooks tell plugins what it does
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom hooks install claude --print\n  greenroom hooks install codex --print"
)]
pub struct HooksArgs {
    #[command(subcommand)]
    pub verb: HooksVerb,
}

#[derive(Debug, Subcommand)]
pub enum HooksVerb {
    /// Show what to add to an agent's settings, so that it tells plugins what it does
    Install {
        /// Which agent
        agent: Agent,
        /// Print it; nothing is written
        #[arg(long, required = true)]
        print: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Agent {
    Claude,
    Codex,
}

/// Claude Code's events, and whether each is about a tool.
const CLAUDE: [(&str, bool); 9] = [
    ("SessionStart", false),
    ("UserPromptSubmit", false),
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("Notification", false),
    ("Stop", false),
    ("SubagentStop", false),
    ("PreCompact", false),
    ("SessionEnd", false),
];

pub async fn run(args: HooksArgs, context: &Context) -> ExitResult {
    let HooksVerb::Install { agent, .. } = args.verb;
    let (file, text) = match agent {
        Agent::Claude => ("~/.claude/settings.json", pretty(&claude())),
        Agent::Codex => ("~/.codex/config.toml", codex()),
    };
    let answer = json!({ "file": file, "settings": text });
    context.out.answer(&answer, || text)?;
    context.out.note(&format!("add this to {file}"));
    Ok(0)
}

fn claude() -> Value {
    let hook =
        json!({ "type": "command", "command": "greenroom hook --agent claude", "timeout": 5 });
    let mut hooks = serde_json::Map::new();
    for (event, tool) in CLAUDE {
        let mut entry = json!({ "hooks": [hook] });
        if tool {
            entry["matcher"] = json!("*");
        }
        hooks.insert(event.to_owned(), json!([entry]));
    }
    json!({ "hooks": hooks })
}

/// Codex gives its JSON as the last argument.
fn codex() -> String {
    "notify = [\"greenroom\", \"hook\", \"--agent\", \"codex\"]".to_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read() {
        let settings: Value = serde_json::from_str(&pretty(&claude())).unwrap();
        let command = &settings["hooks"]["Stop"][0]["hooks"][0]["command"];
        assert_eq!(command, "greenroom hook --agent claude");
        assert_eq!(settings["hooks"]["PreToolUse"][0]["matcher"], "*");
        let words: Vec<String> =
            serde_json::from_str(codex().strip_prefix("notify = ").unwrap()).unwrap();
        assert_eq!(words, ["greenroom", "hook", "--agent", "codex"]);
    }
}
