//! Which system calls a session may not make.
//!
//! In: what it depends on ([`FilterOptions`]). Out: a program for seccomp. A deny-list with "allow"
//! as the default: what is not named here is held by the other layers. Calls that programs have a
//! fallback for do not exist (ENOSYS), the rest is refused (EPERM). Absent on purpose: anything
//! that needs to read memory; pointers can be changed after they were looked at.

pub(crate) mod bpf;

use bpf::{Act, Case, Instruction, Test, program};

const DENY: Act = Act::Errno(libc::EPERM);
const ABSENT: Act = Act::Errno(libc::ENOSYS);

/// set-user-id, set-group-id.
const PRIVILEGE_BITS: u32 = libc::S_ISUID | libc::S_ISGID;
/// Every CLONE_NEW* that fits clone's flags (a new time namespace does not).
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// What the filter depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterOptions {
    /// IP sockets, of the session's own network or of the machine's.
    pub(crate) inet: bool,
    pub(crate) unix: bool,
    pub(crate) debug: bool,
    pub(crate) spawn: bool,
    /// Other processes cannot be named (pid namespace), nor other programs' shared memory (ipc
    /// namespace).
    pub(crate) namespaces: bool,
}

/// The program for this machine.
pub(crate) fn build(options: FilterOptions) -> Vec<Instruction> {
    let mut table = never();
    table.extend(without_fallback_needed());
    table.extend(modes());
    table.extend(sockets(options));
    table.extend(processes(options));
    table.push((
        libc::SYS_ioctl,
        deny_if(vec![
            Test::Equals { arg: 1, value: libc::TIOCSTI as u32 },
            Test::Equals { arg: 1, value: libc::TIOCLINUX as u32 },
        ]),
    ));
    if !options.namespaces {
        table.extend(shared_memory());
        table.extend(scheduling());
    }
    let table = table.into_iter().map(|(number, case)| (number as u32, case)).collect();
    program(ARCH, cfg!(target_arch = "x86_64"), table)
}

type Row = (libc::c_long, Case);

fn deny_if(tests: Vec<Test>) -> Case {
    Case::Tests(tests.into_iter().map(|test| (test, DENY)).collect(), Act::Allow)
}

fn non_zero(arg: u32) -> Case {
    Case::Tests(vec![(Test::Equals { arg, value: 0 }, Act::Allow)], DENY)
}

/// The machine's own affairs, and ways around the other layers.
fn never() -> Vec<Row> {
    let common = [
        // Mounts, old and new.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        libc::SYS_chroot,
        libc::SYS_pivot_root,
        libc::SYS_setns,
        libc::SYS_unshare,
        // Files by handle walk around every path rule.
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        // Kernel surfaces.
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_fanotify_init,
        libc::SYS_lookup_dcookie,
        // Calls that change the machine itself.
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_syslog,
        libc::SYS_vhangup,
        libc::SYS_process_madvise,
    ];
    #[cfg(target_arch = "x86_64")]
    let of_machine = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load];
    #[cfg(not(target_arch = "x86_64"))]
    let of_machine = [libc::SYS_kexec_file_load];
    common.into_iter().chain(of_machine).map(|number| (number, Case::Always(DENY))).collect()
}

/// Runtimes do without these. `openat2` and `clone3` carry their flags in memory, where a filter
/// cannot look.
fn without_fallback_needed() -> Vec<Row> {
    [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_clone3,
        libc::SYS_openat2,
    ]
    .map(|number| (number, Case::Always(ABSENT)))
    .to_vec()
}

