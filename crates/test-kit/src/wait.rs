//! Waiting for what a test cannot be told about, and the one patience of all tests.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Far longer than anything takes, also on a busy machine: a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that cannot tell us by itself.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until there is an answer.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::park_timeout(PAUSE);
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Whether there is something to read, or an end, before the patience is over.
pub fn readable(fd: impl AsFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(count) => return count > 0,
            Err(Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_readable_and_silence_is_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(!readable(&reader, Duration::from_millis(1)));
        drop(writer);
        assert!(readable(&reader, PATIENCE));
    }

    #[test]
    fn it_looks_until_there_is_an_answer() {
        let mut looks = 0;
        let found = eventually("the third look", || {
            looks += 1;
            (looks == 3).then_some("found")
        });
        assert_eq!((found, looks), ("found", 3));
    }
}
