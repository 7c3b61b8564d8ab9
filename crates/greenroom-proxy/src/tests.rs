//! The proxy against programs that try to get around it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use greenroom_sandbox::policy::HostPattern;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::hello::{Hello, server_name};
use super::outside::is_public;
use super::request::{Head, parse};
use super::rules::Kind;
use super::*;

fn rules(http: bool) -> Rules {
    let hosts = ["api.example.com", "*.debian.org"];
    Rules { hosts: hosts.iter().map(|host| HostPattern::parse(host).unwrap()).collect(), http }
}

/// A client hello as OpenSSL would begin it, as small as it can be.
fn hello(names: &[&str]) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, content: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend((content.len() as u16).to_be_bytes());
        extensions.extend(content);
    };
    extension(10, &[0, 2, 0, 29]);
    for name in names {
        let mut entry = vec![0];
        entry.extend((name.len() as u16).to_be_bytes());
        entry.extend(name.as_bytes());
        let mut list = (entry.len() as u16).to_be_bytes().to_vec();
        list.extend(entry);
        extension(0, &list);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1];
    message.extend(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend(body);
    message
}

/// In records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in message.chunks(size.max(1)) {
        bytes.extend([22, 3, 1]);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

/// A server that says `hi` to whoever comes, and a proxy whose names all lead there.
struct Stage {
    proxy: SocketAddr,
    resolved: Arc<AtomicUsize>,
    denied: Arc<Mutex<Vec<String>>>,
    dir: tempfile::TempDir,
    _door: AbortHandle,
}

impl Stage {
    async fn new(http: bool) -> Stage {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = server.accept().await {
                tokio::spawn(async move {
                    let mut first = vec![0; 4096];
                    let count = stream.read(&mut first).await.unwrap_or(0);
                    let said = format!("hi {count}\n");
                    let _ = stream.write_all(said.as_bytes()).await;
                    if first[0] == 22 {
                        let (mut from, mut to) = stream.split();
                        let _ = tokio::io::copy(&mut from, &mut to).await;
                    }
                });
            }
        });
        let resolved = Arc::new(AtomicUsize::new(0));
        let counted = resolved.clone();
        // `is_public` stands between a name and loopback, so the test has the fixed names instead.
        let outside = Outside::resolving(move |host: String, port| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                let private: IpAddr = match host.as_str() {
                    "router.debian.org" => [192, 168, 1, 1].into(),
                    _ => [127, 0, 0, 1].into(),
                };
                Ok(vec![SocketAddr::new(private, port)])
            }
        })
        .with_fixed("api.example.com", address)
        .with_fixed("ftp.debian.org", address);
        let dir = tempfile::tempdir().unwrap();
        let denied = Arc::new(Mutex::new(Vec::new()));
        let told = denied.clone();
        let tell: Tell = Arc::new(move |what, why| {
            told.lock().unwrap().push(format!("{what}: {why}"));
        });
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let decisions = Decisions::new(&dir.path().join("proxy.jsonl"), tell);
        let door = serve("a test", listener.into(), rules(http), outside, decisions).unwrap();
        Stage { proxy, resolved, denied, dir, _door: door }
    }

    /// Sends all of it at once and reads to the end or to a pause that means "open".
    async fn say(&self, bytes: &[u8]) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.proxy).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).await.unwrap();
        (stream, String::from_utf8_lossy(&answer[..count]).into_owned())
    }

    async fn refuses(&self, head: &str, status: &str, why: &str) {
        let (_, answer) = self.say(head.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        assert!(answer.contains(why), "{head}: {answer}");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("proxy.jsonl")).unwrap()
    }
}

fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

