//! The command line as a tree of types. Doc comments here are the help texts.
//!
//! In: the arguments. Out: a [`Verb`] for `commands`, or clap's own error (exit code 2).
//! Absent on purpose: what a verb does; flags of later versions (an unknown flag is an error, a
//! flag that does nothing would be a lie).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCandidates;
use greenroom_protocol::api::session::SessionState;

mod control;
mod notice;
mod parse;
pub mod plugin;
mod session;
mod surfaces;

use crate::commands::candidates::run_candidates;
use crate::commands::completions::{ended_candidates, live_candidates, session_candidates};
pub use control::{AttachArgs, HelpArgs, KillArgs, NewArgs, ReloadArgs, RmArgs, ShutdownArgs};
pub use notice::{
    Agent, AlertArgs, ApprovalArgs, ApprovalVerb, DecisionArgs, HookArgs, HooksArgs, HooksVerb,
    Severity,
};
pub use parse::parse_time;
use parse::{parse_pair, parse_size, parse_speed, parse_until};
pub use session::{
    Level, RedactArgs, RedactVerb, SandboxArgs, SandboxVerb, SessionArgs, WorktreeArgs,
    WorktreeVerb,
};
pub use surfaces::{McpArgs, WebArgs};

/// Hosts the terminals of your coding agents and shells.
///
/// Sessions outlive crashes and upgrades of the host, and every byte of them is kept.
/// The host is started in the background on first use.
#[derive(Debug, Parser)]
#[command(
    name = "greenroom",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = "Examples:\n  greenroom demo                      see everything at work, in under a minute\n  greenroom new --name work --attach  a shell that survives; detach with Ctrl-b d\n  greenroom ls                        what is running\n  greenroom help new                  all about one verb\n  greenroom shutdown                  end everything\n\nA session is named by id (s3), by name, or by an unambiguous prefix.\nExit codes: 0 ok, 1 failed, 2 usage, 3 timeout, 4 needs input, 5 denied,\n  6 not found or already ended, 7 host unavailable, 70 our bug."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Answer in JSON: one document, or one per line
    #[arg(long, global = true, help_heading = "Global options", display_order = 900)]
    pub json: bool,
    /// Do not start the background host (exit code 7 if it is not there)
    #[arg(long, global = true, help_heading = "Global options", display_order = 901)]
    pub no_start: bool,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a session and print its id
    #[command(
        after_help = "Examples:\n  greenroom new\n  greenroom new --name build --cwd ~/src/app -- make -j8\n  greenroom new -A work\n  greenroom new --attach --env RUST_LOG=debug --label team=core -- claude\n  greenroom new --worktree feat-auth --sandbox --timeout 90m -- claude\n  greenroom new --worktree feat-x --sandbox --dry-run\n  id=$(greenroom new -- bash -c 'echo hi')\n\nThe program stands behind --. Without --name the session is called after its\n  worktree or program: bash, make-2. A name is free again once its session has\n  ended; on a terminal the name is printed beside the id."
    )]
    New(NewArgs),
    /// List sessions
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  greenroom ls\n  greenroom ls --json\n  greenroom ls --state running --label team=core"
    )]
    Ls(LsArgs),
    /// Describe one session
    #[command(
        after_help = "Examples:\n  greenroom info s3\n  greenroom info build --json\n  greenroom info s3 --explain"
    )]
    Info(InfoArgs),
    /// Give a session another name
    #[command(after_help = "Examples:\n  greenroom rename s3 build")]
    Rename(RenameArgs),
    /// Remove ended sessions and their recordings
    #[command(
        after_help = "Examples:\n  greenroom rm s3\n  greenroom rm s3 s4 build\n  greenroom rm --ended\n  greenroom rm --ended --label team=core\n\nEach is tried; the exit code is the worst of them."
    )]
    Rm(RmArgs),
    /// Use a session's terminal; detach with Ctrl-b d
    #[command(
        after_help = "Examples:\n  greenroom attach s3\n  greenroom attach\n  greenroom attach build --read-only\n  greenroom attach s3 --prefix ctrl-a\n\nKeys: the prefix, then d or q detaches; the prefix twice sends it to the session."
    )]
    Attach(AttachArgs),
    /// Type text into a session
    #[command(
        after_help = "Examples:\n  greenroom send s3 'ls -l' --enter\n  greenroom send s3 --paste --enter \"$(cat prompt.md)\"\n  git diff | greenroom send s3 - --paste --enter"
    )]
    Send(SendArgs),
    /// Press keys in a session
    #[command(
        after_help = "Examples:\n  greenroom key s3 enter\n  greenroom key s3 ctrl-c\n  greenroom key s3 up up shift-tab f5 alt-x"
    )]
    Key(KeyArgs),
    /// Read a session's screen or its output
    #[command(
        after_help = "Examples:\n  greenroom read s3\n  greenroom read s3 --since 0 --json\n  greenroom read s3 --transcript --max-bytes 4000\n  greenroom read s3 --ansi\n  greenroom read s3 --scrollback\n  greenroom read s3 --scrollback 200"
    )]
    Read(ReadArgs),
    /// Wait until something holds in a session
    #[command(
        after_help = "Examples:\n  greenroom wait s3 --until exit\n  greenroom wait s3 --until stable=500 --timeout 2m\n  greenroom wait s3 --until 'text=tests? passed' --until exit\n  greenroom wait s3 --until state=exited\n\nSeveral conditions: the first that holds. Exit codes: 0 matched, 3 timeout,\n  4 the session needs input, 6 the session ended first."
    )]
    Wait(WaitArgs),
    /// Read the event log as JSON lines
    #[command(
        after_help = "Examples:\n  greenroom events\n  greenroom events --follow\n  greenroom events --since 120 --session s3\n  greenroom events --follow --kind 'session.*'"
    )]
    Events(EventsArgs),
    /// End sessions: HUP, TERM, then KILL, to all they started
    #[command(
        after_help = "Examples:\n  greenroom kill s3\n  greenroom kill api web s7\n  greenroom kill --all\n  greenroom kill --label team=core\n  greenroom kill s3 --signal INT --grace 10s\n\nSeveral are ended at once; each is tried, and the exit code is the worst of them."
    )]
    Kill(KillArgs),
    /// Write a session's recording as asciicast v3
    #[command(
        after_help = "Examples:\n  greenroom record s3 > s3.cast\n  greenroom record s3 --output s3.cast\n  greenroom record s3 --text > s3.txt"
    )]
    Record(RecordArgs),
    /// Play a recording: a session's own, or an asciicast file
    #[command(
        after_help = "Examples:\n  greenroom replay s3\n  greenroom replay s3.cast --speed 2 --idle-limit 1s\n  greenroom replay s3 --at 90s\n\nKeys on a terminal: space pauses, left and right seek 5 s, up and down change\n  the speed, q quits."
    )]
    Replay(ReplayArgs),
    /// Run a team of sessions from a connector file
    #[command(
        args_conflicts_with_subcommands = true,
        subcommand_negates_reqs = true,
        after_help = "Examples:\n  greenroom run pipeline.json\n  greenroom run review.connector.json --dry-run\n  greenroom run pipeline.json --only plan --only build\n  greenroom run pipeline.json --detach\n  greenroom run --resume last\n  greenroom run ls\n  greenroom run show r3\n  greenroom run stop last\n\nEach worker is an ordinary session: attach to it, read it, wait for it.\nThe run belongs to the host and goes on without this terminal; Ctrl-C asks once\n  and then stops it. Exit codes: 0 all went well, 1 a worker failed or the run was\n  stopped, 2 the file is wrong. A file called ls, show or stop is ./ls. The verb schema prints its format: schema connector."
    )]
    Run(RunArgs),
    /// Run the host in the foreground
    #[command(
        after_help = "Examples:\n  greenroom serve\n  greenroom serve --name work -- bash\n  greenroom serve --worktree feat-x --sandbox\n  greenroom serve --stdio\n  greenroom serve --stdio --shared\n  greenroom serve --http 127.0.0.1:7878\n\nWith a command or session options it starts that session and ends with it.\n--stdio speaks the API on stdin and stdout with a private host that ends at the\n  end of stdin; with --shared it speaks for the background host."
    )]
    Serve(ServeArgs),
    /// Plugins: programs that take part in every session, and what they may do
    #[command(
        visible_alias = "plugins",
        after_help = "Examples:\n  greenroom plugin list\n  greenroom plugin new redact --lang python\n  greenroom plugin add ./guard\n  greenroom plugin test my-filter post_session_output '{\"line\":\"hello\"}'\n  greenroom plugin order output.filter\n\nPlugins are off until plugins.enabled = true in the configuration."
    )]
    Plugin(plugin::PluginArgs),
    /// Worktrees of sessions: look at their work, merge it, remove what holds none
    #[command(
        after_help = "Examples:\n  greenroom worktree ls\n  cd \"$(greenroom worktree path feat-x)\"\n  greenroom worktree diff feat-x --stat\n  greenroom worktree merge feat-x feat-y\n  greenroom worktree rm feat-x\n  greenroom worktree clean --dry-run\n\nA worktree is removed only if nothing in it is modified, untracked or stashed, and\n  every commit can be reached from elsewhere. Exit code 1: one could not be looked at."
    )]
    Worktree(WorktreeArgs),
    /// What the sandbox enforces on this machine
    #[command(
        after_help = "Examples:\n  greenroom sandbox doctor\n  greenroom sandbox explain --allow-host api.example.com\n  greenroom sandbox explain --worktree feat-x -- claude\n\ndoctor exits 1 if level full cannot be enforced here."
    )]
    Sandbox(SandboxArgs),
    /// What would be masked in a text, and by which rule
    #[command(
        after_help = "Examples:\n  greenroom redact test build.log\n  git diff | greenroom redact test -\n  greenroom redact test build.log --show\n  greenroom redact rules\n\nThe file goes to the host of this machine and is not kept. Exit codes of test: 0\n  something would be masked, 1 nothing would."
    )]
    Redact(RedactArgs),
    /// Serve HTTP on this machine: REST, WebSocket, MCP; print where and the token
    #[command(
        after_help = "Examples:\n  greenroom web\n  greenroom web --json\n  greenroom web --json | jq -r '\"Authorization: Bearer \" + .token' |\n    curl -H @- http://127.0.0.1:7878/api/sessions"
    )]
    Web(WebArgs),
    /// Speak MCP on stdin and stdout: sessions as tools of an agent
    #[command(
        after_help = "Examples:\n  greenroom mcp\n  claude mcp add greenroom -- greenroom mcp"
    )]
    Mcp(McpArgs),
    /// Replace the running host with this or another binary; sessions go on
    #[command(
        after_help = "Examples:\n  greenroom upgrade\n  greenroom upgrade --binary ./target/release/greenroom"
    )]
    Upgrade(UpgradeArgs),
    /// Check this machine and the host, and say how to fix what is wrong
    #[command(after_help = "Examples:\n  greenroom doctor\n  greenroom doctor --json")]
    Doctor(DoctorArgs),
    /// Process ids, uptime, counts and memory of the host
    #[command(
        after_help = "Examples:\n  greenroom stats\n  greenroom stats daemon_pid\n  kill -9 \"$(greenroom stats daemon_pid)\"\n  greenroom stats --json"
    )]
    Stats(StatsArgs),
    /// Raise an alert: an event, hooks, notifications
    #[command(
        after_help = "Examples:\n  greenroom alert \"the build is red\" --severity error\n  make test || greenroom alert \"tests fail\" --session api"
    )]
    Alert(AlertArgs),
    /// Decide what plugins leave to a person
    #[command(
        after_help = "Examples:\n  greenroom approval list\n  greenroom approval allow a1\n  greenroom approval deny a2 --reason \"not on main\""
    )]
    Approval(ApprovalArgs),
    /// For agents: tell the host what a hook of theirs was told (JSON on stdin)
    #[command(
        after_help = "Examples:\n  greenroom hooks install claude --print\n  echo '{\"hook_event_name\":\"Stop\"}' | greenroom hook --agent claude\n\nPrints nothing and exits 0 whatever happens: an agent must not notice."
    )]
    Hook(HookArgs),
    /// Let an agent's own hooks tell plugins what it does
    #[command(
        after_help = "Examples:\n  greenroom hooks install claude --print\n  greenroom hooks install codex --print"
    )]
    Hooks(HooksArgs),
    /// Show the host's log
    #[command(
        after_help = "Examples:\n  greenroom logs\n  greenroom logs -f\n  greenroom logs -n 200 --json"
    )]
    Logs(LogsArgs),
    /// Print a completion script; it completes live session names
    #[command(
        after_help = "Examples:\n  source <(greenroom completions bash)\n  greenroom completions zsh > ~/.zfunc/_greenroom\n  greenroom completions fish | source"
    )]
    Completions(CompletionsArgs),
    /// Print the manual, or write a page for each verb
    #[command(
        after_help = "Examples:\n  greenroom man | man -l -\n  greenroom man ~/.local/share/man/man1"
    )]
    Man(ManArgs),
    /// Print every method of the API as JSON Schema, or the format of connector files
    #[command(
        after_help = "Examples:\n  greenroom schema\n  greenroom schema session.create\n  greenroom schema connector > connector.schema.json"
    )]
    Schema(SchemaArgs),
    /// Watch a session survive kill -9: no terminal, network or key needed
    #[command(after_help = "Examples:\n  greenroom demo\n  greenroom demo --json")]
    Demo(DemoArgs),
    /// Read the settings again; sessions and the host go on
    #[command(
        after_help = "Examples:\n  greenroom reload\n  greenroom reload --json\n\nSays what changed, and what holds only after an upgrade. A file with mistakes\n  changes nothing: each is told with its line, and the exit code is 1.\nA SIGHUP to the host does the same."
    )]
    Reload(ReloadArgs),
    /// End every session and stop the background host
    #[command(
        after_help = "Examples:\n  greenroom shutdown\n  greenroom shutdown --if-idle\n\nWhere no host runs there is nothing to do: exit code 0."
    )]
    Shutdown(ShutdownArgs),
    /// Print the help of a verb, or this list
    #[command(
        after_help = "Examples:\n  greenroom help\n  greenroom help new\n  greenroom help plugin add"
    )]
    Help(HelpArgs),
}

