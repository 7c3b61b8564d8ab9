//! What well-known coding agents need to run at all: state of their own, and the hosts of their
//! model.
//!
//! One table: the agent, where it keeps its state, and what each part of that is to a session
//! inside. An agent inside writes a private tree, never the user's: nothing it plants there (hooks,
//! servers, instructions, permissions) is read by an agent outside. Only fresher tokens of a login
//! come back ([`logins`]). Deliberately absent: every program we have not looked at; its state is
//! read-only, and for those there are `--allow-write` and `--allow-host`.

pub mod believed;
mod copy;
pub mod logins;
pub mod private;
pub mod project;
mod recognise;

pub use logins::Shape;
pub use recognise::among;

pub struct Agent {
    pub name: &'static str,
    /// What its program may be called.
    pub programs: &'static [&'static str],
    /// What it is called where it is installed from.
    pub packages: &'static [&'static str],
    pub homes: &'static [StateHome],
    pub hosts: &'static [&'static str],
    /// Right in the user's home, besides its state: what the agent believes wherever it is started.
    pub user: &'static [&'static str],
    /// In a project's directory: settings that the agent believes when it is started there.
    pub project: &'static [Setting],
}

/// Settings in a project's directory.
pub enum Setting {
    /// Made first where it is missing and the user has the agent: git does not see an empty
    /// directory.
    Dir(&'static str),
    /// Only fixed where it is there: an empty one would be a change to the project.
    File(&'static str),
}

impl Setting {
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Dir(name) | Setting::File(name) => name,
        }
    }
}

/// A directory in which an agent keeps its state.
pub struct StateHome {
    /// Below the user's home.
    pub path: &'static str,
    /// By which the agent is told another place.
    pub variable: Option<Variable>,
    /// A file of state that lies beside the directory; in it, if the variable is set.
    pub beside: Option<(&'static str, Kind)>,
    /// What is not [`Kind::Own`].
    pub entries: &'static [(&'static str, Kind)],
}

