//! `greenroom plugin` (also `plugins`): what needs no host is in `author`.

mod args;
mod author;
mod consent;
mod show;
mod template;

use std::io::IsTerminal as _;
use std::path::Path;

use greenroom_client::method;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::plugin::*;
use greenroom_protocol::fault::exit;
use serde_json::{Map, Value};

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::input;
use crate::output::Tone;
pub use args::PluginArgs;
use args::{PluginMaybe, PluginName, PluginVerb};

/// A payload is a request, not a file.
const PAYLOAD_MAX: u64 = 16 << 20;

pub async fn run(args: PluginArgs, context: &Context) -> ExitResult {
    let out = &context.out;
    match args.verb {
        PluginVerb::List => list(context).await,
        PluginVerb::Info(PluginName { name }) => {
            let attempt = format!("describe plugin {name}");
            let shown = |info: &PluginGetResult| show::info(info, out);
            context.show::<method::PluginGet>(&PluginParams { name }, &attempt, shown).await
        }
        PluginVerb::Add { source } => add(source, context).await,
        PluginVerb::Link { dir } => link(&dir, context).await,
        PluginVerb::Remove(PluginName { name }) => {
            let attempt = format!("remove plugin {name}");
            let shown = |removed: &PluginRemoved| format!("{} is removed", removed.name);
            context.show::<method::PluginRemove>(&PluginParams { name }, &attempt, shown).await
        }
        PluginVerb::Grant { name, only, digest } => {
            let only = (!only.is_empty()).then_some(only);
            let params = PluginGrantParams { name, digest, only };
            grant(&context.host().await?, &params, context).await
        }
        PluginVerb::Revoke(PluginName { name }) => {
            let attempt = format!("revoke {name}");
            let shown =
                |now: &PluginGranted| format!("{} may no longer run ({})", now.name, now.state);
            context.show::<method::PluginRevoke>(&PluginParams { name }, &attempt, shown).await
        }
        PluginVerb::Pending => {
            let attempt = "list what waits for consent";
            let waiting = context.call::<method::PluginPending>(&Empty {}, attempt).await?;
            let texts = waiting.pending.iter().map(|one| consent::text(one, out));
            let none = "nothing waits for consent";
            out.list(&waiting, &waiting.pending, none, || texts.collect::<Vec<_>>().join("\n"))
        }
        PluginVerb::Enable(PluginName { name }) => {
            let attempt = format!("enable plugin {name}");
            context.show::<method::PluginEnable>(&PluginParams { name }, &attempt, switched).await
        }
        PluginVerb::Disable(PluginName { name }) => {
            let attempt = format!("disable plugin {name}");
            context.show::<method::PluginDisable>(&PluginParams { name }, &attempt, switched).await
        }
        PluginVerb::Reload(PluginMaybe { name }) => {
            let params = PluginReloadParams { name };
            let done = context.call::<method::PluginReload>(&params, "reload plugins").await?;
            out.answer(&done, || show::reloaded(&done))?;
            Ok(u8::from(!done.failed.is_empty()))
        }
        PluginVerb::Test { name, hook, payload } => {
            let payload = TestPayload::Object(self::payload(&payload)?);
            test(PluginTestParams { name, hook, payload }, context).await
        }
        PluginVerb::Order { hook } => {
            let attempt = format!("order the plugins of {hook}");
            let params = PluginOrderParams { hook };
            let order = context.call::<method::PluginOrder>(&params, &attempt).await?;
            let none = format!("no plugin hooks {}", order.hook);
            out.list(&order, &order.order, &none, || show::order(&order, out))?;
            out.notes(&order.remarks);
            Ok(0)
        }
        PluginVerb::Stats(PluginMaybe { name }) => {
            let shown = |stats: &PluginStatsResult| show::stats(stats, out);
            let params = PluginStatsParams { name };
            context.show::<method::PluginStats>(&params, "read statistics", shown).await
        }
        PluginVerb::Logs { name, lines } => {
            let attempt = format!("read the log of plugin {name}");
            let params = PluginLogsParams { name, lines: Some(lines) };
            context.show::<method::PluginLogs>(&params, &attempt, show::logs).await
        }
        PluginVerb::Lint(args) => author::lint(&args, context),
        PluginVerb::Convert(args) => author::convert(&args, context),
        PluginVerb::Run(args) => author::run(&args, context),
        PluginVerb::New(args) => template::new(&args, context),
    }
}