#[derive(Debug, Args)]
pub struct LsArgs {
    /// Only sessions in this state (repeatable)
    #[arg(long, value_name = "STATE", value_parser = ["starting", "running", "exited", "failed", "lost"])]
    pub state: Vec<String>,
    /// Only sessions with this label (repeatable)
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    pub label: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Say how each setting came about
    #[arg(long)]
    pub explain: bool,
}

/// One session.
#[derive(Clone, Debug, Args)]
pub struct SessionArg {
    /// Id, name or unambiguous prefix
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(session_candidates))]
    pub session: String,
}

#[derive(Debug, Args)]
pub struct RenameArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// The new name
    pub name: String,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// What to type; - reads it from stdin, -- before it if it begins with -
    pub text: String,
    /// Press Enter after it
    #[arg(long)]
    pub enter: bool,
    /// As a paste: bracketed if the program asked for that
    #[arg(long)]
    pub paste: bool,
}

#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Keys in order: enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab, a…
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ReadArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// The screen as it is now (the default)
    #[arg(long, conflicts_with = "transcript")]
    pub screen: bool,
    /// The output
    #[arg(long)]
    pub transcript: bool,
    /// Output from this sequence number on (alone: implies --transcript)
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
    /// With colours and other escape sequences
    #[arg(long, conflicts_with = "text")]
    pub ansi: bool,
    /// Plain text (the default)
    #[arg(long)]
    pub text: bool,
    /// At most this much of the output
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<u64>,
    /// For how long to wait for filters that are behind: 30s if left out
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    /// The last N lines above the screen, too; without N all that are kept
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "10000",
        value_parser = clap::value_parser!(u64).range(1..=10_000),
        conflicts_with_all = ["transcript", "since", "ansi", "max_bytes"]
    )]
    pub scrollback: Option<u64>,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// exit, success (exit with status 0, else 1), stable[=MS], text=REGEX or state=NAME (repeatable: the first that holds)
    #[arg(long, value_name = "COND", required = true, value_parser = parse_until)]
    pub until: Vec<Until>,
    /// For how long: 500ms, 30s, 2m, 1h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub timeout: Duration,
    /// Text must come from output after this sequence number
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
}

