//! The table of attempts. `escapee` has the code of each; words in braces are filled in by the
//! scene.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    Denied,
    /// By the filter, with SIGSYS.
    Killed,
    /// Not held at this level, as docs/sandbox.md says.
    Gap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Everybody,
    /// Others are not allowed it anyway.
    Root,
    Ordinary,
}

pub struct Row {
    pub id: &'static str,
    pub attempt: &'static [&'static str],
    pub full: Want,
    pub reduced: Want,
    pub who: Who,
    /// Its own word does not count.
    pub by_effect: bool,
    pub on_terminal: bool,
}

const fn row(id: &'static str, attempt: &'static [&'static str]) -> Row {
    Row {
        id,
        attempt,
        full: Want::Denied,
        reduced: Want::Denied,
        who: Who::Everybody,
        by_effect: false,
        on_terminal: false,
    }
}

const fn root(row: Row) -> Row {
    Row { who: Who::Root, ..row }
}

/// Held at level full only.
const fn full(row: Row) -> Row {
    Row { reduced: Want::Gap, ..row }
}

const fn gap(row: Row) -> Row {
    Row { full: Want::Gap, reduced: Want::Gap, ..row }
}

const fn effect(row: Row) -> Row {
    Row { by_effect: true, ..row }
}

const fn terminal(row: Row) -> Row {
    Row { on_terminal: true, ..row }
}

pub const ROWS: &[Row] = &[
    // Files outside.
    row("fs.create", &["fs.create", "{out}/new"]),
    row("fs.overwrite", &["fs.overwrite", "{out}/file"]),
    row("fs.unlink", &["fs.unlink", "{out}/file"]),
    row("fs.mkdir", &["fs.mkdir", "{out}/made"]),
    row("fs.rmdir", &["fs.rmdir", "{out}/empty"]),
    row("fs.rename", &["fs.rename", "{out}/file", "{out}/moved"]),
    row("fs.rename_in", &["fs.rename", "{out}/file", "{work}/stolen"]),
    row("fs.rename_out", &["fs.write_and_rename", "{work}/mine", "{out}/planted"]),
    row("fs.truncate", &["fs.truncate", "{out}/file"]),
    row("fs.truncate_by_open", &["fs.truncate_by_open", "{out}/file"]),
    full(row("fs.chmod", &["fs.chmod", "{out}/file"])),
    full(row("fs.utime", &["fs.utime", "{out}/file"])),
    full(row("fs.setxattr", &["fs.setxattr", "{out}/file"])),
    full(row("fs.setflags", &["fs.setflags", "{out}/file"])),
    root(row("fs.chown", &["fs.chown", "{out}/file"])),
    row("fs.symlink_file", &["fs.symlink_write", "{work}/link", "{out}/file"]),
    row("fs.symlink_dir", &["fs.symlink_dir", "{work}/link", "{out}/dir"]),
    effect(row("fs.symlink_race", &["fs.symlink_race", "{work}/raced", "{out}/file"])),
    row("fs.hardlink", &["fs.hardlink", "{work}/hard", "{out}/file"]),
    gap(row("fs.hardlink_preexisting", &["fs.overwrite", "{work}/linked"])),
    row("fs.pipe", &["fs.write_pipe", "{out}/pipe"]),
    row("fs.bashrc", &["fs.append", "{home}/.bashrc"]),
    row("fs.gitconfig", &["fs.append", "{home}/.gitconfig"]),
    row("fs.autostart", &["fs.mkdir", "{home}/.config"]),
    row("fs.authorized_keys", &["fs.create", "{home}/.ssh/authorized_keys"]),
    row("fs.hidden_key", &["fs.read", "{home}/.ssh/id"]),
    row("fs.hidden_state", &["fs.read", "{state}/token"]),
    gap(row("fs.read", &["fs.read", "{out}/file"])),
    full(row("fs.tmp_of_others", &["fs.append", "{in_tmp}"])),
    root(row("fs.disk", &["fs.read", "{disk}"])),
    root(row("fs.mem", &["fs.open_for_writing", "/dev/mem"])),
    root(row("fs.kmsg", &["fs.open_for_writing", "/dev/kmsg"])),
    root(row("fs.mknod", &["fs.mknod", "{work}/node"])),
    root(row("fs.core_pattern", &["fs.rewrite_same", "/proc/sys/kernel/core_pattern"])),
    root(row("fs.sysctl", &["fs.rewrite_same", "/proc/sys/vm/swappiness"])),
    root(row("fs.sysrq", &["fs.open_for_writing", "/proc/sysrq-trigger"])),
    root(row("fs.sys", &["fs.open_for_writing", "/sys/kernel/mm/transparent_hugepage/enabled"])),
    root(row("fs.cgroup", &["fs.open_for_writing", "/sys/fs/cgroup/cgroup.procs"])),
    root(row("fs.cgroup_v1", &["fs.open_for_writing", "/sys/fs/cgroup/memory/cgroup.procs"])),
    root(row("fs.uevent_helper", &["fs.open_for_writing", "/sys/kernel/uevent_helper"])),
    root(row("fs.binfmt", &["fs.open_for_writing", "/proc/sys/fs/binfmt_misc/register"])),
    row("fs.suid_chmod", &["fs.suid", "{work}/s1", "chmod"]),
    row("fs.suid_fchmodat2", &["fs.suid", "{work}/s2", "fchmodat2"]),
    row("fs.suid_open", &["fs.suid", "{work}/s3", "open"]),
    row("fs.suid_openat2", &["fs.suid", "{work}/s4", "openat2"]),
    Row { who: Who::Ordinary, ..row("fs.suid_run", &["fs.run_suid", "{suid}"]) },
    // Fds that were left open.
    row("fd.file", &["fs.inherited_file", "77"]),
    row("fd.dir", &["fs.inherited_dir", "78"]),
    // Other processes.
    row("proc.ptrace", &["proc.ptrace", "{pid}"]),
    row("proc.read_memory", &["proc.read_memory", "{pid}", "{address}"]),
    row("proc.steal_fd", &["proc.steal_fd", "{pid}"]),
    row("proc.kill", &["proc.kill", "{pid}"]),
    row("proc.prlimit", &["proc.prlimit", "{pid}"]),
    row("proc.setpriority", &["proc.setpriority", "{pid}"]),
    row("proc.setaffinity", &["proc.setaffinity", "{pid}"]),
    row("proc.oom_score", &["proc.oom_score", "{pid}"]),
    row("proc.mem", &["proc.open_proc", "{pid}", "mem"]),
    row("proc.maps", &["proc.open_proc", "{pid}", "maps"]),
    row("proc.fd", &["proc.read_link", "{pid}", "fd/0"]),
    row("proc.cwd", &["proc.open_proc", "{pid}", "cwd"]),
    row("proc.root", &["proc.enter_root", "{pid}"]),
    row("proc.environ", &["proc.read_environ", "{pid}"]),
    // Terminals.
    terminal(row("tty.tiocsti", &["proc.tiocsti"])),
    terminal(row("tty.tiocsti_high", &["proc.tiocsti_high"])),
    terminal(row("tty.tioclinux", &["proc.tioclinux"])),
    // It may have a terminal of the same name itself.
    effect(row("tty.other", &["proc.write_terminal", "{terminal}"])),
    // Attempts on the network.
    row("net.tcp", &["net.tcp", "{tcp}"]),
    row("net.tcp6", &["net.tcp", "{tcp6}"]),
    row("net.fast_open", &["net.fast_open", "{tcp}"]),
    row("net.mptcp", &["net.protocol", "{tcp}", "262"]),
    row("net.sctp", &["net.protocol", "{tcp}", "132"]),
    effect(row("net.udp", &["net.udp", "{udp}"])),
    row("net.dns", &["net.udp", "9.9.9.9:53"]),
    row("net.icmp", &["net.socket", "2", "3", "1"]),
    row("net.packet", &["net.socket", "17", "3", "768"]),
    row("net.uevents", &["net.socket", "16", "3", "15"]),
    row("net.vsock", &["net.socket", "40", "1", "0"]),
    row("net.alg", &["net.socket", "38", "5", "0"]),
    row("net.bluetooth", &["net.socket", "31", "3", "1"]),
    row("net.xdp", &["net.socket", "44", "3", "0"]),
    row("unix.path", &["net.unix", "{out}/public.sock"]),
    row("unix.door", &["net.unix", "{state}/door.sock"]),
    row("unix.abstract", &["net.abstract", "{abstract}"]),
    row("unix.pair_reconnect", &["net.pair_reconnect", "{out}/datagram.sock"]),
    row("ipc.shared_memory", &["proc.shared_memory", "{key}"]),
    row("ipc.message_queue", &["proc.message_queue", "{queue}"]),
    // System calls.
    row("sys.unshare_user", &["sys.unshare", "268435456"]),
    root(row("sys.unshare_mounts", &["sys.unshare", "131072"])),
    row("sys.clone_user", &["sys.clone", "268435456"]),
    root(row("sys.clone_pid", &["sys.clone", "536870912"])),
    row("sys.clone3", &["sys.raw", "435"]),
    row("sys.setns", &["sys.raw", "308", "fd"]),
    root(row("sys.mount", &["sys.raw", "165"])),
    root(row("sys.umount", &["sys.raw", "166"])),
    root(row("sys.pivot_root", &["sys.raw", "155"])),
    root(row("sys.chroot", &["sys.chroot"])),
    row("sys.open_tree", &["sys.raw", "428", "fd"]),
    root(row("sys.move_mount", &["sys.raw", "429", "fd"])),
    root(row("sys.fsopen", &["sys.raw", "430"])),
    root(row("sys.mount_setattr", &["sys.raw", "442", "flags"])),
    root(row("sys.bpf", &["sys.raw", "321", "flags"])),
    row("sys.perf", &["sys.raw", "298"]),
    row("sys.add_key", &["sys.key"]),
    row("sys.keyctl", &["sys.raw", "250", "flags"]),
    row("sys.io_uring", &["sys.raw", "425"]),
    root(row("sys.userfaultfd", &["sys.raw", "323"])),
    root(row("sys.open_by_handle", &["sys.raw", "304", "fd"])),
    row("sys.name_to_handle", &["sys.raw", "303", "fd"]),
    root(row("sys.kexec", &["sys.raw", "246", "flags"])),
    root(row("sys.init_module", &["sys.raw", "175"])),
    root(row("sys.swapon", &["sys.raw", "167"])),
    root(row("sys.syslog", &["sys.raw", "103", "flags"])),
    Row { full: Want::Killed, reduced: Want::Killed, ..row("sys.compat", &["sys.compat"]) },
    row("sys.x32", &["sys.raw", "1073741863"]),
];
