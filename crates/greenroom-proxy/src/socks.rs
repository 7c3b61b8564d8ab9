//! SOCKS version 5, as much of it as a program inside needs: no authentication, CONNECT, host
//! names. Pure.

/// `VER NMETHODS METHODS…`, at most.
pub(crate) const GREETING_MAX: usize = 2 + 255;

/// `VER CMD RSV ATYP LEN NAME PORT`, at most.
pub(crate) const REQUEST_MAX: usize = 5 + 255 + 2;

pub(crate) const VERSION: u8 = 5;

const NO_AUTHENTICATION: u8 = 0;
const CONNECT: u8 = 1;
const NAME: u8 = 3;

/// Answer codes of RFC 1928.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandUnknown = 7,
    AddressUnknown = 8,
}

impl Reply {
    /// With an address that says nothing: programs do not look at it.
    pub(crate) fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Version and method.
type Answer = [u8; 2];

/// The method to answer a greeting with, and its length. `None`: more bytes are needed.
pub(crate) fn greeting(bytes: &[u8]) -> Option<(Result<Answer, Answer>, usize)> {
    let [_, count, rest @ ..] = bytes else { return None };
    let methods = rest.get(..usize::from(*count))?;
    let known = methods.contains(&NO_AUTHENTICATION);
    let answer = if known { Ok([VERSION, NO_AUTHENTICATION]) } else { Err([VERSION, 0xff]) };
    Some((answer, 2 + methods.len()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub host: String,
    pub port: u16,
}

/// The code a request is refused with, and why.
type Refused = (Reply, &'static str);

/// A request or its refusal, and its length. `None`: more bytes are needed.
pub(crate) fn request(bytes: &[u8]) -> Option<(Result<Request, Refused>, usize)> {
    let [version, command, _, kind, ..] = *bytes else { return None };
    if version != VERSION {
        return Some((Err((Reply::Failed, "not SOCKS version 5")), bytes.len()));
    }
    if command != CONNECT {
        return Some((Err((Reply::CommandUnknown, "only CONNECT is served")), bytes.len()));
    }
    if kind != NAME {
        let why = "an address instead of a host name: let the proxy resolve (socks5h)";
        return Some((Err((Reply::AddressUnknown, why)), bytes.len()));
    }
    let length = usize::from(*bytes.get(4)?);
    let name = bytes.get(5..5 + length)?;
    let port = bytes.get(5 + length..7 + length)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    let request = match std::str::from_utf8(name) {
        Ok(host) => Ok(Request { host: host.to_owned(), port }),
        Err(_) => Err((Reply::AddressUnknown, "the host name is not text")),
    };
    Some((request, 7 + length))
}
