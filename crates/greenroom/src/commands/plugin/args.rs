//! The arguments of `greenroom plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Plugins: programs that take part in every session, and what they may do
#[derive(Debug, Args)]
#[command(
    visible_alias = "plugins",
    after_help = "Examples:\n  greenroom plugin list\n  greenroom plugin new redact --lang python\n  greenroom plugin add ./guard\n  greenroom plugin test my-filter post_session_output '{\"line\":\"hello\"}'\n  greenroom plugin order output.filter\n\nPlugins are off until plugins.enabled = true in the configuration."
)]
pub struct PluginArgs {
    #[command(subcommand)]
    pub verb: PluginVerb,
}

#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// List plugins: what they hook, their state, what they have done
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  greenroom plugin list\n  greenroom plugins list --json"
    )]
    List,
    /// Describe one plugin: hooks as they act, grants, statistics
    #[command(
        visible_alias = "get",
        after_help = "Examples:\n  greenroom plugin info my-filter\n  greenroom plugin info my-filter --json"
    )]
    Info(PluginName),
    /// Copy a plugin into the store and ask whether it may run
    #[command(
        after_help = "Examples:\n  greenroom plugin add ./guard\n  greenroom plugin add guard-1.4.tar.gz\n  greenroom plugin add https://example.com/guard.git#v1.4\n\nWithout a terminal nobody is asked: exit code 4, and greenroom plugin grant\n  NAME agrees. Exit code 5: you said no."
    )]
    Add {
        /// A directory, a .tar, .tar.gz or .tgz file, or an https:// repository
        #[arg(value_hint = ValueHint::AnyPath)]
        source: String,
    },
    /// Run a plugin where it lies, whatever lies there (for whoever writes it)
    #[command(after_help = "Examples:\n  greenroom plugin link ./guard")]
    Link {
        /// Its directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Forget a plugin that was added or linked
    #[command(visible_alias = "rm", after_help = "Examples:\n  greenroom plugin remove guard")]
    Remove(PluginName),
    /// Agree to a plugin, bound to the bytes it has now
    #[command(
        after_help = "Examples:\n  greenroom plugin grant guard\n  greenroom plugin grant guard --only screen.read,net.connect=a.example.com:443"
    )]
    Grant {
        /// Its name
        name: String,
        /// Only these capabilities: NAME or NAME=VALUE
        #[arg(long, value_name = "CAP,…", value_delimiter = ',')]
        only: Vec<String>,
        /// Only if its files have this digest
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
    },
    /// Take an agreement back
    #[command(after_help = "Examples:\n  greenroom plugin revoke guard")]
    Revoke(PluginName),
    /// List plugins that wait for consent, with what there is to agree to
    #[command(after_help = "Examples:\n  greenroom plugin pending")]
    Pending,
    /// Let a plugin take part again
    #[command(after_help = "Examples:\n  greenroom plugin enable my-filter")]
    Enable(PluginName),
    /// Keep a plugin from taking part
    #[command(after_help = "Examples:\n  greenroom plugin disable my-filter")]
    Disable(PluginName),
    /// Look at the files again; your own scripts are taken as they are now
    #[command(
        after_help = "Examples:\n  greenroom plugin reload\n  greenroom plugin reload my-filter"
    )]
    Reload(PluginMaybe),
    /// Ask a plugin by hand and print its answer
    #[command(
        after_help = "Examples:\n  greenroom plugin test my-filter post_session_output '{\"line\":\"hello\"}'\n  greenroom plugin test guard session.before -"
    )]
    Test {
        /// Its name
        name: String,
        /// The hook, such as output.filter or post_session_output
        hook: String,
        /// What the hook tells, as a JSON object; - reads it from stdin
        #[arg(value_name = "JSON", default_value = "{}")]
        payload: String,
    },
    /// In which order the plugins of a hook are asked, and why
    #[command(after_help = "Examples:\n  greenroom plugin order output.filter")]
    Order {
        /// The hook, such as output.filter
        hook: String,
    },
    /// Calls, errors, times and drops
    #[command(
        after_help = "Examples:\n  greenroom plugin stats\n  greenroom plugin stats my-filter --json"
    )]
    Stats(PluginMaybe),
    /// What a plugin said on stderr, and what was noted about it
    #[command(
        after_help = "Examples:\n  greenroom plugin logs my-filter\n  greenroom plugin logs my-filter -n 20"
    )]
    Logs {
        /// Its name
        name: String,
        /// How many lines from the end
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
        lines: u32,
    },
    /// Check a manifest: mistakes with their place, and what is doubtful
    #[command(
        after_help = "Examples:\n  greenroom plugin lint ./guard\n  greenroom plugin lint plugin.toml --strict\n\nExit code 1: mistakes; with --strict also for warnings."
    )]
    Lint(PluginLintArgs),
    /// Write a foreign manifest in the native form
    #[command(
        after_help = "Examples:\n  greenroom plugin convert ./my-filter\n  greenroom plugin convert ./my-filter --write"
    )]
    Convert(PluginConvertArgs),
    /// Run a plugin's program once from its directory, without the host
    #[command(
        after_help = "Examples:\n  greenroom plugin run ./guard output.filter '{\"line\":\"sk-123\"}'\n\nNothing confines it: it runs as you."
    )]
    Run(PluginRunArgs),
    /// Write a plugin that works, to begin with
    #[command(
        after_help = "Examples:\n  greenroom plugin new redact\n  greenroom plugin new guard --lang python --hook session.before"
    )]
    New(PluginNewArgs),
}

