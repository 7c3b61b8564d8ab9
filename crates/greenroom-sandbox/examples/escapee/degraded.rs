//! A machine that lacks something: calls that fail from here on, for this process and its children.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::check;

fn number(name: &str) -> u32 {
    let number = match name {
        "landlock_create_ruleset" => libc::SYS_landlock_create_ruleset,
        "landlock_add_rule" => libc::SYS_landlock_add_rule,
        "landlock_restrict_self" => libc::SYS_landlock_restrict_self,
        "unshare" => libc::SYS_unshare,
        "mount" => libc::SYS_mount,
        "move_mount" => libc::SYS_move_mount,
        "fsopen" => libc::SYS_fsopen,
        "fsmount" => libc::SYS_fsmount,
        "open_tree" => libc::SYS_open_tree,
        "mount_setattr" => libc::SYS_mount_setattr,
        "seccomp" => libc::SYS_seccomp,
        "umount2" => libc::SYS_umount2,
        "capset" => libc::SYS_capset,
        "openat2" => libc::SYS_openat2,
        "close_range" => libc::SYS_close_range,
        other => panic!("no call {other}"),
    };
    number as u32
}

pub fn run(calls: &str, errno: &str, rest: &[&str]) -> ExitCode {
    let errno: u32 = errno.parse().unwrap();
    let op = |code: u16, jt: u8, k: u32| libc::sock_filter { code, jt, jf: 0, k };
    let calls: Vec<u32> = calls.split(',').map(number).collect();
    let mut code = vec![op(0x20, 0, 0)];
    for (place, call) in calls.iter().enumerate() {
        // To the last instruction.
        code.push(op(0x15, (calls.len() - place) as u8, *call));
    }
    code.push(op(0x06, 0, 0x7fff_0000));
    code.push(op(0x06, 0, 0x0005_0000 | errno));
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).unwrap();
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) }).unwrap();
    let error = Command::new("/proc/self/exe").args(rest).exec();
    panic!("{error}")
}
