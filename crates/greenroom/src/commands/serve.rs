//! `greenroom serve`: the host in the foreground, with a session of its own if one is asked for;
//! or the API on stdin and stdout.
//!
//! A state directory has one host. Beside one that runs, a session is started there and ends with
//! this command; so does the socket named with `--socket`. Whenever somebody asks us to stop, also
//! half way through the start, nothing of ours is left.

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum, ValueHint};
use greenroom_client::method;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::matcher::{Matcher, Test};
use greenroom_protocol::api::server::{ShutdownParams, WebResult};
use greenroom_protocol::api::session::{
    CreateParams, CreateResult, ExitStatus, KillParams, SnapshotChoice, WaitParams,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Context, left, new, web};
use crate::cli::SessionArgs;
use crate::error::{ExitResult, Failure};
use crate::host::{
    Address, HostClient, OwnedKeeper, SOCKET_VARIABLE, Said, SocketLink, called, keeper, paths,
};
use crate::output::count;
use crate::stdio;
use crate::stop::Stop;

/// Run the host in the foreground
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom serve\n  greenroom serve --name work -- bash\n  greenroom serve --worktree feat-x --sandbox\n  greenroom serve --stdio\n  greenroom serve --stdio --shared\n  greenroom serve --http 127.0.0.1:7878\n\nWith a command or session options it starts that session and ends with it.\n--stdio speaks the API on stdin and stdout with a private host that ends at the\n  end of stdin; with --shared it speaks for the background host."
)]
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

/// A host that is going down while we start makes room within this time.
const START_AGAIN: Duration = Duration::from_secs(10);

pub async fn run(args: ServeArgs, context: &Context) -> ExitResult {
    if args.stdio {
        return stdio::run(&args, context).await;
    }
    let mut stop = Stop::listen()?;
    let wanted = wants_session(&args.session);
    let params = wanted.then(|| new::params(&args.session, &context.out)).transpose()?;
    // The keeper would refuse a wrong home too, but without a hint.
    paths()?;
    let link = args.socket.as_deref().map(SocketLink::check).transpose()?;
    let serve = Serve { args: &args, params: params.as_ref(), link, context };
    let started = tokio::select! {
        started = start() => started?,
        // The keeper on its way is ended with the future that holds it.
        () = stop.asked() => return Ok(0),
    };
    match started {
        Started::Own(keeper) => serve.own(keeper, &mut stop).await,
        Started::Beside(host) => {
            context.warn_of_wrong_settings();
            serve.beside(host, &mut stop).await
        }
    }
}

/// Is a session asked for beside the host?
pub fn wants_session(args: &SessionArgs) -> bool {
    *args != SessionArgs::default()
}

/// Whose host we serve.
enum Started {
    Own(OwnedKeeper),
    /// A host that ran before us.
    Beside(HostClient),
}

