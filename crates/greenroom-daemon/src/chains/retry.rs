//! Clean-ups that failed: a disk that was full, a directory that could not be written. They are
//! tried again, later and later, until they succeed; a daemon that dies meanwhile leaves them to
//! the next, which begins at once.
//!
//! In: the end of a session whose chain is still open after its clean-up. Out: the chain is done,
//! sometime; until then everybody can see what is wrong. Deliberately absent: giving up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionId;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::server::PendingCleanup;
use greenroom_workspace::spec::SessionEnd;

use super::{Sessions, watch};

/// What is busy for a moment only is free by then.
const FIRST: Duration = Duration::from_secs(2);
/// Somebody has to do something about it; they should not have to wait for us long afterwards.
const MOST: Duration = Duration::from_secs(300);

/// Sessions whose clean-up has to be tried again.
#[derive(Default)]
pub(crate) struct Cleanups(Mutex<BTreeMap<SessionId, Next>>);

#[derive(Clone, Copy)]
struct Next {
    tries: u32,
    at: SystemTime,
}

impl Cleanups {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SessionId, Next>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after so many tries.
fn delay(tries: u32) -> Duration {
    FIRST.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1))).min(MOST)
}

/// After a clean-up: if something of it failed, sees to it that it is tried again.
pub(crate) fn unless_done(sessions: &Arc<Sessions>, end: &SessionEnd) {
    let id = end.id;
    let open =
        move |sessions: &Sessions| sessions.chains.look(id).is_some_and(|file| file.is_open());
    if !open(sessions) {
        sessions.cleanups.all().remove(&id);
        return;
    }
    let next = |tries| Next { tries, at: SystemTime::now() + delay(tries) };
    {
        let mut all = sessions.cleanups.all();
        if all.contains_key(&id) {
            // Somebody asked in between; whoever minds the clock goes on.
            return;
        }
        all.insert(id, next(1));
    }
    let (sessions, end) = (sessions.clone(), end.clone());
    tokio::spawn(async move {
        for tries in 2_u32.. {
            tokio::time::sleep(delay(tries - 1)).await;
            if open(&sessions) {
                tracing::info!(session = %id, tries, "cleaning up once more");
                sessions.chains.finish(&end, &watch(&sessions)).await;
            }
            if !open(&sessions) {
                break;
            }
            sessions.cleanups.all().insert(id, next(tries));
        }
        sessions.cleanups.all().remove(&id);
    });
}

/// What could not be cleaned up yet, and why.
pub(crate) fn pending(sessions: &Sessions) -> Vec<PendingCleanup> {
    let all = sessions.cleanups.all().clone();
    let of = |(id, next): (SessionId, Next)| {
        let outcomes = sessions.chains.look(id).map(|file| file.outcomes()).unwrap_or_default();
        outcomes.into_iter().filter_map(move |outcome| {
            Some(PendingCleanup {
                session: id.to_string(),
                plugin: outcome.plugin,
                why: outcome.failed?,
                tries: next.tries,
                next_at: Timestamp::from_system(next.at),
            })
        })
    };
    all.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_and_later_and_never_too_late() {
        let delays: Vec<u64> = (1..=9).map(|tries| delay(tries).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(delay(u32::MAX), MOST);
    }
}
