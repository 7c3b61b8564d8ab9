//! Peers that are none of its business.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use crate::{Attempt, check, io};

pub fn attempt(name: &str, args: &[&str]) -> Attempt {
    let address = || -> SocketAddr { args[0].parse().unwrap() };
    match name {
        "tcp" => io(TcpStream::connect_timeout(&address(), Duration::from_secs(3))).map(drop),
        "fast_open" => fast_open(address()),
        "protocol" => {
            // MPTCP (262), SCTP (132).
            let protocol = args[1].parse().unwrap();
            let fd = socket(libc::AF_INET, libc::SOCK_STREAM, protocol)?;
            connect(fd, address())
        }
        "udp" => {
            let socket = io(UdpSocket::bind("0.0.0.0:0"))?;
            io(socket.send_to(b"evil", address())).map(drop)
        }
        "unix" => io(UnixStream::connect(args[0])).map(drop),
        "abstract" => {
            let address = io(UnixAddr::from_abstract_name(args[0]))?;
            io(UnixStream::connect_addr(&address)).map(drop)
        }
        "pair_reconnect" => pair_reconnect(args[0]),
        // Families and kinds nobody inside needs.
        "socket" => {
            let numbers: Vec<i32> = args.iter().map(|arg| arg.parse().unwrap()).collect();
            socket(numbers[0], numbers[1], numbers[2]).map(drop)
        }
        other => panic!("no attempt {other}"),
    }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Result<i32, i32> {
    check(unsafe { libc::socket(family, kind, protocol) }).map(|fd| fd as i32)
}

fn sockaddr(address: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(address) = address else { panic!("only version 4") };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

fn connect(fd: i32, address: SocketAddr) -> Attempt {
    let address = sockaddr(address);
    let length = size_of_val(&address) as u32;
    check(unsafe { libc::connect(fd, (&raw const address).cast(), length) }).map(drop)
}

fn fast_open(address: SocketAddr) -> Attempt {
    let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
    let address = sockaddr(address);
    let length = size_of_val(&address) as u32;
    check(unsafe {
        let flags = libc::MSG_FASTOPEN;
        libc::sendto(fd, c"evil".as_ptr().cast(), 4, flags, (&raw const address).cast(), length)
    } as i64)
    .map(drop)
}

/// An end of a datagram pair, pointed at somebody else.
fn pair_reconnect(path: &str) -> Attempt {
    let mut pair = [0; 2];
    check(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()) })?;
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    let length = size_of_val(&address) as u32;
    check(unsafe { libc::connect(pair[0], (&raw const address).cast(), length) })?;
    check(unsafe { libc::send(pair[0], c"evil".as_ptr().cast(), 4, 0) } as i64).map(drop)
}