#[derive(Debug, Args)]
pub struct PluginName {
    /// Its name
    pub name: String,
}

#[derive(Debug, Args)]
pub struct PluginMaybe {
    /// Only this one
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct PluginLintArgs {
    /// A plugin's directory or its manifest
    #[arg(value_hint = ValueHint::AnyPath, default_value = ".")]
    pub path: PathBuf,
    /// Warnings count as mistakes
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Args)]
pub struct PluginConvertArgs {
    /// A plugin's directory or its manifest
    #[arg(value_hint = ValueHint::AnyPath, default_value = ".")]
    pub path: PathBuf,
    /// Write plugin.toml beside it instead of printing it
    #[arg(long)]
    pub write: bool,
}

#[derive(Debug, Args)]
pub struct PluginRunArgs {
    /// Its directory
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// The hook
    pub hook: String,
    /// What the hook tells, as a JSON object; - reads it from stdin
    #[arg(value_name = "JSON", default_value = "{}")]
    pub payload: String,
}

#[derive(Debug, Args)]
pub struct PluginNewArgs {
    /// Its name, and that of the directory made for it
    pub name: String,
    /// In which language
    #[arg(long, value_enum, default_value_t = Lang::Sh)]
    pub lang: Lang,
    /// What it takes part in
    #[arg(long, value_enum, default_value_t = Face::Hook)]
    pub face: Face,
    /// Which hook
    #[arg(long, value_name = "HOOK", default_value = "output.filter")]
    pub hook: String,
    /// Where to make the directory [default: here]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub into: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    Sh,
    Python,
    Rust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Face {
    Hook,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::cli::Cli;

    /// Every verb has an example, each parses, and help fits 80 columns.
    #[test]
    fn examples_parse_and_help_fits() {
        let mut command = Cli::command();
        command.build();
        let plugin = command.find_subcommand_mut("plugin").unwrap();
        for verb in plugin.get_subcommands_mut() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().filter(|line| line.starts_with("  greenroom ")).collect();
            assert!(!examples.is_empty(), "{} has no example", verb.get_name());
            for example in examples {
                // The only quotes here are around the last word.
                let (words, last) = example.trim().split_once('\'').unwrap_or((example.trim(), ""));
                let last = last.trim_end_matches('\'');
                let words = words.split_whitespace().chain((!last.is_empty()).then_some(last));
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{example}: {error}");
                }
            }
            for line in verb.render_long_help().to_string().lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
