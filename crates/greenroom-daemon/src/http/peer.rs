//! Whose process is at the other end of a connection, as far as that can be told.
//!
//! The token is the lock; this is the second one. A session confined with an open network can reach
//! the loopback; it cannot read the token, and should one get to it all the same, its connection is
//! known by the socket's number and refused, as on the unix socket. A process that cannot be looked
//! at (a tunnel's, a browser's in a sandbox of its own) is not refused for that: unlike on the unix
//! socket it is not certain that the kernel lets us look.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::call::caller::Caller;
use crate::callers::Callers;

/// Tables of the kernel's TCP sockets, both kinds of address.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Who is calling; judged once a session was ever confined.
pub(crate) async fn caller(callers: &Arc<Callers>, stream: &TcpStream) -> Caller {
    let caller = Caller::with_the_token(None);
    if !callers.are_judged() {
        return caller;
    }
    let (Ok(theirs), Ok(ours)) = (stream.peer_addr(), stream.local_addr()) else { return caller };
    let callers = callers.clone();
    let judged = tokio::task::spawn_blocking(move || {
        let holders = holders(theirs, ours);
        let refused = holders.iter().find_map(|pid| callers.inside(*pid));
        (holders.into_iter().next(), refused)
    });
    let (pid, refused) = judged.await.unwrap_or_default();
    let Some(why) = refused else { return Caller::with_the_token(pid) };
    tracing::warn!(pid, why, "a caller by HTTP gets no answers");
    Caller::Confined { pid, why }
}

/// Whether somebody has the other end of the connection open, be it only to read.
pub(crate) fn is_held(theirs: SocketAddr, ours: SocketAddr) -> bool {
    inode(theirs, ours).is_some()
}

fn inode(theirs: SocketAddr, ours: SocketAddr) -> Option<u64> {
    TABLES.iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| inode_of(line, theirs, ours))
    })
}

/// Processes that hold their end of the connection and can be looked at.
fn holders(theirs: SocketAddr, ours: SocketAddr) -> Vec<u32> {
    let Some(inode) = inode(theirs, ours) else { return Vec::new() };
    let link = format!("socket:[{inode}]");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = HashSet::from([std::process::id()]);
    pids.filter(|pid| !own.contains(pid)).filter(|pid| holds(*pid, &link)).collect()
}

fn holds(pid: u32, link: &str) -> bool {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    fds.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(link)))
}

/// The inode of the socket at `local` connected to `remote`, if this line of the table is it.
fn inode_of(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let mut words = line.split_whitespace();
    let mut at = |index: usize| words.nth(index);
    let (from, to) = (at(1)?, at(0)?);
    if from != spelled(local) || to != spelled(remote) {
        return None;
    }
    // Behind: state, queues, timer, retransmits, uid, timeout.
    at(6)?.parse().ok().filter(|inode| *inode != 0)
}

/// As the kernel writes it: words of the address in the machine's own byte order, then the port.
fn spelled(address: SocketAddr) -> String {
    let words = match address {
        SocketAddr::V4(address) => vec![u32::from_ne_bytes(address.ip().octets())],
        SocketAddr::V6(address) => {
            let octets = address.ip().octets();
            octets.as_chunks().0.iter().map(|chunk| u32::from_ne_bytes(*chunk)).collect()
        }
    };
    let text: String = words.iter().map(|word| format!("{word:08X}")).collect();
    format!("{text}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_the_kernel_writes_them() {
        if cfg!(target_endian = "little") {
            assert_eq!(spelled("127.0.0.1:8080".parse().unwrap()), "0100007F:1F90");
            let six = "00000000000000000000000001000000:0050";
            assert_eq!(spelled("[::1]:80".parse().unwrap()), six);
        }
    }

    #[test]
    fn the_other_end_is_found() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(listen) else { continue };
            let ours = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(ours).unwrap();
            let theirs = client.local_addr().unwrap();
            // Inherited by a child: another process that holds it.
            let fd = rustix::io::dup(&client).unwrap();
            let mut child = std::process::Command::new("sleep")
                .arg("600")
                .stdin(std::process::Stdio::from(fd))
                .spawn()
                .unwrap();
            assert_eq!(holders(theirs, ours), [child.id()], "{listen}");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(holders(theirs, ours).is_empty(), "ourselves do not count");
        }
    }
}
