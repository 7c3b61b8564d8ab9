//! Namespaces: the session's own users, mounts, processes, network and shared memory.
//!
//! In: whether the network is its own. Out: this process inside of all of them (its children in the
//! new pid namespace), and the proxy's listener if there is one. The user keeps its number, so
//! files keep their owner.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::ready::ReadyNamespaces;
use super::{Failing, sys};
use crate::control::StageError;
use crate::layer::Layer;
use crate::plan::{NetworkStep, PROXY_PORT};

/// Connections that wait for the daemon, e.g. while it restarts.
const BACKLOG: i32 = 128;

pub(crate) fn enter(
    network: NetworkStep,
    ready: Option<ReadyNamespaces>,
) -> Result<Option<OwnedFd>, StageError> {
    let own = network != NetworkStep::Host;
    let entered = match ready.filter(|_| own) {
        Some(ready) => ready.enter()?,
        None => false,
    };
    if !entered {
        user()?;
    }
    for (layer, flags) in [
        (Layer::MountNamespace, libc::CLONE_NEWNS),
        (Layer::IpcNamespace, libc::CLONE_NEWIPC | libc::CLONE_NEWUTS),
        (Layer::PidNamespace, libc::CLONE_NEWPID),
    ] {
        sys::unshare(flags).failing(layer, || "make one".into())?;
    }
    if own && !entered {
        self::network()?;
    }
    match network {
        NetworkStep::OwnWithListener => listen().map(Some),
        NetworkStep::Own | NetworkStep::Host => Ok(None),
    }
}

pub(super) fn user() -> Result<(), StageError> {
    let layer = Layer::UserNamespace;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(libc::CLONE_NEWUSER).failing(layer, || "make one".into())?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| {
                rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
            })
            .failing(layer, || format!("write {file}"))
    };
    // Without this a user could leave groups that deny access, so the kernel wants it said.
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

/// One with a loopback and nothing else.
pub(super) fn network() -> Result<(), StageError> {
    sys::unshare(libc::CLONE_NEWNET).failing(Layer::NetworkNamespace, || "make one".into())?;
    let socket = socket(SocketType::DGRAM)?;
    sys::loopback_up(socket.as_fd()).failing(Layer::Loopback, || "bring lo up".into())
}

fn socket(kind: SocketType) -> Result<OwnedFd, StageError> {
    rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)
        .failing(Layer::Loopback, || "make a socket".into())
}

/// Made here and accepted from by the daemon outside: no bridge, and no path a program could reach.
fn listen() -> Result<OwnedFd, StageError> {
    let listener = socket(SocketType::STREAM)?;
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT);
    rustix::net::bind(&listener, &address)
        .and_then(|()| rustix::net::listen(&listener, BACKLOG))
        .failing(Layer::Loopback, || format!("listen on {address}"))?;
    Ok(listener)
}
