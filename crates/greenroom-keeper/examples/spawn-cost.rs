//! What a spawn costs: from asking the keeper to the child's first byte, with few and with many fds
//! held.
//!
//! `cargo run --release -p greenroom-keeper --example spawn-cost` prints medians in microseconds.
//! Build `keeper-host` first (`--examples`): it is the keeper measured. The bare line is the same
//! work without keeper or daemon: this process, which is as small, opens a PTY and starts the
//! program with `std::process`.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use greenroom_keeper::{KeeperEvent, KeeperLink, Launch, SessionId, SpawnSpec};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::pty::OpenptFlags;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 300;

fn main() -> Fallible<()> {
    let dir = std::env::temp_dir().join(format!("gr-spawn-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let control = UnixListener::bind(dir.join("control"))?;
    let program = std::env::current_exe()?.with_file_name("keeper-host");
    let mut keeper =
        Command::new(program).arg("keeper").arg(&dir).stdout(Stdio::piped()).spawn()?;
    let (mut control, _) = control.accept()?;
    let link = KeeperLink::new(receive(control.as_fd())?)?;
    link.hello()?;
    link.recv()?;
    let mut out = std::io::stdout();
    writeln!(out, "{:34} {:>9} {:>9}", "", "spawned", "first byte")?;
    let mut next = 0;
    // Each held session is four fds.
    for held in [2_usize, 500] {
        let mut kept = Vec::new();
        for _ in 0..held {
            next += 1;
            kept.push(spawn(&link, next, "/bin/cat")?);
        }
        let (mut spawned, mut first) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            next += 1;
            let begun = Instant::now();
            let (_, master) = spawn(&link, next, "/bin/echo")?;
            spawned.push(begun.elapsed());
            first_byte(master.as_fd())?;
            first.push(begun.elapsed());
            await_exit(&link, next)?;
            link.release(SessionId(next))?;
        }
        let label = format!("keeper holding {} fds, /bin/echo", held * 4);
        writeln!(out, "{label:34} {:>9} {:>9}", median(spawned), median(first))?;
        for (id, master) in kept {
            drop(master);
            link.signal(SessionId(id), 9, greenroom_keeper::SignalTarget::Leader)?;
            await_exit(&link, id)?;
            link.release(SessionId(id))?;
        }
    }
    let mut bare_times = Vec::new();
    for _ in 0..ROUNDS {
        bare_times.push(bare()?);
    }
    writeln!(out, "{:34} {:>9} {:>9}", "bare spawn, /bin/echo", "", median(bare_times))?;
    control.write_all(&[0])?;
    keeper.wait()?;
    let mut rest = String::new();
    keeper.stdout.take().map(|mut it| it.read_to_string(&mut rest));
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

fn spawn(link: &KeeperLink, id: u64, program: &str) -> Fallible<(u64, OwnedFd)> {
    let argv: &[&str] = if program == "/bin/cat" { &[program] } else { &[program, "x"] };
    let launch = Launch::new(
        argv.iter().map(Into::into).collect(),
        vec![("PATH".into(), "/usr/bin:/bin".into())],
        "/",
        80,
        24,
    );
    let spec = SpawnSpec { launch, ring_bytes: 65536 + 4096, flags: 0 };
    link.spawn(SessionId(id), &spec)?;
    loop {
        match link.recv()?.ok_or("the keeper is gone")? {
            KeeperEvent::Spawned { fds, .. } => return Ok((id, fds.master)),
            // The last word about the session before.
            KeeperEvent::Over { .. } => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
}

fn await_exit(link: &KeeperLink, id: u64) -> Fallible<()> {
    loop {
        match link.recv()?.ok_or("the keeper is gone")? {
            KeeperEvent::Exited { id: got, .. } if got.0 == id => return Ok(()),
            KeeperEvent::Signalled { .. } | KeeperEvent::Over { .. } => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
}

fn first_byte(master: BorrowedFd<'_>) -> Fallible<()> {
    let mut fds = [PollFd::from_borrowed_fd(master, PollFlags::IN)];
    rustix::event::poll(&mut fds, None)?;
    let mut bytes = [0; 64];
    rustix::io::read(master, &mut bytes)?;
    Ok(())
}

fn bare() -> Fallible<Duration> {
    let begun = Instant::now();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    let mut child = Command::new("/bin/echo")
        .arg("x")
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave)
        .spawn()?;
    first_byte(master.as_fd())?;
    let taken = begun.elapsed();
    child.wait()?;
    Ok(taken)
}

fn receive(control: BorrowedFd<'_>) -> Fallible<OwnedFd> {
    let mut pid = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut pid)];
    rustix::net::recvmsg(control, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(fds.next().ok_or("no link came")?)
}

fn median(mut times: Vec<Duration>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2].as_micros()
}