async fn list(context: &Context) -> ExitResult {
    let list = context.call::<method::PluginList>(&Empty {}, "list plugins").await?;
    let none = format!("no plugins in {}; make one with greenroom plugin new NAME", list.dir);
    context.out.list(&list, &list.plugins, &none, || show::list(&list, &context.out))?;
    if !context.out.json {
        show::troubles(&list, &context.out);
    }
    Ok(0)
}

async fn add(source: String, context: &Context) -> ExitResult {
    let source = if source.contains("://") { source } else { absolute(Path::new(&source))? };
    let attempt = format!("add {source}");
    let host = context.host().await?;
    let added = host.call::<method::PluginAdd>(&PluginAddParams { source }, &attempt).await?;
    let PluginAddResult { name, trusted, consent } = &added;
    if *trusted {
        return context.out.answer(&added, || format!("{name} is unchanged and runs as before"));
    }
    let asks =
        !context.out.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asks {
        context.out.answer(&added, || consent::text(consent, &context.out))?;
        context.out.note(&format!("nobody was asked: agree with greenroom plugin grant {name}"));
        return Ok(exit::NEEDS_INPUT);
    }
    context.out.note(&consent::text(consent, &context.out));
    if !consent::ask(&format!("Let {name} run?")) {
        context.out.note(&format!("not granted; greenroom plugin grant {name} agrees later"));
        return Ok(exit::DENIED);
    }
    let (name, digest) = (name.clone(), Some(consent.digest.clone()));
    grant(&host, &PluginGrantParams { name, digest, only: None }, context).await
}

async fn grant(host: &HostClient, params: &PluginGrantParams, context: &Context) -> ExitResult {
    let attempt = format!("grant {}", params.name);
    let granted = host.call::<method::PluginGrant>(params, &attempt).await?;
    context.out.answer(&granted, || {
        let digest = show::short(&granted.digest);
        format!("{} may run ({}), bound to {digest}", granted.name, granted.state)
    })
}

async fn link(dir: &Path, context: &Context) -> ExitResult {
    let path = absolute(dir)?;
    let attempt = format!("link {path}");
    let params = PluginLinkParams { path: path.clone() };
    let linked = context.call::<method::PluginLink>(&params, &attempt).await?;
    context.out.answer(&linked, || format!("{} is linked ({})", linked.name, linked.state))?;
    let loud = context.out.paint(Tone::Warn, "warning");
    let name = &linked.name;
    context.out.note(&format!("{loud}: whatever lies in {path} runs, with all it asks for; end that with greenroom plugin remove {name}"));
    context.out.note(&format!(
        "after an edit: greenroom plugin reload {name} (a program that stays runs its old code until then)"
    ));
    Ok(0)
}

fn switched(done: &PluginSwitched) -> String {
    format!("{} is {}d ({})", done.name, done.action, done.state)
}

async fn test(params: PluginTestParams, context: &Context) -> ExitResult {
    let attempt = format!("test plugin {}", params.name);
    let tested = context.call::<method::PluginTest>(&params, &attempt).await?;
    context.out.answer(&tested, || show::tested(&tested))?;
    if !context.out.json {
        show::test_remarks(&params.name, &tested, &context.out);
    }
    Ok(u8::from(tested.failure.is_some()))
}

/// A JSON object from the command line, or from stdin for `-`.
fn payload(text: &str) -> Result<Map<String, Value>, Failure> {
    let read = if text == "-" {
        input::read_text(text.as_ref(), PAYLOAD_MAX)
            .map_err(|error| Failure::io("read the payload from stdin", &error))?
    } else {
        text.to_owned()
    };
    serde_json::from_str(&read).map_err(|error| {
        Failure::usage(format!("the payload is no JSON object: {error}"))
            .hint("such as '{\"line\":\"hello\"}'")
    })
}

/// The host is not where we are.
fn absolute(path: &Path) -> Result<String, Failure> {
    let found = std::fs::canonicalize(path)
        .map_err(|error| Failure::io(format_args!("find {}", path.display()), &error))?;
    found
        .into_os_string()
        .into_string()
        .map_err(|path| Failure::usage(format!("{} is not UTF-8", path.display())))
}