/// No file becomes set-user-id: somebody outside could run it.
fn modes() -> Vec<Row> {
    let mode = |arg| deny_if(vec![Test::AnyBit { arg, mask: PRIVILEGE_BITS }]);
    // Without O_CREAT the mode is whatever the register held.
    let opening = |flags, mode| {
        let creates = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;
        deny_if(vec![Test::And(
            Box::new(Test::AnyBit { arg: flags, mask: creates }),
            Box::new(Test::AnyBit { arg: mode, mask: PRIVILEGE_BITS }),
        )])
    };
    let common = [
        (libc::SYS_fchmod, mode(1)),
        (libc::SYS_fchmodat, mode(2)),
        (SYS_FCHMODAT2, mode(2)),
        (libc::SYS_mkdirat, mode(2)),
        (libc::SYS_mknodat, mode(2)),
        (libc::SYS_openat, opening(2, 3)),
    ];
    #[cfg(target_arch = "x86_64")]
    let old = [
        (libc::SYS_chmod, mode(1)),
        (libc::SYS_mkdir, mode(1)),
        (libc::SYS_mknod, mode(1)),
        (libc::SYS_creat, mode(1)),
        (libc::SYS_open, opening(1, 2)),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let old: [Row; 0] = [];
    common.into_iter().chain(old).collect()
}

/// Families that are allowed, by list: a network namespace does not hold the others (vsock reaches
/// the hypervisor).
fn sockets(options: FilterOptions) -> Vec<Row> {
    let family = |value: i32| Test::Equals { arg: 0, value: value as u32 };
    let mut made = vec![(
        Test::And(
            Box::new(family(libc::AF_NETLINK)),
            Box::new(Test::Equals { arg: 2, value: libc::NETLINK_ROUTE as u32 }),
        ),
        Act::Allow,
    )];
    if options.inet {
        made.push((family(libc::AF_INET), Act::Allow));
        made.push((family(libc::AF_INET6), Act::Allow));
    }
    if options.unix {
        made.push((family(libc::AF_UNIX), Act::Allow));
    }
    let mut paired = Vec::new();
    if !options.unix {
        // An end of a datagram pair can be connected anew, to any socket with a path.
        let datagram = Test::Masked { arg: 1, mask: 0xf, value: libc::SOCK_DGRAM as u32 };
        paired.push((datagram, DENY));
    }
    paired.push((family(libc::AF_UNIX), Act::Allow));
    vec![
        (libc::SYS_socket, Case::Tests(made, DENY)),
        (libc::SYS_socketpair, Case::Tests(paired, DENY)),
    ]
}

fn processes(options: FilterOptions) -> Vec<Row> {
    let mut rows = vec![(libc::SYS_prlimit64, non_zero(0))];
    let namespaces = (Test::AnyBit { arg: 0, mask: NEW_NAMESPACES }, DENY);
    if options.spawn {
        rows.push((libc::SYS_clone, Case::Tests(vec![namespaces], Act::Allow)));
    } else {
        let thread = (Test::AnyBit { arg: 0, mask: libc::CLONE_THREAD as u32 }, Act::Allow);
        rows.push((libc::SYS_clone, Case::Tests(vec![namespaces, thread], DENY)));
        #[cfg(target_arch = "x86_64")]
        rows.extend([libc::SYS_fork, libc::SYS_vfork].map(|number| (number, Case::Always(DENY))));
    }
    if !options.debug {
        let peeking = [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_kcmp,
        ];
        rows.extend(peeking.map(|number| (number, Case::Always(DENY))));
    }
    rows
}

/// Without an ipc namespace these are shared with every program of the machine.
fn shared_memory() -> Vec<Row> {
    [
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semctl,
        libc::SYS_semtimedop,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
    ]
    .map(|number| (number, Case::Always(DENY)))
    .to_vec()
}

/// Without a pid namespace these could slow down the user's other programs.
fn scheduling() -> Vec<Row> {
    let by_pid = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ];
    // (which, who): the whole user is one of the choices, with 0 for "mine".
    let own = |user: u32| {
        let whole_user = (Test::Equals { arg: 0, value: user }, DENY);
        Case::Tests(vec![whole_user, (Test::Equals { arg: 1, value: 0 }, Act::Allow)], DENY)
    };
    const IOPRIO_WHO_USER: u32 = 3;
    by_pid
        .into_iter()
        .map(|number| (number, non_zero(0)))
        .chain([
            (libc::SYS_setpriority, own(libc::PRIO_USER)),
            (libc::SYS_ioprio_set, own(IOPRIO_WHO_USER)),
        ])
        .collect()
}

/// Linux 6.6; the same number everywhere.
const SYS_FCHMODAT2: libc::c_long = 452;