/// A condition of `wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    Exit,
    Success,
    Stable(u64),
    Text(String),
    State(SessionState),
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Go on with what happens next
    #[arg(short, long)]
    pub follow: bool,
    /// Events after this id [default: all that are kept; with --follow only new ones]
    #[arg(long, value_name = "N")]
    pub since: Option<u64>,
    /// Only about this session (repeatable)
    #[arg(long, value_name = "SESSION", add = ArgValueCandidates::new(session_candidates))]
    pub session: Vec<String>,
    /// Only of this kind, such as session.exited or session.* (repeatable)
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
}

#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// Write it to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Plain text instead of asciicast
    #[arg(long)]
    pub text: bool,
    /// For how long to wait for filters that are behind; without it as long as they get on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A session, an asciicast file (v2 or v3), or - for stdin
    #[arg(value_name = "SESSION|FILE", value_hint = ValueHint::FilePath, add = ArgValueCandidates::new(session_candidates))]
    pub source: String,
    /// Play this much faster; 0 = at once
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_speed)]
    pub speed: f64,
    /// Start here: 90s, 2m
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<Duration>,
    /// Cut pauses down to this
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub idle_limit: Option<Duration>,
    /// For how long to wait for filters that are behind; without it as long as they get on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(subcommand)]
    pub verb: Option<RunVerb>,
    /// The connector file, or - for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    /// Go on with a run that failed, or the last: what succeeded is not done again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["dry_run", "only"])]
    pub resume: Option<String>,
    /// Show phases, workers and their sessions, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Only this phase (repeatable); what it needs is taken as done
    #[arg(long, value_name = "PHASE")]
    pub only: Vec<String>,
    /// Print the run's id and leave it to the host
    #[arg(long, conflicts_with = "dry_run")]
    pub detach: bool,
    /// Go on in worktrees that an earlier run left, instead of taking new ones
    #[arg(long, conflicts_with = "resume")]
    pub reuse_worktrees: bool,
}

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Only this, such as daemon_pid, keeper_pid, uptime_ms or sessions.running
    pub field: Option<String>,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write greenroom.1, greenroom-new.1 and so on there
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum RunVerb {
    /// List runs, also those that have ended
    #[command(visible_alias = "list")]
    Ls,
    /// Describe a run: phases, workers, sessions, branches
    Show {
        /// Its id, or last
        #[arg(value_name = "RUN", add = ArgValueCandidates::new(run_candidates))]
        run: String,
    },
    /// Stop runs and all their workers
    Stop {
        /// Their ids, or last
        #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(run_candidates))]
        runs: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Stay in the foreground (what serve does anyway)
    #[arg(long)]
    pub foreground: bool,
    /// Speak the API on stdin and stdout
    #[arg(long)]
    pub stdio: bool,
    /// With --stdio: speak for the background host
    #[arg(long, requires = "stdio")]
    pub shared: bool,
    /// Listen on this socket
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "stdio")]
    pub socket: Option<PathBuf>,
    /// How frames are cut on stdin and stdout
    #[arg(long, value_enum, default_value_t = Framing::Auto)]
    pub framing: Framing,
    /// Serve HTTP here too, such as 127.0.0.1:7878; port 0 is any free one
    #[arg(long, value_name = "ADDR", conflicts_with = "stdio")]
    pub http: Option<String>,
    #[command(flatten)]
    pub session: SessionArgs,
}

