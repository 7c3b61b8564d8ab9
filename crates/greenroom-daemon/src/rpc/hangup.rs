//! Whether anybody can still hear us: the other end closed altogether, and not only its sending
//! side.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The kernel is asked this often: only about clients that send no more and wait for an answer.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Until nobody reads any more what is written to `end`, a socket or a pipe. A file is never
/// closed.
pub async fn closed(end: impl AsFd) {
    while !is_closed(&end) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_closed(end: &impl AsFd) -> bool {
    // No flag is asked for: the kernel reports HUP and ERR in any case.
    let mut ends = [PollFd::new(end, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answered = poll(&mut ends, Some(&now)).is_ok();
    answered && ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_closed_sending_side_is_not_the_end() {
        let (mut here, there) = UnixStream::pair().unwrap();
        assert!(!is_closed(&here));
        there.shutdown(Shutdown::Write).unwrap();
        assert!(!is_closed(&here));
        here.write_all(b"x").unwrap();
        drop(there);
        assert!(is_closed(&here));
    }

    #[test]
    fn a_pipe_without_a_reader_is_and_a_file_never() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!is_closed(&writer));
        drop(reader);
        assert!(is_closed(&writer));
        assert!(!is_closed(&std::fs::File::open("/proc/self/exe").unwrap()));
    }
}