pub enum Variable {
    /// Names the directory itself.
    Names(&'static str),
    /// Names the directory it lies in.
    NamesParent(&'static str),
}

impl Variable {
    pub fn name(&self) -> &'static str {
        match self {
            Variable::Names(name) | Variable::NamesParent(name) => name,
        }
    }
}

/// What an entry of a state directory is to a session inside.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The agent's own: taken over once if it is small, then private, and kept between sessions. So
    /// is what nobody listed.
    Own,
    /// As `Own`, but begins empty: caches, logs, what belongs to running processes or to other
    /// projects.
    Empty,
    /// As `Own`, of which only the part of the session's directory is taken over.
    Conversations,
    /// The user's settings: a file is copied anew at each start, a directory is seen read-only.
    /// What the agent makes of it inside is gone at the next start.
    Fixed,
    /// As `Fixed`, for a file in which something must be different inside.
    Adapted(fn(&str) -> String),
    /// A JSON file of state and settings: at each start what the user's has comes over what the
    /// private one has.
    Merged(&'static Merging),
    /// A login. The user's at each start; tokens that were refreshed inside come back.
    Login(&'static Shape),
}

/// How two versions of a JSON file become one.
pub struct Merging {
    /// Keys, there and in each object of `each`, that run or allow something: only the user's
    /// count.
    pub only_users: &'static [&'static str],
    /// An object whose objects are merged one by one.
    pub each: &'static str,
}

const CLAUDE_STATE: Merging = Merging {
    only_users: &[
        "mcpServers",
        "apiKeyHelper",
        "env",
        "allowedTools",
        "mcpContextUris",
        "enabledMcpjsonServers",
        "enableAllProjectMcpServers",
        "hooks",
        "permissions",
        "statusLine",
    ],
    each: "projects",
};

const AGENTS: &[Agent] = &[
    Agent {
        name: "claude",
        programs: &["claude", "claude-code"],
        packages: &["@anthropic-ai/claude-code"],
        homes: &[
            StateHome {
                path: ".claude",
                variable: Some(Variable::Names("CLAUDE_CONFIG_DIR")),
                beside: Some((".claude.json", Kind::Merged(&CLAUDE_STATE))),
                entries: &[
                    (".credentials.json", Kind::Login(&logins::CLAUDE)),
                    ("settings.json", Kind::Fixed),
                    ("settings.local.json", Kind::Fixed),
                    ("remote-settings.json", Kind::Fixed),
                    ("policy-limits.json", Kind::Fixed),
                    ("managed-settings.json", Kind::Fixed),
                    ("keybindings.json", Kind::Fixed),
                    ("CLAUDE.md", Kind::Fixed),
                    ("rules", Kind::Fixed),
                    ("hooks", Kind::Fixed),
                    ("plugins", Kind::Fixed),
                    ("skills", Kind::Fixed),
                    ("commands", Kind::Fixed),
                    ("agents", Kind::Fixed),
                    ("output-styles", Kind::Fixed),
                    ("themes", Kind::Fixed),
                    ("workflows", Kind::Fixed),
                    ("local", Kind::Fixed),
                    ("projects", Kind::Conversations),
                    ("history.jsonl", Kind::Empty),
                    ("sessions", Kind::Empty),
                    ("session-env", Kind::Empty),
                    ("file-history", Kind::Empty),
                    ("paste-cache", Kind::Empty),
                    ("shell-snapshots", Kind::Empty),
                    ("todos", Kind::Empty),
                    ("tasks", Kind::Empty),
                    ("teams", Kind::Empty),
                    ("debug", Kind::Empty),
                    ("cache", Kind::Empty),
                    ("backups", Kind::Empty),
                    ("telemetry", Kind::Empty),
                    ("statsig", Kind::Empty),
                    ("ide", Kind::Empty),
                    ("chrome", Kind::Empty),
                    ("downloads", Kind::Empty),
                ],
            },
            StateHome {
                path: ".cache/claude-cli-nodejs",
                variable: None,
                beside: None,
                entries: &[],
            },
        ],
        hosts: &[
            "api.anthropic.com",
            "claude.ai",
            "platform.claude.com",
            "console.anthropic.com",
            "statsig.anthropic.com",
        ],
        user: &[],
        project: &[Setting::Dir(".claude")],
    },
    Agent {
        name: "codex",
        programs: &["codex"],
        packages: &["@openai/codex"],
        homes: &[StateHome {
            path: ".codex",
            variable: Some(Variable::Names("CODEX_HOME")),
            beside: None,
            entries: &[
                ("auth.json", Kind::Login(&logins::CODEX)),
                (".credentials.json", Kind::Login(&logins::CODEX_SERVERS)),
                ("config.toml", Kind::Adapted(without_own_sandbox)),
                ("managed_config.toml", Kind::Fixed),
                ("requirements.toml", Kind::Fixed),
                ("hooks.json", Kind::Fixed),
                ("hooks", Kind::Fixed),
                ("AGENTS.md", Kind::Fixed),
                ("AGENTS.override.md", Kind::Fixed),
                ("instructions.md", Kind::Fixed),
                ("prompts", Kind::Fixed),
                ("skills", Kind::Fixed),
                ("agents", Kind::Fixed),
                ("rules", Kind::Fixed),
                ("plugins", Kind::Fixed),
                ("themes", Kind::Fixed),
                ("packages", Kind::Fixed),
                ("sessions", Kind::Empty),
                ("archived_sessions", Kind::Empty),
                ("history.jsonl", Kind::Empty),
                ("shell_snapshots", Kind::Empty),
                ("memories", Kind::Empty),
                ("worktrees", Kind::Empty),
                ("app-server", Kind::Empty),
                ("log", Kind::Empty),
                ("tmp", Kind::Empty),
                (".tmp", Kind::Empty),
            ],
        }],
        hosts: &["api.openai.com", "auth.openai.com", "chatgpt.com"],
        user: &[".agents"],
        project: &[Setting::Dir(".codex")],
    },
    Agent {
        name: "gemini",
        programs: &["gemini"],
        packages: &["@google/gemini-cli"],
        homes: &[StateHome {
            path: ".gemini",
            variable: Some(Variable::NamesParent("GEMINI_CLI_HOME")),
            beside: None,
            entries: &[
                ("oauth_creds.json", Kind::Login(&logins::GOOGLE)),
                ("mcp-oauth-tokens.json", Kind::Fixed),
                ("settings.json", Kind::Fixed),
                ("trustedFolders.json", Kind::Fixed),
                ("GEMINI.md", Kind::Fixed),
                ("AGENTS.md", Kind::Fixed),
                (".env", Kind::Fixed),
                ("memory.md", Kind::Fixed),
                ("commands", Kind::Fixed),
                ("extensions", Kind::Fixed),
                ("skills", Kind::Fixed),
                ("agents", Kind::Fixed),
                ("hooks", Kind::Fixed),
                ("policies", Kind::Fixed),
                ("tmp", Kind::Empty),
                ("history", Kind::Empty),
                ("antigravity", Kind::Empty),
            ],
        }],
        hosts: &[
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
        ],
        user: &[".agents"],
        project: &[Setting::Dir(".gemini")],
    },
    Agent {
        name: "aider",
        programs: &["aider"],
        packages: &["aider-chat"],
        homes: &[StateHome {
            path: ".aider",
            variable: None,
            beside: None,
            entries: &[("caches", Kind::Empty), ("oauth-keys.env", Kind::Fixed)],
        }],
        hosts: &["api.anthropic.com", "api.openai.com", "openrouter.ai"],
        user: &[".aider.conf.yml", ".aider.model.settings.yml", ".env"],
        project: &[Setting::File(".aider.conf.yml"), Setting::File(".aider.model.settings.yml")],
    },
];

/// Codex runs commands in a sandbox of its own, which cannot be made inside of another; this one
/// holds them. A user who asked for less than writing in the project is not given more.
fn without_own_sandbox(config: &str) -> String {
    let mode = config
        .parse::<toml::Table>()
        .ok()
        .and_then(|table| Some(table.get("sandbox_mode")?.as_str().unwrap_or_default().to_owned()));
    if mode.is_some_and(|mode| mode != "workspace-write") {
        return config.to_owned();
    }
    let mut top = true;
    let kept = config.lines().filter(|line| {
        top &= !line.trim_start().starts_with('[');
        !(top && line.trim_start().starts_with("sandbox_mode"))
    });
    let lines: Vec<&str> =
        ["sandbox_mode = \"danger-full-access\""].into_iter().chain(kept).collect();
    lines.join("\n") + "\n"
}

impl StateHome {
    pub fn kind(&self, entry: &str) -> Kind {
        let known = self.entries.iter().find(|(name, _)| *name == entry);
        // A database that somebody writes is not copied by reading it, and knows other directories'
        // conversations.
        let unknown = if entry.contains(".sqlite") { Kind::Empty } else { Kind::Own };
        known.map_or(unknown, |(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_leaves_the_fence_to_this_one() {
        let mode = |config: &str| {
            let table: toml::Table = without_own_sandbox(config).parse().unwrap();
            table["sandbox_mode"].as_str().unwrap().to_owned()
        };
        assert_eq!(mode(""), "danger-full-access");
        assert_eq!(mode("sandbox_mode = \"read-only\"\n"), "read-only");
        let usual = "model = \"x\"\nsandbox_mode = \"workspace-write\"\n[profiles.a]\nsandbox_mode = \"read-only\"\n";
        assert_eq!(mode(usual), "danger-full-access");
        let table: toml::Table = without_own_sandbox(usual).parse().unwrap();
        assert_eq!(table["profiles"]["a"]["sandbox_mode"].as_str(), Some("read-only"));
        assert_eq!(table["model"].as_str(), Some("x"));
    }
}
