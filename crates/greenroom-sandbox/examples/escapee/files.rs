//! Files that are none of its business.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Attempt, check, io};

const EVIL: &[u8] = b"evil";

pub fn attempt(name: &str, args: &[&str]) -> Attempt {
    let path = args.first().copied().unwrap_or_default();
    let c_path = CString::new(path).unwrap();
    match name {
        "create" => io(fs::write(path, EVIL)),
        "overwrite" => io(OpenOptions::new().write(true).open(path)).and_then(write),
        "append" => io(OpenOptions::new().append(true).open(path)).and_then(write),
        "open_for_writing" => io(OpenOptions::new().write(true).open(path)).map(drop),
        "read" => {
            let mut byte = [0; 1];
            match io(File::open(path).and_then(|mut file| file.read(&mut byte)))? {
                0 => Err(0),
                _ => Ok(()),
            }
        }
        "rewrite_same" => {
            let text = io(fs::read(path))?;
            io(fs::write(path, text))
        }
        "unlink" => io(fs::remove_file(path)),
        "mkdir" => io(fs::create_dir(path)),
        "rmdir" => io(fs::remove_dir(path)),
        "rename" => io(fs::rename(path, args[1])),
        "write_and_rename" => {
            io(fs::write(path, EVIL))?;
            io(fs::rename(path, args[1]))
        }
        "truncate" => check(unsafe { libc::truncate(c_path.as_ptr(), 0) }).map(drop),
        "truncate_by_open" => {
            let flags = libc::O_RDONLY | libc::O_TRUNC;
            check(unsafe { libc::open(c_path.as_ptr(), flags) }).map(drop)
        }
        "chmod" => io(fs::set_permissions(path, PermissionsExt::from_mode(0o600))),
        "chown" => io(std::os::unix::fs::chown(path, Some(12345), None)),
        "utime" => {
            let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
            check(unsafe { libc::utimensat(libc::AT_FDCWD, c_path.as_ptr(), times.as_ptr(), 0) })
                .map(drop)
        }
        "setxattr" => check(unsafe {
            libc::setxattr(c_path.as_ptr(), c"user.evil".as_ptr(), EVIL.as_ptr().cast(), 4, 0)
        })
        .map(drop),
        "setflags" => {
            const NODUMP: libc::c_long = 0x40;
            let file = io(File::open(path))?;
            let mut flags: libc::c_long = 0;
            let fd = file.as_raw_fd();
            check(unsafe { libc::ioctl(fd, libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
            flags |= NODUMP;
            check(unsafe { libc::ioctl(fd, libc::FS_IOC_SETFLAGS, &raw const flags) }).map(drop)
        }
        // A read-only mount does not keep anybody from writing to a pipe in it.
        "write_pipe" => {
            let file = io(OpenOptions::new().read(true).write(true).open(path))?;
            write(file)
        }
        "symlink_write" => {
            io(symlink(args[1], path))?;
            io(OpenOptions::new().write(true).truncate(true).open(path)).and_then(write)
        }
        "symlink_dir" => {
            io(symlink(args[1], path))?;
            io(fs::write(format!("{path}/new"), EVIL))
        }
        "symlink_race" => race(path, args[1]),
        "hardlink" => {
            io(fs::hard_link(args[1], path))?;
            io(OpenOptions::new().write(true).open(path)).and_then(write)
        }
        "mknod" => {
            let device = libc::makedev(1, 3);
            check(unsafe { libc::mknod(c_path.as_ptr(), libc::S_IFCHR | 0o666, device) }).map(drop)
        }
        "suid" => suid(path, args[1]),
        "run_suid" => {
            let output = io(std::process::Command::new(path).arg("euid").output())?;
            if output.stdout.starts_with(b"euid 0\n") { Ok(()) } else { Err(0) }
        }
        "inherited_file" => write(unsafe { File::from_raw_fd(args[0].parse().unwrap()) }),
        "inherited_dir" => {
            let flags = libc::O_CREAT | libc::O_WRONLY;
            let dir = args[0].parse().unwrap();
            check(unsafe { libc::openat(dir, c"new".as_ptr(), flags, 0o600) }).map(drop)
        }
        other => panic!("no attempt {other}"),
    }
}

fn write(mut file: File) -> Attempt {
    io(file.write_all(EVIL))
}

/// Opens a name that is now a file of its own and now a symlink to somebody else's.
fn race(path: &str, target: &str) -> Attempt {
    let stop = AtomicBool::new(false);
    let own = format!("{path}.own");
    let link = format!("{path}.link");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::write(&own, b"mine").and_then(|()| fs::rename(&own, path));
                let _ = symlink(target, &link).and_then(|()| fs::rename(&link, path));
            }
        });
        for _ in 0..10_000 {
            if let Ok(file) = OpenOptions::new().append(true).open(path) {
                let _ = write(file);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Judged by its effect.
    Ok(())
}

/// Makes a file set-user-id, by one of the ways there are.
fn suid(path: &str, way: &str) -> Attempt {
    const SYS_FCHMODAT2: libc::c_long = 452;
    let c_path = CString::new(path).unwrap();
    let mode = 0o4755;
    let result = match way {
        "chmod" => io(fs::write(path, EVIL))
            .and_then(|()| check(unsafe { libc::chmod(c_path.as_ptr(), mode) })),
        "fchmodat2" => io(fs::write(path, EVIL)).and_then(|()| {
            check(unsafe { libc::syscall(SYS_FCHMODAT2, libc::AT_FDCWD, c_path.as_ptr(), mode, 0) })
        }),
        "open" => io(OpenOptions::new().write(true).create(true).mode(mode).open(path)).map(|_| 0),
        "openat2" => {
            let how: [u64; 3] = [(libc::O_CREAT | libc::O_WRONLY) as u64, mode.into(), 0];
            check(unsafe {
                libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, c_path.as_ptr(), how.as_ptr(), 24)
            })
        }
        other => panic!("no way {other}"),
    };
    result?;
    let made = io(fs::metadata(path))?.permissions().mode();
    if made & 0o4000 != 0 { Ok(()) } else { Err(0) }
}