/// AUDIT_ARCH_*.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the numbers of this machine's system calls have not been checked");

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::bpf::tests::answer;
    use super::*;

    const FULL: FilterOptions =
        FilterOptions { inet: true, unix: false, debug: false, spawn: true, namespaces: true };
    const REDUCED: FilterOptions = FilterOptions { inet: false, namespaces: false, ..FULL };

    #[track_caller]
    fn check(options: FilterOptions, number: i64, args: &[u64], expected: Option<i32>) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let code = build(options);
        assert_eq!(answer(&code, number as u32, all), expected, "call {number} with {args:?}");
    }

    const EPERM: Option<i32> = Some(libc::EPERM);

    #[test]
    fn ordinary_calls_pass() {
        for number in
            [libc::SYS_read, libc::SYS_execve, libc::SYS_mmap, libc::SYS_futex, libc::SYS_kill]
        {
            check(FULL, number, &[], None);
            check(REDUCED, number, &[], None);
        }
    }

    #[test]
    fn families_are_a_list() {
        for (family, full, reduced) in [
            (libc::AF_INET, None, EPERM),
            (libc::AF_INET6, None, EPERM),
            (libc::AF_UNIX, EPERM, EPERM),
            (libc::AF_VSOCK, EPERM, EPERM),
            (libc::AF_PACKET, EPERM, EPERM),
            (libc::AF_ALG, EPERM, EPERM),
            (libc::AF_BLUETOOTH, EPERM, EPERM),
            (libc::AF_NETLINK, None, None),
        ] {
            check(FULL, libc::SYS_socket, &[family as u64, 1], full);
            check(REDUCED, libc::SYS_socket, &[family as u64, 1], reduced);
        }
        let netlink = libc::AF_NETLINK as u64;
        check(FULL, libc::SYS_socket, &[netlink, 3, libc::NETLINK_KOBJECT_UEVENT as u64], EPERM);
        check(FilterOptions { unix: true, ..FULL }, libc::SYS_socket, &[1, 1], None);
    }

    #[test]
    fn pairs_are_streams_unless_unix_sockets_are_allowed() {
        let cloexec = libc::SOCK_CLOEXEC as u64;
        check(FULL, libc::SYS_socketpair, &[1, 1 | cloexec], None);
        check(FULL, libc::SYS_socketpair, &[1, 2], EPERM);
        check(FULL, libc::SYS_socketpair, &[1, 2 | cloexec], EPERM);
        check(FULL, libc::SYS_socketpair, &[30, 1], EPERM);
        check(FilterOptions { unix: true, ..FULL }, libc::SYS_socketpair, &[1, 2], None);
    }

    #[test]
    fn set_user_id_files_cannot_be_made() {
        check(FULL, libc::SYS_chmod, &[0, 0o755], None);
        check(FULL, libc::SYS_chmod, &[0, 0o4755], EPERM);
        check(FULL, libc::SYS_fchmodat, &[0, 0, 0o2755], EPERM);
        check(FULL, SYS_FCHMODAT2, &[0, 0, 0o6755], EPERM);
        let create = (libc::O_CREAT | libc::O_WRONLY) as u64;
        check(FULL, libc::SYS_openat, &[0, 0, create, 0o4755], EPERM);
        check(FULL, libc::SYS_openat, &[0, 0, libc::O_TMPFILE as u64, 0o4755], EPERM);
        check(FULL, libc::SYS_openat, &[0, 0, libc::O_DIRECTORY as u64, 0o4755], None);
        check(FULL, libc::SYS_openat, &[0, 0, 0, 0o4755], None);
        check(FULL, libc::SYS_open, &[0, create, 0o4755], EPERM);
        check(FULL, libc::SYS_openat2, &[], Some(libc::ENOSYS));
    }

    #[test]
    fn new_namespaces_and_whole_clones() {
        check(FULL, libc::SYS_clone, &[libc::SIGCHLD as u64], None);
        check(FULL, libc::SYS_clone, &[(libc::CLONE_NEWUSER | libc::SIGCHLD) as u64], EPERM);
        check(FULL, libc::SYS_clone3, &[], Some(libc::ENOSYS));
        check(FULL, libc::SYS_unshare, &[0], EPERM);
        let alone = FilterOptions { spawn: false, ..FULL };
        check(alone, libc::SYS_clone, &[libc::SIGCHLD as u64], EPERM);
        check(alone, libc::SYS_vfork, &[], EPERM);
        check(alone, libc::SYS_clone, &[libc::CLONE_THREAD as u64], None);
        check(alone, libc::SYS_clone, &[(libc::CLONE_THREAD | libc::CLONE_NEWNS) as u64], EPERM);
    }

    #[test]
    fn without_namespaces_others_are_out_of_reach() {
        check(FULL, libc::SYS_shmget, &[], None);
        check(REDUCED, libc::SYS_shmget, &[], EPERM);
        check(REDUCED, libc::SYS_mq_open, &[], EPERM);
        check(REDUCED, libc::SYS_setpriority, &[0, 0], None);
        check(REDUCED, libc::SYS_setpriority, &[0, 77], EPERM);
        check(REDUCED, libc::SYS_setpriority, &[libc::PRIO_USER as u64, 0], EPERM);
        check(REDUCED, libc::SYS_prlimit64, &[0], None);
        check(REDUCED, libc::SYS_prlimit64, &[1 << 32], None);
        check(REDUCED, libc::SYS_prlimit64, &[77], EPERM);
        check(REDUCED, libc::SYS_sched_setaffinity, &[77], EPERM);
        check(FULL, libc::SYS_sched_setaffinity, &[77], None);
    }

    #[test]
    fn debuggers_need_a_grant() {
        check(FULL, libc::SYS_ptrace, &[], EPERM);
        check(FilterOptions { debug: true, ..FULL }, libc::SYS_ptrace, &[], None);
    }

    #[test]
    fn the_program_is_short_enough() {
        assert!(build(REDUCED).len() < bpf::MAX_INSTRUCTIONS / 4, "{}", build(REDUCED).len());
    }
}
