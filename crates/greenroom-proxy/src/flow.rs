//! Bytes of an open way, from one socket to the other.
//!
//! In: two connected sockets. Out: everything the first sends is received by the second, and its
//! end as well. A way that carries a lot gets a large buffer: few, large reads let the two ends
//! work while we sleep. (By reference through a pipe, with `splice`, is slower here: the sender
//! then finds no warm page to write to.) Deliberately absent: any look at what passes; that was
//! before.

use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// What a way begins with, and goes back to when it rests.
const SMALL: usize = 16 * 1024;

/// What it grows to, as long as it fills it.
const LARGE: usize = 1024 * 1024;

/// So long without a byte is a rest.
const REST: Duration = Duration::from_secs(1);

/// Both directions, until both have ended.
pub(crate) async fn both(near: &TcpStream, far: &TcpStream) -> io::Result<()> {
    tokio::try_join!(to_the_end(near, far), to_the_end(far, near))?;
    Ok(())
}

/// Everything `from` sends, and its end.
pub(crate) async fn to_the_end(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    up_to(from, to, u64::MAX).await?;
    rustix::net::shutdown(to, rustix::net::Shutdown::Write).or_else(|error| match error {
        // It is gone already.
        rustix::io::Errno::NOTCONN => Ok(()),
        error => Err(error.into()),
    })
}

/// The next `most` bytes of `from`, or fewer if it ends.
pub(crate) async fn up_to(from: &TcpStream, to: &TcpStream, most: u64) -> io::Result<()> {
    let mut left = most;
    let mut buffer = Vec::new();
    while left > 0 {
        // Two ends that are always ready must not keep a thread from everybody else.
        tokio::task::coop::consume_budget().await;
        if buffer.is_empty() {
            buffer = vec![0; SMALL];
        }
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = step(from, Interest::READABLE, || from.try_read(&mut buffer[..wanted]));
        let Ok(taken) = tokio::time::timeout(REST, read).await else {
            // Nothing was read: a step that was given up has done nothing.
            buffer = Vec::new();
            from.readable().await?;
            continue;
        };
        let taken = taken?;
        if taken == 0 {
            return Ok(());
        }
        left -= taken as u64;
        let mut rest = &buffer[..taken];
        while !rest.is_empty() {
            let sent = step(to, Interest::WRITABLE, || to.try_write(rest)).await?;
            rest = &rest[sent..];
        }
        if taken == buffer.len() && taken < LARGE {
            buffer = vec![0; taken * 4];
        }
    }
    Ok(())
}

/// Tries until the socket lets it happen.
async fn step(
    socket: &TcpStream,
    interest: Interest,
    mut attempt: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.ready(interest).await?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
