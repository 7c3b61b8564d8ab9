//! The memory that outlives the daemon: a memfd, held by the keeper, mapped here.
//!
//! Layout: one control page of 64-bit words (each on its own cache line), the note area, the data.
//! `data[seq % size]` holds the byte numbered `seq`. In comes the memfd; out go atomic words and
//! byte slices. This file holds the journal's `unsafe`: the mapping, and the slices into it.
//! Deliberately absent: the order in which the words are stored (`pump`, `files`) and what they
//! mean after a kill (`recover`).
//!
//! # Who writes what
//!
//! | word | writer | meaning |
//! |---|---|---|
//! | `Tail` (W) | session actor | `(T << 1) \| draining` |
//! | `Spilled` | helper, by compare-exchange; the actor when it gives bytes up | everything below is in files (or a gap) |
//! | `NoteHead` / `NoteTail` | actor / helper | byte offsets of the note area, ever growing |
//! | `GapFrom`, `GapTo` | actor opens and extends, helper closes | bytes given up and not yet in an index |
//!
//! Data bytes in `[Spilled, T)` are only read (helper, actor); bytes outside that window belong to
//! the actor, who alone may write them. The helper's store to `Spilled` is a release that the actor
//! acquires before it reuses the room; the actor publishes T with a release that the helper
//! acquires before it reads. So no byte is read and written at once by two threads of ours.
//!
//! # Kills
//!
//! A kill stops a thread between two instructions: the stores before that point in program order
//! have happened, those after have not. What is needed is therefore only that the *compiler* keeps
//! program order between the words and the system calls, which release stores and opaque system
//! calls do. The next daemon looks after `waitpid`, so every store is visible to it.
#![allow(unsafe_code, reason = "a mapping shared with the next daemon cannot be had without")]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::limits::{CONTROL_BYTES, DATA_MAX, DATA_MIN, HEADER_BYTES, NOTE_BYTES};

/// "greenrng" in a little-endian word.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"greenrng");
/// An upgrade meets rings of the version before: whoever changes the layout
/// must go on reading the old one, or the unspilled bytes are lost.
pub(super) const VERSION: u64 = 1;

/// The words of the control page, by byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Word {
    Magic = 0,
    Version = 8,
    DataBytes = 16,
    /// 0 = pipe, 1 = trailing scan (see `pump`).
    Mode = 24,
    /// `cols << 16 | rows` at creation, for a kill before the first file.
    Size = 32,
    Tail = 64,
    Spilled = 128,
    NoteHead = 192,
    NoteTail = 256,
    GapFrom = 320,
    GapTo = 384,
    /// Fallback only: end of the zeroed room that a read may have reached.
    ScanEnd = 448,
}