async fn start() -> Result<Started, Failure> {
    let began = Instant::now();
    loop {
        let mut command = keeper::command(None);
        // Stdout carries our answer only; what the host has to say goes beside it.
        let beside = io::stderr().as_fd().try_clone_to_owned();
        let beside = beside.map_err(|error| Failure::io("cannot start the host", &error))?;
        command.arg("--foreground").stdout(Stdio::from(beside));
        let (child, said) = keeper::start(command)?;
        let mut child = OwnedKeeper::new(child);
        match said.await {
            Said::Up => return Ok(Started::Own(child)),
            Said::Failed(why) => {
                // It has said why and is about to exit.
                child.ended();
                return Err(Failure::unavailable(format!("cannot start the host: {why}"))
                    .hint("look with greenroom doctor"));
            }
            Said::Held { .. } => child.ended(),
        }
        match HostClient::reach(false).await {
            Ok(host) => return Ok(Started::Beside(host)),
            // It has ended meanwhile.
            Err(failure) if failure.is(FaultKind::Unavailable) && began.elapsed() < START_AGAIN => {
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// The wishes of the command line.
struct Serve<'a> {
    args: &'a ServeArgs,
    params: Option<&'a CreateParams>,
    link: Option<PathBuf>,
    context: &'a Context,
}

/// What `begin` has made of them.
struct Begun {
    socket: PathBuf,
    link: Option<SocketLink>,
    web: Option<WebResult>,
    made: Option<CreateResult>,
}

impl Serve<'_> {
    async fn begin(&self, host: &HostClient) -> Result<Begun, Failure> {
        let socket = host.client.path().to_owned();
        let link = self.link.clone().map(|path| SocketLink::open(path, &socket)).transpose()?;
        let web = match &self.args.http {
            Some(address) => Some(web::serve(host, Some(address.clone())).await?),
            None => None,
        };
        let made = match self.params {
            Some(params) => Some(new::create(host, params).await?),
            None => None,
        };
        Ok(Begun { socket, link, web, made })
    }

    /// Until the host ends, the session ends, or somebody asks us to stop. The host ends with us.
    async fn own(&self, mut keeper: OwnedKeeper, stop: &mut Stop) -> ExitResult {
        let refuse = |error: io::Error| Failure::io("cannot watch the host", &error);
        let mut child = signal(SignalKind::child()).map_err(refuse)?;
        let begun = tokio::select! {
            begun = async {
                let host = HostClient::at(&paths()?.socket()).await?;
                let begun = self.begin(&host).await?;
                Ok::<_, Failure>((host, begun))
            } => begun,
            () = stop.asked() => return Ok(0),
        };
        // If anything went wrong, the keeper ends with its guard.
        let (host, begun) = begun?;
        if self.tried_only(&begun)? {
            return Ok(0);
        }
        self.announce(&begun, false)?;
        let ended = tokio::select! {
            () = gone(keeper.keeper(), &mut child) => None,
            () = stop.asked() => None,
            status = session_end(&host, begun.made.as_ref()) => Some(status?),
        };
        let Some(status) = ended else { return Ok(0) };
        if let Some(made) = &begun.made {
            left::tell(&host, &made.session, self.context).await;
        }
        super::stop(&host, &ShutdownParams::default()).await?;
        keeper.ended();
        Ok(u8::from(!status.success))
    }

    /// Until the session or the host ends, or somebody asks us to stop. The host stays, the session
    /// does not.
    async fn beside(&self, host: HostClient, stop: &mut Stop) -> ExitResult {
        if self.params.is_none() && self.link.is_none() && self.args.http.is_none() {
            return Err(already(&host).await);
        }
        let begun = self.begin(&host).await?;
        if self.tried_only(&begun)? {
            return Ok(0);
        }
        self.announce(&begun, true)?;
        let pid = Address::from_env()?.holder();
        let ended = tokio::select! {
            () = ended(pid) => return Ok(0),
            () = stop.asked() => None,
            status = session_end(&host, begun.made.as_ref()) => Some(status?),
        };
        let Some(made) = &begun.made else { return Ok(0) };
        if ended.is_none() {
            let params = KillParams { session: made.session.clone(), signal: None, grace_ms: None };
            let attempt = format!("end {}", made.session);
            host.call::<method::SessionKill>(&params, &attempt).await?;
        }
        left::tell(&host, &made.session, self.context).await;
        Ok(ended.map_or(0, |status| u8::from(!status.success)))
    }

    /// With `--dry-run` there is only something to show.
    fn tried_only(&self, begun: &Begun) -> Result<bool, Failure> {
        match begun.made.as_ref().filter(|made| made.dry_run.is_some()) {
            Some(made) => new::show(made, self.context).map(|()| true),
            None => Ok(false),
        }
    }

    fn announce(&self, begun: &Begun, beside: bool) -> ExitResult {
        let session = begun.made.as_ref().map(|made| made.session.as_str());
        let socket = begun.link.as_ref().map_or(&begun.socket, |link| &link.path);
        let mut value = json!({ "socket": socket, "session": session });
        if let Some(web) = &begun.web {
            value["url"] = json!(web.url);
            value["token"] = json!(web.token);
        }
        self.context.out.answer(&value, || {
            let with = match begun.link {
                Some(_) => format!("{SOCKET_VARIABLE}={} ", socket.display()),
                None => String::new(),
            };
            let who = if beside { "the host that runs already listens" } else { "listening" };
            let mut text = format!("{who} on {}\n", socket.display());
            if let Some(web) = &begun.web {
                let WebResult { url, token_file, .. } = web;
                text.push_str(&format!("serving HTTP on {url}; the token is in {token_file}\n"));
            }
            text.push_str(&match session {
                Some(session) => {
                    format!("{session} runs; use it with {with}greenroom attach {session}\n")
                }
                None => format!("start a session with {with}greenroom new\n"),
            });
            text
        })
    }
}

/// A host runs and nothing else was asked for.
async fn already(host: &HostClient) -> Failure {
    let stats = host.stats().await;
    let who = stats.map(|stats| {
        let running = count(stats.sessions.running, "session");
        format!(" (keeper pid {}, {running} running)", stats.keeper_pid)
    });
    let who = who.unwrap_or_default();
    let socket = host.client.path().display();
    let message = format!("cannot start the host: one runs already{who}, on {socket}");
    Failure::new(FaultKind::Conflict, message)
        .hint("use it with greenroom new and ls, or stop it with greenroom shutdown")
}

/// Until our keeper has ended. The signal was listened to before the first look.
async fn gone(keeper: Option<&mut Child>, child: &mut tokio::signal::unix::Signal) {
    let Some(keeper) = keeper else { return };
    while let Ok(None) = keeper.try_wait() {
        if child.recv().await.is_none() {
            return;
        }
    }
}

/// Until a process that is not our child has ended; for ever if it cannot be watched.
async fn ended(pid: Option<i32>) {
    let open = |pid: i32| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
    let Some(process) = pid.and_then(open) else { return std::future::pending().await };
    let watch = move || {
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
    };
    // A thread that is left waiting does not keep us.
    drop(tokio::task::spawn_blocking(watch).await);
}

/// Waits for the session, for ever if need be; without one it never ends.
async fn session_end(
    host: &HostClient,
    made: Option<&CreateResult>,
) -> Result<ExitStatus, Failure> {
    let Some(made) = made else { return std::future::pending().await };
    let params = WaitParams {
        timeout_ms: WaitParams::MAX_TIMEOUT_MS,
        snapshot: Some(SnapshotChoice::Flag(false)),
        ..WaitParams::new(made.session.clone(), Matcher::new(Test::ProcessExited))
    };
    loop {
        match host.client.wait(&params).await {
            Ok(found) => return Ok(found.exit.unwrap_or_default()),
            Err(error) if error.kind() == FaultKind::Timeout => {}
            Err(error) => return Err(called(&format!("wait for {}", made.session), error)),
        }
    }
}
