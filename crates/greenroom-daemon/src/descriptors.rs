//! File descriptors: who must not have the last ones.
//!
//! Every session and every connection holds some. A host that has none left could neither list nor
//! end what holds them; so the last are kept for answers, and whoever would take them is refused
//! with a sentence. Absent on purpose: counting on every request; far from the limit nothing is
//! counted.

use std::time::{Duration, Instant};

use greenroom_protocol::{Fault, FaultKind};
use rustix::process::{Resource, getrlimit};

/// What listing, ending and shutting down need at once: connections, `/proc`, the database, a
/// clean-up's pipes.
const FOR_ANSWERS: u64 = 16;
/// A session's: terminal, pipe, ring, recording, and what its sandbox has.
const OF_A_SESSION: u64 = 6;
/// Those of them that its recording has.
const OF_A_RECORDING: u64 = 2;
/// Descriptors for the daemon itself.
const OF_THE_HOST: u64 = 64;
/// Connections at once, however many descriptors there are: each may hold a few queues, and a
/// runaway script must not hold them all.
const CONNECTIONS_MAX: u64 = 4096;
/// So many are admitted in any case.
const CONNECTIONS_MIN: u64 = 8;
/// How long a session that has ended may take to close its descriptors.
const CLOSING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How many connections there may be at once.
pub(crate) fn connections_max() -> u64 {
    (limit() / 4).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

/// Who holds descriptors, or soon will.
pub(crate) struct Holders {
    /// Sessions whose programs run.
    pub(crate) sessions: u64,
    /// Sessions that are being started, the one that is asked for among them.
    pub(crate) starting: u64,
    pub(crate) connections: u64,
}

/// Whether one more session leaves enough for answers. A session that has just ended gives its
/// descriptors back a moment later, so nobody is refused before that moment is over.
pub(crate) async fn room_for_a_session(holders: impl Fn() -> Holders) -> Result<(), Fault> {
    let limit = limit();
    let deadline = Instant::now() + CLOSING;
    loop {
        let holders = holders();
        let all = holders.sessions + holders.starting;
        let likely = all.saturating_mul(OF_A_SESSION) + holders.connections + OF_THE_HOST;
        if likely <= limit / 2 {
            return Ok(());
        }
        match judge(held(&holders, limit), limit) {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(LOOK_AGAIN).await,
            judged => return judged,
        }
    }
}

/// What is open, and what others will open: a session's recording is opened after it was answered.
fn held(holders: &Holders, limit: u64) -> u64 {
    // A directory that cannot be opened means that no descriptor is left.
    let Ok(fds) = std::fs::read_dir("/proc/self/fd") else { return limit };
    let (mut open, mut recordings) = (0, 0);
    for fd in fds.flatten() {
        open += 1;
        let leads_to = std::fs::read_link(fd.path()).unwrap_or_default();
        recordings += u64::from(leads_to.extension().is_some_and(|it| it == "seg" || it == "idx"));
    }
    let promised = holders.starting.saturating_sub(1).saturating_mul(OF_A_SESSION);
    open + promised + (holders.sessions * OF_A_RECORDING).saturating_sub(recordings)
}

fn judge(open: u64, limit: u64) -> Result<(), Fault> {
    if open + OF_A_SESSION + FOR_ANSWERS <= limit {
        return Ok(());
    }
    let message = format!(
        "cannot start another session: {open} of the host's {limit} file descriptors are in use, and the last are kept for answers"
    );
    Err(Fault::new(FaultKind::Busy, message).hint(
        "end sessions with greenroom kill, or start the host with a higher limit (ulimit -n)",
    ))
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        assert!(judge(42, 64).is_ok());
        let fault = judge(43, 64).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Busy);
        assert!(fault.message.contains("43 of the host's 64"), "{}", fault.message);
        assert!(judge(u64::from(u32::MAX), 64).is_err());
    }

    /// Sessions whose recordings are not open yet, and others that are being started, hold theirs.
    #[test]
    fn what_will_be_opened_counts() {
        let held = |sessions, starting| {
            held(&Holders { sessions, starting, connections: 0 }, u64::from(u32::MAX))
        };
        assert!(held(1000, 1) >= 2000);
        assert!(held(0, 1001) >= 6000);
        assert!(held(0, 1) < 1000);
    }

    #[tokio::test]
    async fn far_from_the_limit_nothing_is_counted() {
        let holders = || Holders { sessions: 0, starting: 1, connections: 0 };
        assert!(room_for_a_session(holders).await.is_ok());
        assert!((CONNECTIONS_MIN..=CONNECTIONS_MAX).contains(&connections_max()));
    }
}