pub(super) struct Ring {
    base: NonNull<u8>,
    map_bytes: usize,
    data_bytes: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is plain memory that lives as long as the value; all shared access goes
// through atomics or through slices whose windows are kept apart by the protocol in the module doc.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps the whole memfd. `Ok(None)`: its size is not acceptable.
    pub(super) fn map(fd: OwnedFd) -> io::Result<Option<Ring>> {
        let bytes = rustix::fs::fstat(&fd)?.st_size;
        let Some(data_bytes) =
            usize::try_from(bytes).ok().and_then(|b| b.checked_sub(HEADER_BYTES))
        else {
            return Ok(None);
        };
        if !(DATA_MIN..=DATA_MAX).contains(&data_bytes) || data_bytes % 4096 != 0 {
            return Ok(None);
        }
        // A shrunken memfd would turn loads into SIGBUS. The keeper may have
        // made it without sealing, then its own discipline has to do.
        let _ = rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW);
        let map_bytes = HEADER_BYTES + data_bytes;
        // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                map_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).expect("mmap never returns null on success");
        Ok(Some(Ring { base, map_bytes, data_bytes, fd }))
    }

    pub(super) fn word(&self, word: Word) -> &AtomicU64 {
        // SAFETY: the offset is inside the control page, 8-aligned (the page
        // is page-aligned), and only ever accessed as an atomic.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(word as usize).cast()) }
    }

    pub(super) fn load(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    pub(super) fn store(&self, word: Word, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes as u64
    }

    /// Splits `[from, to)` at the wrap: (offset, length) twice, from `base`.
    fn split(at: u64, len: usize, size: usize, base: usize) -> [(usize, usize); 2] {
        assert!(len <= size, "a range longer than the area would overlap itself");
        let start = (at % size as u64) as usize;
        let first = len.min(size - start);
        [(base + start, first), (base, len - first)]
    }

    /// The data bytes numbered `[from, to)`.
    ///
    /// # Safety
    /// No thread writes that window while the slices live.
    pub(super) unsafe fn data(&self, from: u64, to: u64) -> (&[u8], &[u8]) {
        let [a, b] = self.data_split(from, to);
        // SAFETY: `split` keeps both parts inside the mapping; the caller keeps writers away.
        unsafe {
            (
                std::slice::from_raw_parts(self.base.as_ptr().add(a.0), a.1),
                std::slice::from_raw_parts(self.base.as_ptr().add(b.0), b.1),
            )
        }
    }

    /// The room for the bytes numbered `[from, to)`.
    ///
    /// # Safety
    /// The caller is the actor, and the window is outside `[Spilled, T)`, so
    /// nobody else touches it; no other slice of it lives.
    #[allow(clippy::mut_from_ref, reason = "exclusive by protocol, see the module doc")]
    pub(super) unsafe fn data_mut(&self, from: u64, to: u64) -> (&mut [u8], &mut [u8]) {
        let [a, b] = self.data_split(from, to);
        // SAFETY: `split` keeps both parts inside the mapping and apart from
        // each other; the caller owns the window.
        unsafe {
            (
                std::slice::from_raw_parts_mut(self.base.as_ptr().add(a.0), a.1),
                std::slice::from_raw_parts_mut(self.base.as_ptr().add(b.0), b.1),
            )
        }
    }

    fn data_split(&self, from: u64, to: u64) -> [(usize, usize); 2] {
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
        Self::split(from, len, self.data_bytes, HEADER_BYTES)
    }

    /// Copies a note in at byte offset `at` of the note area.
    ///
    /// # Safety
    /// The caller is the actor, and `[at, at + bytes)` is outside `[NoteTail, NoteHead)`.
    pub(super) unsafe fn put_note(&self, at: u64, bytes: &[u8]) {
        let [a, b] = Self::split(at, bytes.len(), NOTE_BYTES, CONTROL_BYTES);
        // SAFETY: inside the mapping by `split`; the helper reads only below
        // `NoteHead`, which the actor moves afterwards.
        unsafe {
            self.base.as_ptr().add(a.0).copy_from_nonoverlapping(bytes.as_ptr(), a.1);
            self.base.as_ptr().add(b.0).copy_from_nonoverlapping(bytes.as_ptr().add(a.1), b.1);
        }
    }

    /// Copies the notes `[tail, head)` out. Only for the holder of the
    /// helper's role; the actor does not write below `NoteHead`.
    pub(super) fn notes(&self, tail: u64, head: u64, out: &mut Vec<u8>) {
        let len = head.saturating_sub(tail).min(NOTE_BYTES as u64) as usize;
        for (at, len) in Self::split(tail, len, NOTE_BYTES, CONTROL_BYTES) {
            // SAFETY: inside the mapping by `split`; `[NoteTail, NoteHead)` is
            // not written until the helper moves `NoteTail`.
            out.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.base.as_ptr().add(at), len)
            });
        }
    }

    /// Gives all pages but the control page back to the system.
    pub(super) fn punch(&self) -> io::Result<()> {
        let at = CONTROL_BYTES as u64;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.fd, flags, at, self.map_bytes as u64 - at)?)
    }

    /// Makes all pages present, so that a plain `read` into them cannot fault
    /// (the fallback mode depends on it as far as anything can).
    pub(super) fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is exactly our mapping; populating changes no byte.
        unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().cast(),
                self.map_bytes,
                rustix::mm::Advice::LinuxPopulateWrite,
            )?;
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no slice outlives the value.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.map_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range");
    }
}