#[tokio::test]
async fn an_allowed_host_is_reached() {
    let stage = Stage::new(false).await;
    for (target, name) in [
        ("api.example.com:443", "api.example.com"),
        ("API.Example.com.:443", "Api.example.com"),
        ("ftp.debian.org:443", "ftp.debian.org"),
    ] {
        let (mut stream, answer) = stage.say(connect(target).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
        let hello = records(&hello(&[name]), 9000);
        // In pieces, as a slow program would.
        for piece in hello.chunks(7) {
            stream.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut said = [0; 3];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hi ");
    }
    assert!(stage.log().contains("\"verdict\":\"allow\""));
    assert!(stage.denied.lock().unwrap().is_empty());
}

#[tokio::test]
async fn everything_else_is_refused_before_it_is_resolved() {
    let stage = Stage::new(false).await;
    let forbidden = "403 Forbidden";
    for target in [
        "evil.com:443",
        "api.example.com.evil.com:443",
        "xapi.example.com:443",
        "debian.org:443",
        "1.2.3.4:443",
        "2130706433:443",
        "0x7f.1:443",
        "169.254.169.254:443",
        "[::1]:443",
        "localhost:443",
        "xn--e1afmkfd.evil:443",
        "api.example.com:22",
        "api.example.com:80",
        "api.example.com:0",
    ] {
        stage.refuses(&connect(target), forbidden, "greenroom: ").await;
    }
    let long = format!("{}.debian.org:443", "a".repeat(256));
    stage.refuses(&connect(&long), forbidden, "greenroom: ").await;
    stage.refuses(&connect("evil.com:443"), forbidden, "--allow-host evil.com").await;
    stage.refuses("GET http://api.example.com/ HTTP/1.1\r\n\r\n", forbidden, "--allow-http").await;
    assert_eq!(stage.resolved.load(Ordering::SeqCst), 0);
    let denied = stage.denied.lock().unwrap();
    assert_eq!(denied.iter().filter(|text| text.starts_with("evil.com:443")).count(), 1);
}

#[tokio::test]
async fn a_name_that_leads_home_is_refused() {
    let stage = Stage::new(false).await;
    for name in ["router.debian.org", "rebound.debian.org"] {
        stage.refuses(&connect(&format!("{name}:443")), "403", "not a public address").await;
    }
    assert_eq!(stage.resolved.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let stage = Stage::new(true).await;
    for head in [
        "CONNECT api.example.com:443 HTTP/2\r\n\r\n",
        "CONNECT api.example.com HTTP/1.1\r\n\r\n",
        "CONNECT api.example.com:443\0 HTTP/1.1\r\n\r\n",
        "CONNECT api.example.com:443 HTTP/1.1 \r\n\r\n",
        "CONNECT user@api.example.com:443 HTTP/1.1\r\n\r\n",
        "CONNECT api.example.com:443 HTTP/1.1\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        "GET http://api.example.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n",
        "GET http://api.example.com/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST http://api.example.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "G\u{e9}T http://api.example.com/ HTTP/1.1\r\n\r\n",
        "\r\nGET http://api.example.com/ HTTP/1.1\r\n\r\n",
        "GET http://api.example.com/ HTTP/1.1\n\n",
        "GET http://api.example.com/ HTTP/1.1\r\nX: y\n\r\n",
        "GET http://api.example.com/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    ] {
        stage.refuses(head, "400 Bad Request", "greenroom: ").await;
    }
    let long = format!("GET http://api.example.com/ HTTP/1.1\r\nX: {}\r\n", "y".repeat(1 << 20));
    let mut stream = TcpStream::connect(stage.proxy).await.unwrap();
    // Cut while it still writes.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
}

/// What two readers could take for bodies of two lengths, and so for one request or two.
#[tokio::test]
async fn a_body_of_doubtful_length_is_refused() {
    let stage = Stage::new(true).await;
    let second = "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n";
    for headers in [
        "Content-Length: 0\r\nContent-Length: 44\r\n",
        "Content-Length: 44\r\nContent-Length: 0\r\n",
        "Content-Length: 44\r\nContent-Length: 44\r\n",
        "Content-Length: 44, 44\r\n",
        "Content-Length: +44\r\n",
        "Content-Length: -0\r\n",
        "Content-Length: 0x2c\r\n",
        "Content-Length: \r\n",
        "Content-Length : 44\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding\u{a0}: chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: y\r\nTransfer-Encoding: identity\r\n",
    ] {
        let head = format!("POST http://api.example.com/ HTTP/1.1\r\n{headers}\r\n{second}");
        stage.refuses(&head, "400 Bad Request", "greenroom: ").await;
    }
}

#[tokio::test]
async fn another_name_in_the_hello_cuts_the_tunnel() {
    let stage = Stage::new(false).await;
    let second = connect("evil.com:443");
    for (bytes, why) in [
        (records(&hello(&["evil.com"]), 9000), "names evil.com instead"),
        (records(&hello(&[]), 9000), "names no server"),
        (records(&hello(&["api.example.com", "evil.com"]), 9000), "names two servers"),
        (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), "not TLS"),
        (second.into_bytes(), "not TLS"),
    ] {
        let (mut stream, answer) = stage.say(connect("api.example.com:443").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{why}: {rest:?}");
        assert!(stage.log().contains(why), "{why}: {}", stage.log());
    }
}

#[tokio::test]
async fn socks_obeys_the_same_rules() {
    let stage = Stage::new(false).await;
    let ask = |name: &str, port: u16| {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, name.len() as u8];
        bytes.extend(name.as_bytes());
        bytes.extend(port.to_be_bytes());
        bytes
    };
    let talk = async |bytes: Vec<u8>| {
        let mut stream = TcpStream::connect(stage.proxy).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer[..2], &[5, 0]);
        (stream, answer[3])
    };
    let (mut stream, code) = talk(ask("api.example.com", 443)).await;
    assert_eq!(code, 0);
    stream.write_all(&records(&hello(&["api.example.com"]), 9000)).await.unwrap();
    let mut said = [0; 3];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hi ");
    let (mut stream, code) = talk(ask("api.example.com", 443)).await;
    assert_eq!(code, 0);
    stream.write_all(&records(&hello(&["evil.com"]), 9000)).await.unwrap();
    assert_eq!(stream.read(&mut said).await.unwrap_or(0), 0);
    assert_eq!(talk(ask("evil.com", 443)).await.1, 2);
    assert_eq!(talk(ask("api.example.com", 22)).await.1, 2);
    assert_eq!(talk(ask("10.0.0.1", 443)).await.1, 2);
    assert_eq!(talk(vec![5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 1, 187]).await.1, 8);
    assert_eq!(talk(vec![5, 1, 0, 5, 2, 0, 3, 1, b'a', 1, 187]).await.1, 7);
    let mut stream = TcpStream::connect(stage.proxy).await.unwrap();
    stream.write_all(&[5, 1, 2]).await.unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, [5, 0xff]);
}

