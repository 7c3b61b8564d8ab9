//! `greenroom plugin` (also `plugins`): one verb, one function; what needs no host is in `author`.

mod author;
mod consent;
mod show;
mod template;

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::plugin::*;
use greenroom_protocol::fault::exit;
use serde_json::{Map, Value};

use super::Context;
use crate::cli::plugin::{
    PluginAddArgs, PluginArgs, PluginGrantArgs, PluginLogsArgs, PluginTestArgs, PluginVerb,
};
use crate::error::{Failure, Outcome};
use crate::host::Host;
use crate::output::Tone;

/// A payload is a request, not a file.
const PAYLOAD_MAX: u64 = 16 << 20;

pub async fn run(args: PluginArgs, context: &Context) -> Outcome {
    match args.verb {
        PluginVerb::List => list(context).await,
        PluginVerb::Info(args) => info(args.name, context).await,
        PluginVerb::Add(args) => add(args, context).await,
        PluginVerb::Link(args) => link(&args.dir, context).await,
        PluginVerb::Remove(args) => remove(args.name, context).await,
        PluginVerb::Grant(args) => grant(args, context).await,
        PluginVerb::Revoke(args) => revoke(args.name, context).await,
        PluginVerb::Pending => pending(context).await,
        PluginVerb::Enable(args) => switch(args.name, "enable", context).await,
        PluginVerb::Disable(args) => switch(args.name, "disable", context).await,
        PluginVerb::Reload(args) => reload(args.name, context).await,
        PluginVerb::Test(args) => test(args, context).await,
        PluginVerb::Order(args) => order(args.hook, context).await,
        PluginVerb::Stats(args) => stats(args.name, context).await,
        PluginVerb::Logs(args) => logs(args, context).await,
        PluginVerb::Lint(args) => author::lint(&args, context),
        PluginVerb::Convert(args) => author::convert(&args, context),
        PluginVerb::Run(args) => author::run(&args, context),
        PluginVerb::New(args) => template::new(&args, context),
    }
}

async fn list(context: &Context) -> Outcome {
    let host = context.host().await?;
    let list: PluginListResult = host.call("plugin.list", &Empty {}, "list plugins").await?;
    if !context.out.json && list.plugins.is_empty() {
        context
            .out
            .note(&format!("no plugins in {}; make one with greenroom plugin new NAME", list.dir));
        return Ok(0);
    }
    context.out.answer(&list, || show::list(&list, &context.out))?;
    if !context.out.json {
        show::troubles(&list, &context.out);
    }
    Ok(0)
}

async fn info(name: String, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("describe plugin {name}");
    let info: PluginGetResult = host.call("plugin.get", &PluginParams { name }, &attempt).await?;
    context.out.answer(&info, || show::info(&info, &context.out))?;
    Ok(0)
}

async fn add(args: PluginAddArgs, context: &Context) -> Outcome {
    let source = match args.source.contains("://") {
        true => args.source,
        false => absolute(Path::new(&args.source))?,
    };
    let host = context.host().await?;
    let attempt = format!("add {source}");
    let added: PluginAddResult =
        host.call("plugin.add", &PluginAddParams { source }, &attempt).await?;
    if added.trusted {
        context.out.answer(&added, || format!("{} is unchanged and runs as before", added.name))?;
        return Ok(0);
    }
    let asks =
        !context.out.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !asks {
        context.out.answer(&added, || consent::text(&added.consent, &context.out))?;
        context
            .out
            .note(&format!("nobody was asked: agree with greenroom plugin grant {}", added.name));
        return Ok(exit::NEEDS_INPUT);
    }
    context.out.note(&consent::text(&added.consent, &context.out));
    if !consent::ask(&format!("Let {} run?", added.name)) {
        context
            .out
            .note(&format!("not granted; greenroom plugin grant {} agrees later", added.name));
        return Ok(exit::DENIED);
    }
    let params = PluginGrantParams {
        name: added.name.clone(),
        digest: Some(added.consent.digest),
        only: None,
    };
    granted(&host, &params, context).await
}

async fn grant(args: PluginGrantArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let only = (!args.only.is_empty()).then_some(args.only);
    granted(&host, &PluginGrantParams { name: args.name, digest: args.digest, only }, context).await
}

async fn granted(host: &Host, params: &PluginGrantParams, context: &Context) -> Outcome {
    let attempt = format!("grant {}", params.name);
    let granted: PluginGranted = host.call("plugin.grant", params, &attempt).await?;
    context.out.answer(&granted, || {
        format!(
            "{} may run ({}), bound to {}",
            granted.name,
            granted.state,
            show::short(&granted.digest)
        )
    })?;
    Ok(0)
}

