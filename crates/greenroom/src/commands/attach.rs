//! `greenroom attach`: use a session's terminal from this one.

use std::time::SystemTime;

use greenroom_daemon::config::Config;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{InfoParams, ListParams, ListResult, SessionInfo};
use greenroom_protocol::{FaultKind, Timestamp};
use serde_json::json;

use super::{Context, left, ls};
use crate::attach::keys::Prefix;
use crate::attach::{End, Ended, Wish, is_ourselves, terminal};
use crate::cli::AttachArgs;
use crate::error::{Failure, Outcome};
use crate::host::{Host, paths};
use crate::output::{count, span, tell};

pub async fn run(args: AttachArgs, context: &Context) -> Outcome {
    let prefix = prefix(args.prefix)?;
    let host = context.host().await?;
    let session = match args.session {
        Some(session) => session,
        None => the_one(&host, context).await?,
    };
    let wish = Wish { session, read_only: args.read_only, exclusive: args.exclusive, prefix };
    attach(&host, &wish, context).await
}

/// The only session that runs, besides the one this terminal is in. Of several the user chooses.
async fn the_one(host: &Host, context: &Context) -> Result<String, Failure> {
    if !terminal::is_here() {
        return Err(Failure::failed("cannot attach: stdin and stdout are not both a terminal")
            .hint("greenroom ls lists sessions, greenroom read shows one"));
    }
    let params = ListParams {
        detail: true,
        state: Some(OneOrMany::One("running".to_owned())),
        ..ListParams::default()
    };
    let list: ListResult = host.call("session.list", &params, "list sessions").await?;
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
pub async fn attach(host: &Host, wish: &Wish, context: &Context) -> Outcome {
    let ended = match crate::attach::run(&host.client, wish).await {
        Ok(ended) => ended,
        Err(failure) if failure.is(FaultKind::SessionClosed) => {
            return Err(already_ended(host, wish, failure).await);
        }
        Err(failure) => return Err(failure),
    };
    let Ended { session, how } = ended;
    let exited = matches!(how, End::Exited(_));
    let (text, code, value) = match how {
        End::Detached => (
            format!("[detached from {session}]"),
            0,
            json!({"session": session, "end": "detached"}),
        ),
        End::Dropped(why) => (
            format!("[detached from {session}: {why}]"),
            0,
            json!({"session": session, "end": "dropped", "reason": why}),
        ),
        End::Exited(status) => (
            format!("[{session} exited: {status}]"),
            0,
            json!({"session": session, "end": "exited", "exit": status}),
        ),
        End::Signalled(signo) => (
            format!("[detached from {session}]"),
            u8::try_from(128 + signo).unwrap_or(1),
            json!({"session": session, "end": "signalled", "signal": signo}),
        ),
        End::HungUp => (String::new(), 129, json!({"session": session, "end": "hung_up"})),
    };
    if context.out.json {
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
    let file = paths()?.config_file();
    let config = Config::load(&file).map_err(|error| {
        Failure::failed(error.to_string()).hint(format!("edit {}", file.display()))
    })?;
    Ok(config.attach.prefix)
}

/// When and how it ended is what the user needs to know.
async fn already_ended(host: &Host, wish: &Wish, failure: Failure) -> Failure {
    let params = InfoParams::of(&wish.session);
    let info: SessionInfo = match host.call("session.info", &params, "describe it").await {
        Ok(info) => info,
        Err(_) => return failure,
    };
    let now = Timestamp::from_system(SystemTime::now()).unix_ms();
    let ago = info
        .ended_at
        .map(|at| format!(" {} ago", span(now.saturating_sub(at.unix_ms()))))
        .unwrap_or_default();
    let how = info.exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
    let message = format!("cannot attach to {}: it exited{ago}{how}", wish.session);
    Failure { message, ..failure }
        .hint(format!("read its last screen with greenroom read {}", wish.session))
}
