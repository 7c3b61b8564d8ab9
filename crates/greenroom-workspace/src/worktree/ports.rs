//! Ten ports in a row for a session, so that two of them do not start their servers on one.
//!
//! A lease is a file `<state>/ports/<first>.json` that names its session. It outlives the host and
//! ends with the session's chain; one whose session is not alive any more is taken over.
//! Deliberately absent: keeping others from binding the ports. A port somebody listens on when the
//! lease is made is passed over, that is all.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;
use greenroom_engine::keep::{self, Lasting};
use serde::{Deserialize, Serialize};

use super::error::WorktreeError;
use super::record::make_dir;

/// As many as a stack of a web server, an API, a database and their debuggers takes.
pub const COUNT: u16 = 10;

/// Below the ports Linux gives to outgoing connections (32768 and up), above what services are
/// registered for.
const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;

#[derive(Debug, Serialize, Deserialize)]
struct Lease {
    session: u64,
}

pub struct Ports<'a> {
    pub dir: PathBuf,
    pub is_alive: &'a dyn Fn(SessionId) -> bool,
}

impl Ports<'_> {
    /// The first of ten. `wish` is any number that stays the same for one worktree, so that it
    /// tends to get the same ports.
    pub fn lease(&self, session: SessionId, wish: u64) -> Result<u16, WorktreeError> {
        let _lock = self.lock()?;
        let blocks = u64::from((LAST - FIRST + 1) / COUNT);
        for offset in 0..blocks {
            let block = u16::try_from((wish % blocks + offset) % blocks).expect("below the count");
            let first = FIRST + block * COUNT;
            if self.is_free(first, session)? && bindable(first) {
                let file = self.file(first);
                let text = serde_json::to_vec(&Lease { session: session.0 }).expect("a number");
                keep::write(&file, &text, Lasting::Process)
                    .map_err(WorktreeError::io("write", &file))?;
                return Ok(first);
            }
        }
        Err(WorktreeError::Ports { from: FIRST, to: LAST })
    }

    /// Gives back what a session has.
    pub fn release(&self, session: SessionId) -> Result<(), WorktreeError> {
        if !self.dir.is_dir() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let entries = fs::read_dir(&self.dir).map_err(WorktreeError::io("read", &self.dir))?;
        for entry in entries {
            let file = entry.map_err(WorktreeError::io("read", &self.dir))?.path();
            if read(&file).is_some_and(|lease| lease.session == session.0) {
                fs::remove_file(&file).map_err(WorktreeError::io("remove", &file))?;
            }
        }
        Ok(())
    }

    fn is_free(&self, first: u16, session: SessionId) -> Result<bool, WorktreeError> {
        let file = self.file(first);
        if !file.exists() {
            return Ok(true);
        }
        // Written by rename: one that cannot be read is nobody's.
        Ok(read(&file).is_none_or(|lease| {
            lease.session == session.0 || !(self.is_alive)(SessionId(lease.session))
        }))
    }

    fn file(&self, first: u16) -> PathBuf {
        self.dir.join(format!("{first}.json"))
    }

    fn lock(&self) -> Result<File, WorktreeError> {
        make_dir(&self.dir)?;
        super::lock_dir(&self.dir)
    }
}

fn read(file: &Path) -> Option<Lease> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn bindable(first: u16) -> bool {
    (first..first + COUNT).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_do_not_meet_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let alive = |id: SessionId| id.0 != 9;
        let ports = Ports { dir: dir.path().join("ports"), is_alive: &alive };
        let first = ports.lease(SessionId(1), 7).unwrap();
        let second = ports.lease(SessionId(2), 7).unwrap();
        assert_ne!(first, second);
        assert_eq!(first % COUNT, 0);
        ports.release(SessionId(1)).unwrap();
        assert_eq!(ports.lease(SessionId(3), 7).unwrap(), first);
        ports.release(SessionId(3)).unwrap();
        ports.release(SessionId(3)).unwrap();
        // The dead one's lease is taken over, without anybody having given it back.
        assert_eq!(ports.lease(SessionId(9), 7).unwrap(), first);
        assert_eq!(ports.lease(SessionId(4), 7).unwrap(), first);
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let ports = Ports { dir: dir.path().join("ports"), is_alive: &|_| true };
        let first = ports.lease(SessionId(1), 400).unwrap();
        ports.release(SessionId(1)).unwrap();
        let _busy = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 3)).unwrap();
        assert_ne!(ports.lease(SessionId(1), 400).unwrap(), first);
    }
}
