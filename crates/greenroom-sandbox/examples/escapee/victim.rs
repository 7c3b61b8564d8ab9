//! A process worth attacking: sockets of every kind, a secret, a terminal, shared memory. It says
//! where they are and writes down who came.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::ExitCode;

use crate::check;

pub fn run(dir: &str) -> ExitCode {
    let pid = std::process::id();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp6 = TcpListener::bind("[::1]:0");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(format!("{dir}/out/public.sock")).unwrap();
    let door = UnixListener::bind(format!("{dir}/state/door.sock")).unwrap();
    let datagram = UnixDatagram::bind(format!("{dir}/out/datagram.sock")).unwrap();
    let name = format!("greenroom-victim-{pid}");
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let (master, terminal) = terminal();
    let key = 0x6772_0000 | (pid as i32 & 0xffff);
    let segment = check(unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | 0o600) }).unwrap_or(-1);
    let queue = std::ffi::CString::new(format!("/greenroom-{pid}")).unwrap();
    let flags = libc::O_CREAT | libc::O_RDONLY | libc::O_NONBLOCK;
    // Small: some machines have hardly any room for queues.
    let mut small: libc::mq_attr = unsafe { std::mem::zeroed() };
    (small.mq_maxmsg, small.mq_msgsize) = (1, 16);
    unsafe { libc::mq_open(queue.as_ptr(), flags, 0o600, &raw const small) };
    static HELD: u8 = 42;
    println!(
        "{pid} {} {} {} {name} {terminal} {key} {} {}",
        tcp.local_addr().unwrap(),
        tcp6.as_ref().map_or("none".into(), |it| it.local_addr().unwrap().to_string()),
        udp.local_addr().unwrap(),
        queue.to_str().unwrap(),
        &raw const HELD as usize,
    );
    serve(
        dir,
        &[
            ("tcp", tcp.as_raw_fd(), true),
            ("tcp6", tcp6.as_ref().map_or(-1, AsRawFd::as_raw_fd), true),
            ("udp", udp.as_raw_fd(), false),
            ("unix", unix.as_raw_fd(), true),
            ("door", door.as_raw_fd(), true),
            ("datagram", datagram.as_raw_fd(), false),
            ("abstract", hidden.as_raw_fd(), true),
            ("terminal", master, false),
            ("stdin", 0, false),
        ],
    );
    unsafe { libc::shmctl(segment as i32, libc::IPC_RMID, std::ptr::null_mut()) };
    unsafe { libc::mq_unlink(queue.as_ptr()) };
    ExitCode::SUCCESS
}

fn terminal() -> (i32, String) {
    let (mut master, mut slave) = (0, 0);
    let mut name = [0; 64];
    let null = std::ptr::null_mut();
    let made =
        unsafe { libc::openpty(&mut master, &mut slave, name.as_mut_ptr(), null, null as _) };
    check(made).unwrap();
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) };
    (master, name.to_str().unwrap().to_owned())
}

/// Writes down who came, until stdin ends.
fn serve(dir: &str, doors: &[(&str, i32, bool)]) {
    let mut touched =
        OpenOptions::new().create(true).append(true).open(format!("{dir}/touched")).unwrap();
    let poll =
        |door: &(&str, i32, bool)| libc::pollfd { fd: door.1, events: libc::POLLIN, revents: 0 };
    let mut fds: Vec<libc::pollfd> = doors.iter().map(poll).collect();
    loop {
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, -1) };
        for (fd, (name, number, accepts)) in fds.iter().zip(doors) {
            if fd.revents == 0 {
                continue;
            }
            let mut bytes = [0; 64];
            let came = match accepts {
                true => unsafe {
                    libc::accept(*number, std::ptr::null_mut(), std::ptr::null_mut())
                },
                false => {
                    let mut file =
                        std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(*number) });
                    file.read(&mut bytes).map_or(-1, |read| read as i32)
                }
            };
            if *name == "stdin" {
                if came == 0 {
                    return;
                }
                // Asked: everything that came before has been written down.
                println!("heard");
                continue;
            }
            writeln!(touched, "{name}").unwrap();
        }
    }
}
