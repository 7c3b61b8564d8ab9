//! Logins of agents in confined sessions, while these run: who refreshes a token, inside or
//! outside, does it for both.
//!
//! In: the copies a session has, from its chain's notes. Out: both files at the fresher state, soon
//! after either changed. What may come out of a session is `greenroom_workspace::sandbox`'s to
//! judge. The kernel tells of changes; where it has no room for another watch, both are looked at
//! now and then. At the session's end its plugin does it once more.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::SessionHandle;
use greenroom_workspace::sandbox::{self, Login};
use rustix::fs::inotify;
use tokio::net::unix::pipe;
use tokio::task::AbortHandle;

use super::Sessions;

/// Files are often written twice in a row.
const SETTLED: Duration = Duration::from_millis(50);
/// A session that changes its copy all the time is followed no faster.
const PACE: Duration = Duration::from_millis(500);
/// Without the kernel's help.
const NOW_AND_THEN: Duration = Duration::from_secs(10);

/// Follows until it is aborted, if the session has logins.
pub(crate) fn follow(sessions: &Arc<Sessions>, handle: &SessionHandle) -> Option<AbortHandle> {
    let id = handle.id();
    let logins =
        sandbox::noted(sessions.chains.look(id)?.step(sandbox::ABOUT.name)?.state())?.logins;
    if logins.is_empty() {
        return None;
    }
    Some(tokio::spawn(async move {
        let changes = Changes::of(&logins);
        if let Err(error) = &changes {
            tracing::debug!(session = %id, %error, "no watch on its logins");
        }
        let changes = changes.ok();
        // At once: the daemon before this one may have missed something.
        loop {
            let all = logins.clone();
            let work = tokio::task::spawn_blocking(move || {
                for login in &all {
                    if let Err(error) = login.exchange() {
                        tracing::warn!(login = %login.real.display(), %error, "keeping it fresh");
                    }
                }
            });
            let _ = work.await;
            tokio::time::sleep(PACE).await;
            match &changes {
                Some(changes) => changes.next(&logins).await,
                None => tokio::time::sleep(NOW_AND_THEN).await,
            }
            tokio::time::sleep(SETTLED).await;
        }
    })
    .abort_handle())
}

/// The directories of both files, watched.
struct Changes {
    /// Events are read from it as from a pipe.
    events: pipe::Receiver,
}

impl Changes {
    fn of(logins: &[Login]) -> std::io::Result<Changes> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let files = logins.iter().flat_map(|login| [&login.real, &login.own]);
        let dirs: BTreeSet<&Path> = files.filter_map(|file| file.parent()).collect();
        let what = inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::ONLYDIR;
        for dir in dirs {
            // An agent that was never used outside has nothing there.
            if dir.exists() {
                inotify::add_watch(&fd, dir, what)?;
            }
        }
        Ok(Changes { events: pipe::Receiver::from_owned_fd_unchecked(fd)? })
    }

    /// Until something changed that has the name of a login.
    async fn next(&self, logins: &[Login]) {
        let mut space = [0; 4096];
        loop {
            let read = match self.events.readable().await {
                Ok(()) => self.events.try_read(&mut space),
                Err(error) => Err(error),
            };
            match read {
                Ok(bytes) if named(&space[..bytes], logins) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return tokio::time::sleep(NOW_AND_THEN).await,
            }
        }
    }
}

/// Whether one of the events is about a file with the name of a login. Each is four numbers, the
/// last of which says how long the name behind it is, filled up with zeroes.
fn named(mut events: &[u8], logins: &[Login]) -> bool {
    while let Some((head, rest)) = events.split_first_chunk::<16>() {
        let length = u32::from_ne_bytes([head[12], head[13], head[14], head[15]]) as usize;
        let Some((name, rest)) = rest.split_at_checked(length) else { return true };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let name = OsStr::from_bytes(&name[..end]);
        // Without a name it is the kernel's word that some were lost.
        if name.is_empty() || logins.iter().any(|login| login.real.file_name() == Some(name)) {
            return true;
        }
        events = rest;
    }
    false
}