/// How frames are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Framing {
    /// Recognised from the first byte
    #[default]
    Auto,
    /// One JSON text per line
    Ndjson,
    /// Content-Length headers
    Lsp,
}

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// The new program [default: this one]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub binary: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Go on with what is written next
    #[arg(short, long)]
    pub follow: bool,
    /// How many lines from the end
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    pub lines: usize,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For this shell
    #[arg(value_enum)]
    pub shell: ShellName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// One method only, such as session.create; or connector, or manifest
    pub method: Option<String>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep the demo's directory and say where it is
    #[arg(long)]
    pub keep: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    /// Every example of every help text parses. Shell around it is taken off first.
    #[test]
    fn help_examples_parse() {
        let mut seen = 0;
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<_> =
                help.lines().filter(|line| line.contains("greenroom ")).collect();
            let own = format!("greenroom {}", verb.get_name());
            assert!(
                examples.iter().any(|example| example.contains(&own)),
                "{} has no example",
                verb.get_name()
            );
            for example in examples {
                // The last: it may also be the name of something else.
                let from = example.rfind("greenroom ").unwrap();
                let text =
                    example[from..].split(" | ").next().unwrap().split(" > ").next().unwrap();
                let text = text.trim_end_matches(')').replace("\"$(cat prompt.md\"", "x");
                let words = shell_words(&text);
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{words:?}: {error}");
                }
                seen += 1;
            }
        }
        assert!(seen > 40, "only {seen} examples");
    }

    fn shell_words(text: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in text.chars() {
            match quote {
                Some(q) if c == q => quote = None,
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == ' ' => words.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// Help fits 80 columns, at every level.
    #[test]
    fn help_fits_80_columns() {
        let mut command = Cli::command();
        command.build();
        let mut texts = vec![command.render_long_help().to_string()];
        texts.extend(command.get_subcommands_mut().map(|verb| verb.render_long_help().to_string()));
        for line in texts.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_verb_knows_json() {
        let mut command = Cli::command();
        command.build();
        for verb in command.get_subcommands() {
            assert!(verb.get_arguments().any(|arg| arg.get_id() == "json"), "{}", verb.get_name());
        }
    }
}
