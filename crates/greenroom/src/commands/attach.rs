//! `greenroom attach`: use a session's terminal from this one.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::screen::ScrollbackParams;
use greenroom_protocol::api::session::{InfoParams, ListParams};
use serde_json::json;

use super::{Context, left, ls};
use crate::attach::keys::Prefix;
use crate::attach::{AttachOptions, End, Ended, HISTORY, is_ourselves, terminal};
use crate::commands::completions::live_candidates;
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, config};
use crate::output::{count, since, span, tell};

/// Use a session's terminal; detach with Ctrl-b d
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom attach s3\n  greenroom attach\n  greenroom attach build --read-only\n  greenroom attach s3 --prefix ctrl-a\n\nKeys: the prefix, then d or q detaches; the prefix twice sends it to the session."
)]
pub struct AttachArgs {
    /// Id, name or unambiguous prefix [default: the one that runs]
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(live_candidates))]
    pub session: Option<String>,
    /// Watch only: nothing you type reaches the session
    #[arg(long)]
    pub read_only: bool,
    /// The key that starts a command, such as ctrl-a, or none [default: attach.prefix of
    /// config.toml, else ctrl-b]
    #[arg(long, value_name = "KEY")]
    pub prefix: Option<crate::attach::keys::Prefix>,
    /// Lines above the session's screen to print first, into this terminal's scrollback; 0: none
    #[arg(long, value_name = "N", default_value_t = HISTORY, value_parser = clap::value_parser!(u64).range(..=ScrollbackParams::COUNT_MAX))]
    pub history: u64,
    /// Detach everybody else
    #[arg(long)]
    pub exclusive: bool,
}

pub async fn run(args: AttachArgs, context: &Context) -> ExitResult {
    let prefix = prefix(args.prefix)?;
    let host = context.host().await?;
    let session = match args.session {
        Some(session) => session,
        None => the_one(&host, context).await?,
    };
    let AttachArgs { read_only, exclusive, history, .. } = args;
    let options = AttachOptions { session, read_only, exclusive, prefix, history };
    attach(&host, &options, context).await
}

/// The only session that runs, besides the one this terminal is in. Of several the user chooses.
async fn the_one(host: &HostClient, context: &Context) -> Result<String, Failure> {
    if !terminal::is_here() {
        return Err(Failure::failed("cannot attach: stdin and stdout are not both a terminal")
            .hint("greenroom ls lists sessions, greenroom read shows one"));
    }
    let params = ListParams {
        detail: true,
        state: Some(OneOrMany::One("running".to_owned())),
        ..ListParams::default()
    };
    let list = host.call::<method::SessionList>(&params, "list sessions").await?;
    let mut sessions = list.sessions;
    sessions.retain(|listed| !is_ourselves(&host.client, listed.id()));
    match sessions.as_slice() {
        [] => Err(Failure::new(FaultKind::UnknownSession, "cannot attach: no session runs")
            .hint("start one with greenroom new --attach")),
        [only] => Ok(only.id().to_owned()),
        several => {
            context.out.note(ls::table(several, &context.out).trim_end());
            let count = count(several.len() as u64, "session");
            Err(Failure::usage(format!("cannot tell which session is meant: {count} run"))
                .hint(format!("say which: greenroom attach {}", several[0].id())))
        }
    }
}

/// Attaches, and says afterwards how it ended.
pub async fn attach(host: &HostClient, options: &AttachOptions, context: &Context) -> ExitResult {
    let ended = match crate::attach::run(&host.client, options).await {
        Ok(ended) => ended,
        Err(failure) if failure.is(FaultKind::SessionClosed) => {
            return Err(already_ended(host, options, failure).await);
        }
        Err(failure) => return Err(failure),
    };
    let Ended { session, how } = ended;
    let exited = matches!(how, End::Exited(_));
    let detached = format!("[detached from {session}]");
    let (text, code, mut value) = match how {
        End::Detached => (detached, 0, json!({"end": "detached"})),
        End::Dropped(why) => (
            format!("[detached from {session}: {why}]"),
            0,
            json!({"end": "dropped", "reason": why}),
        ),
        End::Exited(status) => {
            (format!("[{session} exited: {status}]"), 0, json!({"end": "exited", "exit": status}))
        }
        End::Signalled(signo) => {
            let code = u8::try_from(128 + signo).unwrap_or(1);
            (detached, code, json!({"end": "signalled", "signal": signo}))
        }
        End::HungUp => (String::new(), 129, json!({"end": "hung_up"})),
    };
    if context.out.json {
        value["session"] = json!(session);
        context.out.json_line(&value)?;
    } else if !text.is_empty() {
        tell(&text);
    }
    if exited {
        left::tell(host, &session, context).await;
    }
    Ok(code)
}

/// The user's choice, else that of the configuration.
pub fn prefix(chosen: Option<Prefix>) -> Result<Prefix, Failure> {
    if let Some(prefix) = chosen {
        return Ok(prefix);
    }
    Ok(config()?.attach.prefix)
}

/// When and how it ended is what the user needs to know.
async fn already_ended(host: &HostClient, options: &AttachOptions, failure: Failure) -> Failure {
    let params = InfoParams::of(&options.session);
    let Ok(info) = host.call::<method::SessionInfo>(&params, "describe it").await else {
        return failure;
    };
    let ago = info.ended_at.map(|at| format!(" {} ago", span(since(at)))).unwrap_or_default();
    let how = info.exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
    let message = format!("cannot attach to {}: it exited{ago}{how}", options.session);
    Failure { message, ..failure }
        .hint(format!("read its last screen with greenroom read {}", options.session))
}
