//! The head of an HTTP request to a proxy. Pure: bytes in, a request, "more", or a refusal out.
//!
//! Strict on purpose: what this reads one way and the server another would be a way around the
//! rules.

/// A longer head is not a program that wants to connect.
pub(crate) const HEAD_MAX: usize = 16 * 1024;

/// More header lines than any client sends.
const HEADERS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// `CONNECT host:port`.
    Connect { host: String, port: u16 },
    /// `GET http://host/path`: one plain request.
    Plain(Plain),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
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
pub(crate) struct BadHead(pub &'static str);

/// `None`: more bytes are needed. The number is how many bytes the head took.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, BadHead> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_MAX => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
        Ok(_) => return Err(BadHead("the request's head is too long")),
        Err(error) => return Err(BadHead(mistake(error))),
    };
    // The parser forgives both; a server may not, and would see another request.
    let bare = |at: usize| bytes[at] == b'\n' && (at == 0 || bytes[at - 1] != b'\r');
    if !bytes[0].is_ascii_graphic() || (0..length).any(bare) {
        return Err(BadHead("a line of the head does not end as it must"));
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(BadHead("the request line is not METHOD TARGET VERSION"));
    };
    let head = if method == "CONNECT" {
        let (host, port) = authority(target).ok_or(BadHead("CONNECT wants host:port"))?;
        let port = port.ok_or(BadHead("CONNECT wants host:port"))?;
        Head::Connect { host, port }
    } else {
        Head::Plain(plain(method, target, version, request.headers)?)
    };
    Ok(Some((head, length)))
}

fn mistake(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a header's name has a character that no name has",
        httparse::Error::HeaderValue => "a header has control characters",
        httparse::Error::NewLine => "a line of the head does not end as it must",
        httparse::Error::Status | httparse::Error::Token => "the request line is no text",
        httparse::Error::TooManyHeaders => "the head has too many lines",
        httparse::Error::Version => "only HTTP/1.0 and HTTP/1.1 are spoken here",
    }
}

fn plain(
    method: &str,
    target: &str,
    version: u8,
    headers: &[httparse::Header<'_>],
) -> Result<Plain, BadHead> {
    let rest = target.strip_prefix("http://").ok_or(BadHead("a proxy wants http://host/…"))?;
    let (place, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let (host, port) = authority(place).ok_or(BadHead("a proxy wants http://host/…"))?;
    let mut head = format!("{method} {path} HTTP/1.{version}\r\n");
    let (mut named, mut body) = (None, None);
    for httparse::Header { name, value } in headers {
        let value = std::str::from_utf8(value).map_err(|_| BadHead("a header is no text"))?;
        match name.to_ascii_lowercase().as_str() {
            "host" if named.is_some() => return Err(BadHead("two Host headers")),
            "host" => named = Some(value.to_owned()),
            "content-length" if body.is_some() => {
                return Err(BadHead("two Content-Length headers"));
            }
            "content-length" => body = Some(number(value)?),
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
    let (port, body) = (port.unwrap_or(80), body.unwrap_or(0));
    Ok(Plain { host, port, head: head.into_bytes(), body })
}

/// Digits only: what other readers make of `+44` differs.
fn number(value: &str) -> Result<u64, BadHead> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or(BadHead("Content-Length is no number"))
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
