//! Bytes of an open way, from one socket to the other.
//!
//! In: two connected sockets. Out: everything the first sends is received by the second, and its end as well. The
//! kernel moves them through a pipe, by reference and never through this process: a download is then hardly slower
//! than without a proxy. Deliberately absent: any look at what passes; that was before.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes on their way in one direction: one system call moves a lot. More than the kernel lets an ordinary user have is
/// not asked for.
const BUFFER: usize = 1024 * 1024;

/// Both directions, until both have ended.
pub async fn both(near: &TcpStream, far: &TcpStream) -> io::Result<()> {
    tokio::try_join!(to_the_end(near, far), to_the_end(far, near))?;
    Ok(())
}

/// Everything `from` sends, and its end.
pub async fn to_the_end(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    up_to(from, to, u64::MAX).await?;
    rustix::net::shutdown(to, rustix::net::Shutdown::Write).or_else(|error| match error {
        // It is gone already.
        rustix::io::Errno::NOTCONN => Ok(()),
        error => Err(error.into()),
    })
}

/// The next `most` bytes of `from`, or fewer if it ends.
pub async fn up_to(from: &TcpStream, to: &TcpStream, most: u64) -> io::Result<()> {
    match most {
        0 => Ok(()),
        _ => Pipe::new()?.carry(from, to, most).await,
    }
}

/// Empty between two steps.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller one works as well.
        let _ = fcntl_setpipe_size(&write, BUFFER);
        Ok(Pipe { read, write })
    }

    async fn carry(&self, from: &TcpStream, to: &TcpStream, most: u64) -> io::Result<()> {
        let mut left = most;
        while left > 0 {
            let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER);
            let mut taken = step(from, Interest::READABLE, || {
                splice(from, None, &self.write, None, wanted, SpliceFlags::NONBLOCK)
            })
            .await?;
            if taken == 0 {
                return Ok(());
            }
            left -= taken as u64;
            while taken > 0 {
                taken -= step(to, Interest::WRITABLE, || {
                    splice(&self.read, None, to, None, taken, SpliceFlags::NONBLOCK)
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// Tries until the socket lets it happen.
async fn step(
    socket: &TcpStream,
    interest: Interest,
    mut splice: impl FnMut() -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    loop {
        socket.ready(interest).await?;
        match socket.try_io(interest, || Ok(splice()?)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
