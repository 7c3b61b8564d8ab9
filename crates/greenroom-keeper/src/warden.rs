//! The warden of a session: a process between the keeper and the program, below whom everything
//! stays that the program starts.
//!
//! It is forked from the keeper, shares its memory page by page, and is the reaper of its orphans,
//! so a double fork, a session of their own or a cleared environment leads nobody out
//! (`greenroom_sandbox::stage::watch`). It tells the keeper who the program is and how it ended, by
//! records on one pipe that all wardens write; stays while anything of the session lives; ends all
//! of it when asked, or when the keeper dies; and then ends itself. Not held: a warden that is
//! killed itself. Its orphans then come home to the keeper, which ends them (`strays.rs`).
//! Sandboxed sessions have none: their stage does this.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::pipe::PipeFlags;

use crate::fds;

/// Warden, kind, value: three numbers. Far below what a pipe takes in one piece, so records are
/// never mixed.
pub(crate) const RECORD_BYTES: usize = 12;
/// Records read at once.
const BATCH: usize = 64;

/// What a warden says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WardenEvent {
    /// exec is through: this is the program.
    Started(i32),
    /// The program ended with this status, as `wait` gives it.
    Ended(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) warden: i32,
    pub(crate) event: WardenEvent,
}

impl Record {
    pub(crate) fn encode(self) -> [u8; RECORD_BYTES] {
        let (kind, value) = match self.event {
            WardenEvent::Started(pid) => (1, pid),
            WardenEvent::Ended(status) => (2, status),
        };
        let mut bytes = [0; RECORD_BYTES];
        for (place, number) in bytes.chunks_mut(4).zip([self.warden, kind, value]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        let number = |at: usize| -> Option<i32> {
            Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let event = match number(4)? {
            1 => WardenEvent::Started(number(8)?),
            2 => WardenEvent::Ended(number(8)?),
            _ => return None,
        };
        Some(Record { warden: number(0)?, event })
    }
}

/// The pipe on which wardens talk. Both ends outlive the keeper's image: the wardens do.
#[derive(Debug)]
pub(crate) struct Reports {
    read: OwnedFd,
    write: OwnedFd,
}

impl Reports {
    pub(crate) fn open() -> io::Result<Reports> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Only our own reading must not wait.
        let flags = rustix::fs::fcntl_getfl(&read)?;
        rustix::fs::fcntl_setfl(&read, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Reports { read: fds::lift(read)?, write: fds::lift(write)? })
    }

    pub(crate) fn adopt(read: RawFd, write: RawFd) -> io::Result<Reports> {
        Ok(Reports { read: fds::adopt(read)?, write: fds::adopt(write)? })
    }

    pub(crate) fn for_wardens(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    pub(crate) fn numbers(&self) -> (RawFd, RawFd) {
        use std::os::fd::AsRawFd;
        (self.read.as_raw_fd(), self.write.as_raw_fd())
    }

    /// What has been said since the last look.
    pub(crate) fn next(&self) -> Vec<Record> {
        let mut bytes = [0; RECORD_BYTES * BATCH];
        match rustix::io::read(&self.read, &mut bytes) {
            Ok(read) => bytes[..read].chunks(RECORD_BYTES).filter_map(Record::decode).collect(),
            Err(_) => Vec::new(),
        }
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_went() {
        let reports = Reports::open().unwrap();
        assert_eq!(reports.next(), []);
        let records = [
            Record { warden: 7, event: WardenEvent::Started(8) },
            Record { warden: 9, event: WardenEvent::Ended(-1) },
        ];
        for record in records {
            rustix::io::write(reports.for_wardens(), &record.encode()).unwrap();
        }
        assert_eq!(reports.next(), records);
        rustix::io::write(reports.for_wardens(), &[0; RECORD_BYTES]).unwrap();
        assert_eq!(reports.next(), [], "nonsense is passed over");
    }
}
