//! What well-known coding agents need to run at all: their own state, and the hosts of their model.
//!
//! Recognised by the program's name. Their settings stay as they are where we know which files make them run commands
//! outside. Deliberately absent: every program we have not looked at; for those there are `--allow-write` and `--allow-host`.

use std::ffi::OsStr;
use std::path::Path;

pub struct Agent {
    pub name: &'static str,
    /// Below the home directory; writable if it is there.
    pub state: &'static [&'static str],
    /// Below the home directory; read-only although it lies in `state`.
    pub fixed: &'static [&'static str],
    pub hosts: &'static [&'static str],
}

const AGENTS: &[Agent] = &[
    Agent {
        name: "claude",
        state: &[".claude", ".claude.json", ".cache/claude-cli-nodejs"],
        // Hooks and commands in these run with the user's rights in the next session outside.
        fixed: &[".claude/settings.json", ".claude/settings.local.json", ".claude/hooks"],
        hosts: &[
            "api.anthropic.com",
            "claude.ai",
            "platform.claude.com",
            "console.anthropic.com",
            "statsig.anthropic.com",
        ],
    },
    Agent {
        name: "codex",
        state: &[".codex"],
        fixed: &[".codex/config.toml", ".codex/hooks.json"],
        hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
    },
    Agent {
        name: "gemini",
        state: &[".gemini"],
        fixed: &[".gemini/settings.json"],
        hosts: &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
        ],
    },
    Agent {
        name: "aider",
        state: &[".aider"],
        fixed: &[".aider.conf.yml"],
        hosts: &["api.anthropic.com", "api.openai.com", "openrouter.ai"],
    },
];

/// The agent this program is.
pub fn of(program: &OsStr) -> Option<&'static Agent> {
    let name = Path::new(program).file_name()?.to_str()?;
    AGENTS.iter().find(|agent| agent.name == name)
}
