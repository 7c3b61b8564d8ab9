//! The head of an HTTP request to a proxy. Pure: bytes in, a request, "more", or a refusal out.
//!
//! Strict on purpose: what this reads one way and the server another would be a way around the rules.

/// A longer head is not a program that wants to connect.
pub const HEAD_MAX: usize = 16 * 1024;

/// More header lines than any client sends.
const HEADERS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// `CONNECT host:port`.
    Connect { host: String, port: u16 },
    /// `GET http://host/path`: one plain request.
    Plain(Plain),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    pub host: String,
    pub port: u16,
    /// The head as the server gets it: origin form, one request per connection.
    pub head: Vec<u8>,
    /// Bytes of body that belong to it.
    pub body: u64,
}

/// Not a request, or one that could mean two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadHead(pub &'static str);

/// `None`: more bytes are needed. The number is how many bytes the head took.
pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, BadHead> {
    let Some(end) = bytes.windows(4).take(HEAD_MAX).position(|four| four == b"\r\n\r\n") else {
        return match bytes.len() >= HEAD_MAX {
            true => Err(BadHead("the request's head is too long")),
            false => Ok(None),
        };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| BadHead("the head is not text"))?;
    let odd = |c: char| c.is_control() && c != '\t';
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let headers: Vec<&str> = lines.collect();
    if first.contains(odd) || headers.iter().any(|line| line.contains(odd)) {
        return Err(BadHead("the head has control characters"));
    }
    if headers.len() > HEADERS_MAX {
        return Err(BadHead("the head has too many lines"));
    }
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words.as_slice() else {
        return Err(BadHead("the request line is not METHOD TARGET VERSION"));
    };
    if !matches!(*version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(BadHead("only HTTP/1.0 and HTTP/1.1 are spoken here"));
    }
    let head = if *method == "CONNECT" {
        let (host, port) = authority(target).ok_or(BadHead("CONNECT wants host:port"))?;
        let port = port.ok_or(BadHead("CONNECT wants host:port"))?;
        Head::Connect { host, port }
    } else {
        Head::Plain(plain(method, target, version, &headers)?)
    };
    Ok(Some((head, end + 4)))
}

fn plain(method: &str, target: &str, version: &str, headers: &[&str]) -> Result<Plain, BadHead> {
    let token = |byte: u8| byte.is_ascii_alphabetic() || byte == b'-';
    if method.is_empty() || !method.bytes().all(token) {
        return Err(BadHead("that is no method"));
    }
    let rest = target.strip_prefix("http://").ok_or(BadHead("a proxy wants http://host/…"))?;
    let (place, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let (host, port) = authority(place).ok_or(BadHead("a proxy wants http://host/…"))?;
    let mut head = format!("{method} {path} {version}\r\n");
    let (mut named, mut body) = (None, 0);
    for line in headers {
        let (name, value) = line.split_once(':').ok_or(BadHead("a header has no colon"))?;
        let value = value.trim();
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(BadHead("a header has a space in its name"));
        }
        match name.to_ascii_lowercase().as_str() {
            "host" if named.is_some() => return Err(BadHead("two Host headers")),
            "host" => named = Some(value.to_owned()),
            "content-length" if body != 0 => return Err(BadHead("two Content-Length headers")),
            "content-length" => {
                body = value.parse().map_err(|_| BadHead("Content-Length is no number"))?;
            }
            "transfer-encoding" | "upgrade" => {
                return Err(BadHead("only bodies with a Content-Length pass"));
            }
            // About the way to the proxy, not to the server.
            "connection" | "proxy-connection" | "proxy-authorization" | "keep-alive" => continue,
            _ => {}
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let same =
        |named: &String| authority(named).is_some_and(|(name, _)| name.eq_ignore_ascii_case(&host));
    if !named.as_ref().is_none_or(same) {
        return Err(BadHead("the Host header names another host than the request"));
    }
    if named.is_none() {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    Ok(Plain { host, port: port.unwrap_or(80), head: head.into_bytes(), body })
}

/// `host`, `host:port`, `[address]:port`. The host is not judged here.
fn authority(text: &str) -> Option<(String, Option<u16>)> {
    if text.contains(['@', '/', '?', '#', ' ']) {
        return None;
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            let port = match after {
                "" => None,
                after => Some(after.strip_prefix(':')?),
            };
            (format!("[{address}]"), port)
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
        None => None,
    };
    (!host.is_empty()).then_some((host, port))
}
