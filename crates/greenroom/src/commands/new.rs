//! `greenroom new`: starts a session and prints its id; with `-A` attaches to one that runs already.
//!
//! The session gets this process's directory and environment, over the socket and never in the
//! arguments of anything.

use std::collections::BTreeMap;
use std::path::Path;

use greenroom_protocol::FaultKind;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::ask::{SandboxAsk, ScratchpadAsk, WorktreeAsk};
use greenroom_protocol::api::session::{
    CreateParams, CreateResult, DryRun, ListParams, ListResult, Listed,
};

use super::Context;
use super::attach::prefix;
use crate::attach::keys::Prefix;
use crate::attach::{Wish, terminal};
use crate::cli::{NewArgs, SessionArgs};
use crate::error::{Failure, Outcome};
use crate::host::Host;
use crate::output::Output;

/// A file larger than this is not a list of variables.
const ENV_FILE_MAX: u64 = 1024 * 1024;

pub async fn run(args: NewArgs, context: &Context) -> Outcome {
    let mut params = params(&args.session, &context.out)?;
    let attaches = (args.attach || args.or_attach.is_some()) && !params.dry_run;
    let prefix = if attaches { Some(prefix(None)?) } else { None };
    if attaches && !terminal::is_here() {
        let message = "cannot attach to a new session: stdin and stdout are not both a terminal; \
                       nothing was started";
        return Err(Failure::failed(message)
            .hint("leave --attach out, and use greenroom send, read and wait"));
    }
    let wanted = match &args.or_attach {
        Some(name) => Some(wanted_name(name.as_deref(), &mut params)?),
        None => None,
    };
    let host = context.host().await?;
    if let (Some(name), Some(prefix)) = (&wanted, prefix)
        && let Some(session) = live_as(&host, name).await?
    {
        return attach_to(&host, session, prefix, context).await;
    }
    let made = match (create(&host, &params).await, &wanted) {
        (Err(failure), Some(name)) if failure.is(FaultKind::Conflict) => {
            // Somebody else started it in between.
            let Some(session) = live_as(&host, name).await? else { return Err(failure) };
            let Some(prefix) = prefix else { return Err(failure) };
            return attach_to(&host, session, prefix, context).await;
        }
        (made, _) => made?,
    };
    if made.dry_run.is_some() {
        show(&made, context)?;
        return Ok(0);
    }
    for note in &made.notes {
        context.out.note(&format!("note: {note}"));
    }
    match prefix {
        None => {
            // A script wants the id and nothing else; a person also wants to know what it is called.
            context.out.answer(&made, || match (&made.name, context.out.terminal) {
                (Some(name), true) => format!("{}  {name}", made.session),
                _ => made.session.clone(),
            })?;
            let name = made.name.as_ref().unwrap_or(&made.session);
            context.out.hint(&format!("use it with greenroom attach {name}"));
            Ok(0)
        }
        Some(prefix) => attach_to(&host, made.session, prefix, context).await,
    }
}

async fn attach_to(host: &Host, session: String, prefix: Prefix, context: &Context) -> Outcome {
    let wish = Wish { session, read_only: false, exclusive: false, prefix };
    super::attach::attach(host, &wish, context).await
}

/// The name behind `-A`, else that of `--name`, else the worktree's.
fn wanted_name(name: Option<&str>, params: &mut CreateParams) -> Result<String, Failure> {
    let slug = params.worktree.as_ref().map(|worktree| worktree.slug.clone());
    match (name, &params.name) {
        (Some(name), Some(other)) if name != other => {
            let message = format!("cannot start a session: -A says {name} and --name {other}");
            return Err(Failure::usage(message));
        }
        (Some(name), _) => params.name = Some(name.to_owned()),
        (None, Some(_)) => {}
        (None, None) => params.name = slug,
    }
    params.name.clone().ok_or_else(|| {
        Failure::usage("cannot tell which session -A means: it needs a name")
            .hint("greenroom new -A work")
    })
}

/// The live session of exactly this name, or id.
async fn live_as(host: &Host, name: &str) -> Result<Option<String>, Failure> {
    let states = ["starting", "running"].map(str::to_owned).to_vec();
    let params =
        ListParams { detail: true, state: Some(OneOrMany::Many(states)), ..ListParams::default() };
    let list: ListResult = host.call("session.list", &params, "list sessions").await?;
    Ok(list.sessions.into_iter().find_map(|listed| match listed {
        Listed::Info(info) if info.name.as_deref() == Some(name) || info.id == name => {
            Some(info.id)
        }
        _ => None,
    }))
}

/// Starts it.
pub async fn create(host: &Host, params: &CreateParams) -> Result<CreateResult, Failure> {
    let attempt = match params.argv().filter(|_| !params.dry_run) {
        _ if params.dry_run => "plan the session".to_owned(),
        Some(argv) => format!("start {}", argv[0]),
        None => "start a shell".to_owned(),
    };
    host.call("session.create", params, &attempt).await
}

/// A session that was not started.
pub fn show(made: &CreateResult, context: &Context) -> Result<(), Failure> {
    context.out.answer(made, || made.dry_run.as_deref().map(plan).unwrap_or_default())
}

fn plan(dry_run: &DryRun) -> String {
    let mut text = format!("would start {}\n", dry_run.command.join(" "));
    let limit = |ms: Option<u64>| ms.map(crate::output::span);
    let rows = [
        ("in", Some(dry_run.cwd.clone())),
        ("branch", dry_run.branch.clone()),
        ("sandbox", dry_run.sandbox.clone()),
        ("timeout", limit(dry_run.timeout_ms)),
        ("idle timeout", limit(dry_run.idle_timeout_ms)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            text.push_str(&format!("  {name:<13}{value}\n"));
        }
    }
    if dry_run.plugins.is_empty() {
        return text + "no session plugin is asked for";
    }
    text.push_str("plugins, in the order in which they run:\n");
    for plugin in &dry_run.plugins {
        let mut name = plugin.name.as_str();
        let nothing = ["changes nothing".to_owned()];
        let changes = if plugin.changes.is_empty() { &nothing[..] } else { &plugin.changes };
        for change in changes {
            text.push_str(&format!("  {name:<13}{change}\n"));
            name = "";
        }
    }
    text
}

