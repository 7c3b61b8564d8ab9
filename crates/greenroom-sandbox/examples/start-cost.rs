//! What a sandbox costs at the start: from spawn to exit of `true`, bare and caged, in turns.
//!
//! `cargo run --release --example start-cost -- [ROUNDS]`. The stage is this program itself.
//! Medians of one run are comparable with each other, not with another machine's.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement, not shipped"
)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use greenroom_sandbox::launch::Launch;
use greenroom_sandbox::plan::{Plan, compile};
use greenroom_sandbox::policy::{Level, Network, Policy};
use greenroom_sandbox::probe::probe;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Until it runs, until it has ended, and the CPU time of all its processes, which a busy machine
/// disturbs least.
type Times = (Duration, Duration, Duration);
type Row = (&'static str, Box<dyn Fn() -> Times>);

fn main() {
    let arg = std::env::args().nth(1);
    match arg.as_deref() {
        Some("__sandbox-exec") => greenroom_sandbox::stage::Stages::prepare().enter(),
        Some("nothing") => return,
        _ => {}
    }
    let rounds: usize = arg.and_then(|arg| arg.parse().ok()).unwrap_or(200);
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().canonicalize().unwrap();
    for name in ["work", "tmp", ".ssh", ".gnupg", ".aws"] {
        std::fs::create_dir(path.join(name)).unwrap();
    }
    let policy = |level| Policy {
        hidden: [".ssh", ".gnupg", ".aws", ".config/gh"].map(|it| path.join(it)).into(),
        ..Policy::new(level, path.join("work"), path.join("tmp"))
    };
    let began = Instant::now();
    let probe = probe();
    println!("probe {:?}", began.elapsed());
    let full = compile(&policy(Level::Full), &probe).unwrap();
    let open = Policy { network: Network::Open, ..policy(Level::Full) };
    let open = compile(&open, &probe).unwrap();
    let reduced = compile(&policy(Level::Reduced), &probe).ok();
    let mut rows: Vec<Row> = vec![
        ("bare", Box::new(|| timed(Command::new("/bin/true")))),
        (
            "this program, doing nothing",
            Box::new(|| {
                let mut command = Command::new("/proc/self/exe");
                command.arg("nothing");
                timed(command)
            }),
        ),
        ("full", Box::new(move || caged(&full))),
        ("full, open network", Box::new(move || caged(&open))),
    ];
    if let Some(reduced) = reduced {
        rows.push(("reduced", Box::new(move || caged(&reduced))));
    }
    let mut times: Vec<Vec<Times>> = vec![Vec::new(); rows.len()];
    for _ in 0..rounds {
        for ((_, run), times) in rows.iter().zip(&mut times) {
            times.push(run());
        }
    }
    let median = |times: &[Times], which: fn(&Times) -> Duration| {
        let mut times: Vec<Duration> = times.iter().map(which).collect();
        times.sort();
        (times[times.len() / 2], times[0])
    };
    for (what, which) in
        [("runs", (|it| it.0) as fn(&Times) -> Duration), ("ended", |it| it.1), ("cpu", |it| it.2)]
    {
        let bare = median(&times[0], which).0;
        for ((name, _), times) in rows.iter().zip(&times) {
            let (median, least) = median(times, which);
            let over = median.saturating_sub(bare);
            println!("{what:6} {name}: median {median:?}, least {least:?}, over bare {over:?}");
        }
    }
}

fn timed(command: Command) -> Times {
    timed_until(command, || {})
}

fn timed_until(mut command: Command, runs: impl FnOnce()) -> Times {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let before = cpu();
    let began = Instant::now();
    // Returns after exec.
    let mut child = command.spawn().unwrap();
    drop(command);
    runs();
    let running = began.elapsed();
    assert!(child.wait().unwrap().success());
    (running, began.elapsed(), cpu() - before)
}

/// The time of every child that was waited for, and of theirs.
fn cpu() -> Duration {
    // SAFETY: writes one struct of this frame.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn caged(plan: &Plan) -> Times {
    let launch = Launch::new(vec!["/bin/true".into()], Vec::new(), plan.policy.cwd.clone(), 80, 24);
    let sealed = plan.seal(&launch).unwrap();
    let kind = SocketType::SEQPACKET;
    let (ours, theirs): (OwnedFd, OwnedFd) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let mut command = Command::new("/proc/self/exe");
    command.arg("__sandbox-exec").env_clear();
    let (plan, control) = (sealed.as_raw_fd(), theirs.as_raw_fd());
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let plan = libc::fcntl(plan, libc::F_DUPFD_CLOEXEC, 10);
            let control = libc::fcntl(control, libc::F_DUPFD_CLOEXEC, 10);
            libc::dup2(plan, 3);
            libc::dup2(control, 4);
            libc::setsid();
            Ok(())
        });
    }
    // Its end closes the last copy of their socket, once ours is gone too.
    let kept = std::cell::Cell::new(None);
    timed_until(command, || {
        drop(theirs);
        // Not read: the master of its terminal is in there, and would be closed.
        let mut fds = [PollFd::new(&ours, PollFlags::empty())];
        rustix::event::poll(&mut fds, None).unwrap();
        kept.set(Some(ours));
    })
}
