//! Disks: a small one that is soon full, and the node of a real one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, taken away at the end.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, and said, where this user may not mount.
    pub fn mount(at: &Path, bytes: u64) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).unwrap();
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        let run = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        if run.is_ok_and(|run| run.status.success()) {
            return Some(SmallDisk(at.into()));
        }
        eprintln!("NOT RUN on a small disk: mounting a tmpfs is not permitted here");
        None
    }

    /// Takes all the room that is left.
    pub fn fill(&self, file: &Path) {
        let rest = rustix::fs::statvfs(&self.0).unwrap();
        let more = (rest.f_bfree + 1) * rest.f_frsize;
        let filled = std::fs::write(file, vec![1; usize::try_from(more).unwrap()]);
        assert!(filled.is_err(), "the disk is full now");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// The node of some disk of this machine, or one that is not there.
pub fn node() -> String {
    let mut disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let has_room = |it: &std::fs::DirEntry| {
        std::fs::read_to_string(it.path().join("size")).is_ok_and(|size| size.trim() != "0")
    };
    let disk = disks.find(has_room);
    disk.map_or("/dev/none".into(), |it| format!("/dev/{}", it.file_name().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_disk_takes_no_more_and_is_taken_away() {
        let dir = crate::place::private();
        let at = dir.path().join("disk");
        let Some(disk) = SmallDisk::mount(&at, 1 << 20) else { return };
        disk.fill(&at.join("hog"));
        assert!(std::fs::write(at.join("more"), [7; 9000]).is_err());
        drop(disk);
        assert!(std::fs::write(at.join("more"), [7; 9000]).is_ok());
    }
}