/// What the flags and this process say about the session.
pub fn params(args: &SessionArgs, out: &Output) -> Result<CreateParams, Failure> {
    let cwd = match &args.cwd {
        Some(dir) => std::path::absolute(dir),
        None => std::env::current_dir(),
    };
    let cwd = cwd.map_err(|error| Failure::io("cannot tell the working directory", &error))?;
    let mut command = Vec::new();
    for word in &args.command {
        let word = word.to_str().ok_or_else(|| {
            Failure::usage(format!(
                "cannot start a session: the argument {} is not UTF-8",
                word.display()
            ))
        })?;
        command.push(word.to_owned());
    }
    let mut env = BTreeMap::new();
    for file in &args.env_file {
        // A file's text is a text, whatever it begins with.
        env.extend(read_env_file(file)?.into_iter().map(|(name, value)| (name, literal(value))));
    }
    env.extend(args.env.iter().cloned());
    Ok(CreateParams {
        command: (!command.is_empty()).then_some(command),
        cwd: Some(utf8(&cwd)?),
        env,
        inherit_env: Some(environment(out)),
        size: args.size.or_else(terminal::window),
        name: args.name.clone(),
        labels: args.label.iter().cloned().collect(),
        task: args.task.clone(),
        backend: args.backend.clone(),
        effort: args.effort.clone(),
        timeout_ms: args.timeout.map(millis),
        idle_timeout_ms: args.idle_timeout.map(millis),
        worktree: args.worktree.clone().map(|slug| WorktreeAsk { slug, base: args.base.clone() }),
        sandbox: sandbox(args)?,
        scratchpad: args
            .scratchpad
            .clone()
            .map(|name| ScratchpadAsk { name: Some(name).filter(|name| !name.is_empty()) }),
        with: args.with.clone(),
        dry_run: args.dry_run,
        ..CreateParams::default()
    })
}

fn sandbox(args: &SessionArgs) -> Result<Option<SandboxAsk>, Failure> {
    let Some(level) = args.sandbox else { return unconfined(args) };
    let mut allow_write = Vec::new();
    for dir in &args.allow_write {
        let dir = std::path::absolute(dir)
            .map_err(|error| Failure::io(format!("cannot allow {}", dir.display()), &error))?;
        allow_write.push(utf8(&dir)?);
    }
    Ok(Some(SandboxAsk {
        level: level.into(),
        allow_hosts: args.allow_host.clone(),
        allow_write,
        allow_http: args.allow_http,
        allow: args.sandbox_allow.iter().copied().map(Into::into).collect(),
    }))
}

/// What opens a fence is no use without one, and whoever asked believes there is one.
fn unconfined(args: &SessionArgs) -> Result<Option<SandboxAsk>, Failure> {
    let asked = [
        ("--allow-host", !args.allow_host.is_empty()),
        ("--allow-write", !args.allow_write.is_empty()),
        ("--allow-http", args.allow_http),
        ("--sandbox-allow", !args.sandbox_allow.is_empty()),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        None => Ok(None),
        Some((flag, _)) => Err(Failure::usage(format!(
            "cannot start a session: {flag} says what a sandbox lets through, and there is none"
        ))
        .hint("add --sandbox")),
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// So that the host takes it as it is.
fn literal(value: String) -> String {
    match ["secret:", "file:", "literal:"].iter().any(|word| value.starts_with(word)) {
        true => format!("literal:{value}"),
        false => value,
    }
}

fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::failed(format!("cannot start a session in {}: not UTF-8", path.display()))
    })
}

/// This process's variables.
pub fn environment(out: &Output) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => {
                kept.insert(name.to_owned(), value.to_owned());
            }
            // Its value may be secret; its name is not.
            _ => out.note(&format!(
                "note: the variable {} is not UTF-8 and is left out",
                name.display()
            )),
        }
    }
    kept
}

/// `K=V` lines; `#` starts a comment line, `export ` before and quotes around are taken off.
fn read_env_file(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let refuse =
        |error: std::io::Error| Failure::io(format!("cannot read {}", path.display()), &error);
    let size = std::fs::metadata(path).map_err(refuse)?.len();
    if size > ENV_FILE_MAX {
        return Err(Failure::failed(format!(
            "cannot read {}: larger than {ENV_FILE_MAX} bytes",
            path.display()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(refuse)?;
    let mut pairs = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        // The line is not shown: it may hold a secret.
        let Some((name, value)) = pair.filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(Failure::usage(format!("{}:{number}: K=V is wanted", path.display())));
        };
        pairs.push((name.trim().to_owned(), unquoted(value.trim()).to_owned()));
    }
    Ok(pairs)
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_files_as_people_write_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.env");
        std::fs::write(&file, "# c\n\nA=1\nexport B = 'two words'\nC=\"x=y\"\nD=\n").unwrap();
        let pairs = read_env_file(&file).unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "x=y"), ("D", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        std::fs::write(&file, "A=1\nsecret-token\n").unwrap();
        let failure = read_env_file(&file).unwrap_err();
        assert!(failure.message.contains("x.env:2: K=V"), "{failure}");
        assert!(!failure.message.contains("secret"), "{failure}");
    }
}