#[tokio::test]
async fn a_plain_request_goes_through_once_if_it_may() {
    let stage = Stage::new(true).await;
    let head = "GET http://api.example.com/x HTTP/1.1\r\nHost: api.example.com\r\nProxy-Connection: keep-alive\r\n\r\n";
    let mut stream = TcpStream::connect(stage.proxy).await.unwrap();
    let more = "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n";
    stream.write_all(format!("{head}{more}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let sent = "GET /x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n";
    assert_eq!(answer, format!("hi {}\n", sent.len()), "the second request went nowhere");
}

#[tokio::test(start_paused = true)]
async fn a_slow_program_is_sent_away() {
    let stage = Stage::new(false).await;
    let mut stream = TcpStream::connect(stage.proxy).await.unwrap();
    stream.write_all(b"CONNECT ").await.unwrap();
    let began = tokio::time::Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty() && began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
}

#[test]
fn addresses_that_are_not_public() {
    for private in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "198.18.0.1",
        "192.0.2.1",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fec0::1",
        "::7f00:1",
    ] {
        assert!(!is_public(private.parse().unwrap()), "{private}");
    }
    for public in ["1.1.1.1", "151.101.1.1", "2606:4700::1111", "2a04:4e42::1", "::ffff:1.1.1.1"] {
        assert!(is_public(public.parse().unwrap()), "{public}");
    }
}

#[test]
fn ports_and_kinds() {
    let allowed = |http, port, kind| rules(http).decide("api.example.com", port, kind).is_ok();
    assert!(allowed(false, 443, Kind::Tls));
    assert!(!allowed(false, 80, Kind::Plain) && allowed(true, 80, Kind::Plain));
    assert!(!allowed(true, 80, Kind::Tls) && !allowed(true, 443, Kind::Plain));
    assert!(!allowed(true, 8443, Kind::Tls));
}

proptest! {
    /// However a hello is cut into records and reads, the name is found, and never before it is
    /// whole.
    #[test]
    fn a_hello_in_any_pieces(size in 1usize..300, cut in 0usize..400) {
        let bytes = records(&hello(&["api.example.com"]), size);
        prop_assert_eq!(server_name(&bytes), Hello::Name("api.example.com".into()));
        let part = &bytes[..cut.min(bytes.len() - 1)];
        prop_assert_eq!(server_name(part), Hello::More);
    }

    #[test]
    fn no_bytes_make_a_parser_fall(bytes in prop::collection::vec(any::<u8>(), 0..600), keep in 0usize..80) {
        let _ = (parse(&bytes), socks::greeting(&bytes), socks::request(&bytes), server_name(&bytes));
        // Close to the real thing, too.
        let mut like = records(&hello(&["api.example.com"]), 9000);
        like.truncate(keep);
        like.extend(&bytes);
        let _ = server_name(&like);
        let mut like = b"CONNECT api.example.com:443 HTTP/1.1\r\n".to_vec();
        like.truncate(keep);
        like.extend(&bytes);
        let _ = parse(&like);
    }

    /// A head is the same however many bytes follow, and is not seen before it is whole.
    #[test]
    fn a_head_in_any_pieces(cut in 0usize..200, after in prop::collection::vec(any::<u8>(), 0..50)) {
        let text = connect("api.example.com:443");
        let whole = Head::Connect { host: "api.example.com".into(), port: 443 };
        let mut bytes = text.clone().into_bytes();
        bytes.extend(after);
        prop_assert_eq!(parse(&bytes), Ok(Some((whole, text.len()))));
        prop_assert_eq!(parse(&text.as_bytes()[..cut.min(text.len() - 1)]), Ok(None));
    }
}
