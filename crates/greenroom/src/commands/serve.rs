//! `greenroom serve`: the host in the foreground, with a session of its own if one is asked for;
//! or the API on stdin and stdout.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Child, Stdio};

use greenroom_protocol::FaultKind;
use greenroom_protocol::api::matcher::{Matcher, Test};
use greenroom_protocol::api::server::{ShutdownParams, WebResult};
use greenroom_protocol::api::session::{
    CreateParams, CreateResult, ExitStatus, SnapshotChoice, WaitParams,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Context, left, new, stop, web};
use crate::cli::{ServeArgs, SessionArgs};
use crate::error::{Failure, Outcome};
use crate::host::{Host, Keeper, SOCKET_VARIABLE, called, paths};
use crate::stdio;

pub async fn run(args: ServeArgs, context: &Context) -> Outcome {
    if args.stdio {
        return stdio::run(&args, context).await;
    }
    let params = match wants_session(&args.session) {
        true => Some(new::params(&args.session, &context.out)?),
        false => None,
    };
    let (mut keeper, socket) = start(&args)?;
    let host = Host::at(&socket).await?;
    let (web, made) = match begin(&args, params.as_ref(), &host).await {
        Ok(begun) => begun,
        Err(failure) => {
            end(&mut keeper).await?;
            return Err(failure);
        }
    };
    if let Some(made) = made.as_ref().filter(|made| made.dry_run.is_some()) {
        new::show(made, context)?;
        end(&mut keeper).await?;
        return Ok(0);
    }
    announce(&args, &socket, web.as_ref(), made.as_ref(), context)?;
    live(&mut keeper, &host, made.as_ref(), context).await
}

/// What is asked for beside the host: HTTP, a session.
async fn begin(
    args: &ServeArgs,
    params: Option<&CreateParams>,
    host: &Host,
) -> Result<(Option<WebResult>, Option<CreateResult>), Failure> {
    let web = match &args.http {
        Some(address) => Some(web::serve(host, Some(address.clone())).await?),
        None => None,
    };
    let made = match params {
        Some(params) => Some(new::create(host, params).await?),
        None => None,
    };
    Ok((web, made))
}

/// Is a session asked for beside the host?
pub fn wants_session(args: &SessionArgs) -> bool {
    *args != SessionArgs::default()
}

fn start(args: &ServeArgs) -> Result<(Child, std::path::PathBuf), Failure> {
    let mut words = vec![OsString::from("--foreground")];
    let socket = match &args.socket {
        None => paths()?.socket(),
        Some(socket) => {
            let absolute = std::path::absolute(socket).map_err(|error| {
                Failure::io(format!("cannot listen on {}", socket.display()), &error)
            })?;
            words.extend(["--socket".into(), absolute.clone().into_os_string()]);
            absolute
        }
    };
    let mut keeper = Keeper::command(None, &words);
    // Stdout carries our answer only; what the host has to say goes beside it.
    let beside = io::stderr().as_fd().try_clone_to_owned();
    let beside = beside.map_err(|error| Failure::io("cannot start the host", &error))?;
    keeper.command.stdout(Stdio::from(beside));
    let (mut child, ready) = keeper.start()?;
    if let Err(text) = ready.wait() {
        // It has said why and is about to exit.
        let _ = child.wait();
        let text = text.trim_end();
        let failure = Failure::unavailable(format!("cannot start the host: {text}"));
        return Err(match text.contains("already") {
            true => Failure {
                kind: FaultKind::Conflict.word().to_owned(),
                exit: FaultKind::Conflict.exit(),
                ..failure
            }
            .hint("a host is running: use it, or stop it with greenroom shutdown"),
            false => failure.hint("look with greenroom doctor"),
        });
    }
    Ok((child, socket))
}

fn announce(
    args: &ServeArgs,
    socket: &std::path::Path,
    web: Option<&WebResult>,
    made: Option<&CreateResult>,
    context: &Context,
) -> Result<(), Failure> {
    let session = made.map(|made| made.session.as_str());
    let mut value = json!({ "socket": socket, "session": session });
    if let Some(web) = web {
        value["url"] = json!(web.url);
        value["token"] = json!(web.token);
    }
    context.out.answer(&value, || {
        let with = match args.socket {
            Some(_) => format!("{SOCKET_VARIABLE}={} ", socket.display()),
            None => String::new(),
        };
        let mut text = format!("listening on {}\n", socket.display());
        if let Some(web) = web {
            let WebResult { url, token_file, .. } = web;
            text.push_str(&format!("serving HTTP on {url}; the token is in {token_file}\n"));
        }
        if let Some(session) = session {
            text.push_str(&format!(
                "{session} runs; use it with {with}greenroom attach {session}\n"
            ));
        } else {
            text.push_str(&format!("start a session with {with}greenroom new\n"));
        }
        text
    })
}

/// Until the host ends, the session ends, or somebody asks us to.
async fn live(
    keeper: &mut Child,
    host: &Host,
    made: Option<&CreateResult>,
    context: &Context,
) -> Outcome {
    let refuse = |error: io::Error| Failure::io("cannot watch the host", &error);
    let mut term = signal(SignalKind::terminate()).map_err(refuse)?;
    let mut int = signal(SignalKind::interrupt()).map_err(refuse)?;
    let mut hup = signal(SignalKind::hangup()).map_err(refuse)?;
    let mut child = signal(SignalKind::child()).map_err(refuse)?;
    let ended = tokio::select! {
        () = gone(keeper, &mut child) => None,
        _ = term.recv() => None,
        _ = int.recv() => None,
        _ = hup.recv() => None,
        status = session_end(host, made) => Some(status?),
    };
    match ended {
        None => {
            end(keeper).await?;
            Ok(0)
        }
        Some(status) => {
            if let Some(made) = made {
                left::tell(host, &made.session, context).await;
            }
            stop(host, &ShutdownParams::default()).await?;
            let _ = keeper.wait();
            Ok(u8::from(!status.success))
        }
    }
}

/// Until the keeper has ended. The signal was listened to before the first look.
async fn gone(keeper: &mut Child, child: &mut tokio::signal::unix::Signal) {
    while let Ok(None) = keeper.try_wait() {
        if child.recv().await.is_none() {
            return;
        }
    }
}

/// Waits for the session, for ever if need be; without one it never ends.
async fn session_end(host: &Host, made: Option<&CreateResult>) -> Result<ExitStatus, Failure> {
    let Some(made) = made else { return std::future::pending().await };
    let params = WaitParams {
        timeout_ms: WaitParams::MAX_TIMEOUT_MS,
        snapshot: Some(SnapshotChoice::Flag(false)),
        ..WaitParams::new(made.session.clone(), Matcher::new(Test::ProcessExited))
    };
    loop {
        match host.client.session_wait(&params).await {
            Ok(found) => return Ok(found.exit.unwrap_or_default()),
            Err(error) if error.kind() == FaultKind::Timeout => {}
            Err(error) => return Err(called(&format!("wait for {}", made.session), error)),
        }
    }
}

/// Ends the keeper and with it everything; it has its own deadlines.
async fn end(keeper: &mut Child) -> Result<(), Failure> {
    if let Ok(None) = keeper.try_wait() {
        // It may have ended in between.
        let _ = kill_process(Pid::from_child(keeper), Signal::TERM);
    }
    keeper.wait().map(drop).map_err(|error| Failure::io("cannot wait for the host", &error))
}
