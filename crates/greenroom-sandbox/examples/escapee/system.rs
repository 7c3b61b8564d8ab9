//! System calls nobody inside needs. Where a call would change the machine, its arguments are
//! senseless, and any answer but a refusal counts as having got through.

use std::ptr::null;

use crate::{Attempt, check};

pub fn attempt(name: &str, args: &[&str]) -> Attempt {
    match name {
        "unshare" => check(unsafe { libc::unshare(args[0].parse().unwrap()) }).map(drop),
        "clone" => {
            let flags = args[0].parse::<libc::c_long>().unwrap() | libc::SIGCHLD as libc::c_long;
            match check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
                0 => unsafe { libc::_exit(0) },
                _ => Ok(()),
            }
        }
        "raw" => {
            let number: libc::c_long = args[0].parse().unwrap();
            let bad = -1_isize;
            let zero = null::<u8>();
            let result = match args.get(1).copied() {
                // All pointers null, all numbers zero.
                None => unsafe { libc::syscall(number, zero, zero, zero, zero, zero) },
                // The first argument is a bad fd.
                Some("fd") => unsafe { libc::syscall(number, bad, zero, zero, zero, zero) },
                // Flags no kernel knows.
                Some("flags") => unsafe { libc::syscall(number, bad, bad, bad, bad, bad) },
                Some(other) => panic!("no shape {other}"),
            };
            match check(result) {
                Err(errno @ (libc::EPERM | libc::ENOSYS)) => Err(errno),
                _ => Ok(()),
            }
        }
        "chroot" => check(unsafe { libc::chroot(c"/".as_ptr()) }).map(drop),
        "compat" => compat(),
        "key" => check(unsafe {
            // Session keyring.
            libc::syscall(
                libc::SYS_add_key,
                c"user".as_ptr(),
                c"evil".as_ptr(),
                c"x".as_ptr(),
                1,
                -3,
            )
        })
        .map(drop),
        other => panic!("no attempt {other}"),
    }
}

/// getpid by the interface of 32-bit programs, where all numbers are others.
#[cfg(target_arch = "x86_64")]
fn compat() -> Attempt {
    let mut result: i64 = 20;
    unsafe { std::arch::asm!("int 0x80", inout("rax") result) };
    if result > 0 { Ok(()) } else { Err(-result as i32) }
}

#[cfg(not(target_arch = "x86_64"))]
fn compat() -> Attempt {
    Err(libc::ENOSYS)
}
