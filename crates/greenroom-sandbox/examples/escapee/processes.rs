//! Processes that are none of its business.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;

use crate::{Attempt, check, io};

/// Attempts on a process, which must be the victim's: the same attempts run as controls, with
/// nothing in their way.
const ON_PROCESS: [&str; 12] = [
    "ptrace",
    "read_memory",
    "steal_fd",
    "kill",
    "prlimit",
    "setpriority",
    "setaffinity",
    "oom_score",
    "open_proc",
    "read_link",
    "enter_root",
    "read_environ",
];

pub fn attempt(name: &str, args: &[&str]) -> Attempt {
    let pid: i32 = match (ON_PROCESS.contains(&name), args.first()) {
        (true, Some(pid)) => pid.parse().expect("the number of a process"),
        _ => 0,
    };
    // 0, 1 and -1 are "me", the machine's first process and "everybody": never a victim. Only
    // inside is 1 somebody else.
    let inside = std::env::var_os("GREENROOM_SANDBOX").is_some_and(|level| level == "full");
    let allowed = pid > 1 || (pid == 1 && inside && name == "ptrace");
    assert!(!ON_PROCESS.contains(&name) || allowed, "{name} on process {pid}");
    match name {
        "ptrace" => {
            check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) })?;
            Ok(())
        }
        "read_memory" => {
            let mut byte = 0_u8;
            let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            // Where its image is: the same program as this one, so an address of ours is one of
            // its.
            let remote =
                libc::iovec { iov_base: args[1].parse::<usize>().unwrap() as _, iov_len: 1 };
            check(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) } as i64).map(drop)
        }
        "steal_fd" => {
            let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
            check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, fd, 0, 0) }).map(drop)
        }
        "kill" => check(unsafe { libc::kill(pid, libc::SIGUSR1) }).map(drop),
        "prlimit" => {
            let limit = libc::rlimit { rlim_cur: 7, rlim_max: 7 };
            check(unsafe { libc::prlimit(pid, libc::RLIMIT_CORE, &limit, std::ptr::null_mut()) })
                .map(drop)
        }
        "setpriority" => {
            check(unsafe { libc::setpriority(libc::PRIO_PROCESS, pid as u32, 15) }).map(drop)
        }
        "setaffinity" => {
            let mask = [1_u64];
            check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, pid, 8, mask.as_ptr()) })
                .map(drop)
        }
        "oom_score" => io(fs::write(format!("/proc/{pid}/oom_score_adj"), "500")),
        "open_proc" => {
            let path = format!("/proc/{pid}/{}", args[1]);
            io(fs::File::open(path)).map(drop)
        }
        "read_link" => io(fs::read_link(format!("/proc/{pid}/{}", args[1]))).map(drop),
        "enter_root" => io(fs::read_dir(format!("/proc/{pid}/root/"))).map(drop),
        "read_environ" => {
            let bytes = io(fs::read(format!("/proc/{pid}/environ")))?;
            let secret = b"VICTIMS_SECRET=";
            let found = bytes.windows(secret.len()).any(|window| window == secret);
            if found { Ok(()) } else { Err(0) }
        }
        "shared_memory" => {
            let key: i32 = args[0].parse().unwrap();
            let id = check(unsafe { libc::shmget(key, 0, 0) })?;
            let at = unsafe { libc::shmat(id as i32, std::ptr::null(), 0) };
            check(at as i64)?;
            unsafe { at.cast::<u8>().write(b'!') };
            Ok(())
        }
        "message_queue" => {
            let name = CString::new(args[0]).unwrap();
            let queue = check(unsafe { libc::mq_open(name.as_ptr(), libc::O_WRONLY) })?;
            check(unsafe { libc::mq_send(queue as i32, c"evil".as_ptr(), 4, 0) }).map(drop)
        }
        "tiocsti" => tiocsti(0),
        // Another command in 64 bits, the same in the 32 that the kernel looks at.
        "tiocsti_high" => tiocsti(1 << 32),
        "tioclinux" => {
            // Copies the screen's selection; any answer but a refusal means it got through.
            let mut byte = 6_u8;
            check(unsafe { libc::ioctl(0, libc::TIOCLINUX, &raw mut byte) }).map(drop)
        }
        "write_terminal" => {
            let file = io(fs::OpenOptions::new().write(true).open(args[0]))?;
            check(unsafe { libc::write(file.as_raw_fd(), c"evil\n".as_ptr().cast(), 5) } as i64)
                .map(drop)
        }
        other => panic!("no attempt {other}"),
    }
}

fn tiocsti(high: u64) -> Attempt {
    let byte = b'x';
    let command = libc::TIOCSTI | high;
    check(unsafe { libc::syscall(libc::SYS_ioctl, 0, command, &raw const byte) }).map(drop)
}