async fn link(dir: &Path, context: &Context) -> Outcome {
    let path = absolute(dir)?;
    let host = context.host().await?;
    let attempt = format!("link {path}");
    let linked: PluginGranted =
        host.call("plugin.link", &PluginLinkParams { path: path.clone() }, &attempt).await?;
    context.out.answer(&linked, || format!("{} is linked ({})", linked.name, linked.state))?;
    let loud = context.out.paint(Tone::Warn, "warning");
    context.out.note(&format!("{loud}: whatever lies in {path} runs, with all it asks for; end that with greenroom plugin remove {}", linked.name));
    let name = &linked.name;
    context.out.note(&format!(
        "after an edit: greenroom plugin reload {name} (a program that stays runs its old code until then)"
    ));
    Ok(0)
}

async fn remove(name: String, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("remove plugin {name}");
    let removed: PluginRemoved =
        host.call("plugin.remove", &PluginParams { name }, &attempt).await?;
    context.out.answer(&removed, || format!("{} is removed", removed.name))?;
    Ok(0)
}

async fn revoke(name: String, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("revoke {name}");
    let revoked: PluginGranted =
        host.call("plugin.revoke", &PluginParams { name }, &attempt).await?;
    context
        .out
        .answer(&revoked, || format!("{} may no longer run ({})", revoked.name, revoked.state))?;
    Ok(0)
}

async fn pending(context: &Context) -> Outcome {
    let host = context.host().await?;
    let waiting: PluginPendingResult =
        host.call("plugin.pending", &Empty {}, "list what waits for consent").await?;
    if !context.out.json && waiting.pending.is_empty() {
        context.out.note("nothing waits for consent");
        return Ok(0);
    }
    context.out.answer(&waiting, || {
        let texts: Vec<String> =
            waiting.pending.iter().map(|one| consent::text(one, &context.out)).collect();
        texts.join("\n")
    })?;
    Ok(0)
}

async fn switch(name: String, action: &str, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("{action} plugin {name}");
    let method = format!("plugin.{action}");
    let done: PluginSwitched = host.call(&method, &PluginParams { name }, &attempt).await?;
    context.out.answer(&done, || format!("{} is {}d ({})", done.name, done.action, done.state))?;
    Ok(0)
}

async fn reload(name: Option<String>, context: &Context) -> Outcome {
    let host = context.host().await?;
    let params = PluginReloadParams { name };
    let done: PluginReloadResult = host.call("plugin.reload", &params, "reload plugins").await?;
    context.out.answer(&done, || show::reloaded(&done))?;
    Ok(u8::from(!done.failed.is_empty()))
}

async fn test(args: PluginTestArgs, context: &Context) -> Outcome {
    let payload = payload(&args.payload)?;
    let host = context.host().await?;
    let attempt = format!("test plugin {}", args.name);
    let name = args.name.clone();
    let params = PluginTestParams {
        name: args.name,
        hook: args.hook,
        payload: TestPayload::Object(payload),
    };
    let tested: PluginTestResult = host.call("plugin.test", &params, &attempt).await?;
    context.out.answer(&tested, || show::tested(&tested))?;
    if !context.out.json {
        show::test_remarks(&name, &tested, &context.out);
    }
    Ok(u8::from(tested.failure.is_some()))
}

async fn order(hook: String, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("order the plugins of {hook}");
    let order: PluginOrderResult =
        host.call("plugin.order", &PluginOrderParams { hook }, &attempt).await?;
    if !context.out.json && order.order.is_empty() {
        context.out.note(&format!("no plugin hooks {}", order.hook));
        return Ok(0);
    }
    context.out.answer(&order, || show::order(&order, &context.out))?;
    for remark in order.remarks.iter().filter(|_| !context.out.json) {
        context.out.note(&format!("note: {remark}"));
    }
    Ok(0)
}

async fn stats(name: Option<String>, context: &Context) -> Outcome {
    let host = context.host().await?;
    let params = PluginStatsParams { name };
    let stats: PluginStatsResult = host.call("plugin.stats", &params, "read statistics").await?;
    context.out.answer(&stats, || show::stats(&stats, &context.out))?;
    Ok(0)
}

async fn logs(args: PluginLogsArgs, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("read the log of plugin {}", args.name);
    let params = PluginLogsParams { name: args.name, lines: Some(args.lines) };
    let logs: PluginLogsResult = host.call("plugin.logs", &params, &attempt).await?;
    context.out.answer(&logs, || {
        let line = |line: &PluginLogLine| {
            format!("{} {:<7} {}", line.at, line.kind, crate::output::one_line(&line.text))
        };
        logs.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(0)
}

/// A JSON object from the command line, or from stdin for `-`.
fn payload(text: &str) -> Result<Map<String, Value>, Failure> {
    let text = match text {
        "-" => {
            let mut read = String::new();
            std::io::stdin()
                .take(PAYLOAD_MAX)
                .read_to_string(&mut read)
                .map_err(|error| Failure::io("read the payload from stdin", &error))?;
            read
        }
        text => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
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
