//! Who may ask at all: looked at before anything is routed or any body is read.
//!
//! *Host* must name this machine: a page whose name was made to point here (DNS rebinding) still
//! says its own name. *Origin* must be ours or absent: no foreign page may talk to us, also by
//! WebSocket, where browsers ask nobody. *Token*: on the loopback every user of the machine can
//! connect, so an address proves nothing. Pure: headers in, a verdict out.

use std::net::SocketAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use greenroom_protocol::{Fault, FaultKind};

use super::token::Token;

/// What a WebSocket is called when its client can name subprotocols only, as in a browser.
pub(crate) const SUBPROTOCOL: &str = "greenroom.v1";
/// Such a client shows its token as another subprotocol.
const TOKEN_PREFIX: &str = "greenroom.token.";

static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) struct Gate {
    token: Token,
    /// `host:port` in each spelling that means us.
    hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Token,
}

impl Refusal {
    pub(crate) fn fault(self) -> Fault {
        match self {
            Refusal::Host => {
                Fault::new(FaultKind::PermissionDenied, "the Host header does not name this host")
                    .with("reason", "host")
                    .hint("use the url that greenroom web shows")
            }
            Refusal::Origin => {
                Fault::new(FaultKind::PermissionDenied, "pages of other origins are not served")
                    .with("reason", "origin")
            }
            Refusal::Token => Fault::new(
                FaultKind::PermissionDenied,
                "the token is missing or wrong",
            )
            .with("reason", "token")
            .hint("send Authorization: Bearer with the token that greenroom web --json prints"),
        }
    }
}

impl Gate {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Gate {
        let port = address.port();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned(), "[::1]".to_owned()];
        let own = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let mut hosts: Vec<String> = Vec::new();
        for name in names.into_iter().chain([own]) {
            if port == 80 {
                hosts.push(name.clone());
            }
            hosts.push(format!("{name}:{port}"));
        }
        Gate { token, hosts }
    }

    pub(crate) fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let headers = &request.headers;
        let host = only(headers, &header::HOST).ok_or(Refusal::Host)?;
        // A request line with an address of its own overrules the header.
        let asked = request.uri.authority().map(|authority| authority.as_str());
        if !self.is_us(host) || !asked.is_none_or(|asked| self.is_us(asked)) {
            return Err(Refusal::Host);
        }
        if !self.is_our_page(headers) {
            return Err(Refusal::Origin);
        }
        let shown = shown(headers).filter(|shown| self.token.is(shown.as_bytes()));
        shown.map(drop).ok_or(Refusal::Token)
    }

    fn is_us(&self, host: &str) -> bool {
        self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host))
    }

    fn is_our_page(&self, headers: &HeaderMap) -> bool {
        let site = match only(headers, &FETCH_SITE) {
            Some(site) => matches!(site, "same-origin" | "none"),
            None => !headers.contains_key(&FETCH_SITE),
        };
        let origin = match only(headers, &header::ORIGIN) {
            Some(origin) => origin.strip_prefix("http://").is_some_and(|host| self.is_us(host)),
            None => !headers.contains_key(header::ORIGIN),
        };
        site && origin
    }
}

/// The header's value, if it is there once and plain text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)?.to_str().ok()
}

/// The token as it was shown: in `Authorization`, or for a WebSocket among its subprotocols.
fn shown(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(header::AUTHORIZATION) {
        let (scheme, token) = only(headers, &header::AUTHORIZATION)?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim());
    }
    if !headers.contains_key(header::SEC_WEBSOCKET_KEY) {
        return None;
    }
    let offered = only(headers, &header::SEC_WEBSOCKET_PROTOCOL)?;
    offered.split(',').find_map(|protocol| protocol.trim().strip_prefix(TOKEN_PREFIX))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn gate() -> (Gate, String) {
        let token = Token::fresh().unwrap();
        let text = token.reveal().to_owned();
        (Gate::new("127.0.0.1:7878".parse().unwrap(), token), text)
    }

    fn ask(gate: &Gate, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_host_must_be_named() {
        let (gate, token) = gate();
        let bearer = format!("Bearer {token}");
        let with = |host: &str| ask(&gate, "/", &[("host", host), ("authorization", &bearer)]);
        for good in ["127.0.0.1:7878", "localhost:7878", "LOCALHOST:7878", "[::1]:7878"] {
            assert_eq!(with(good), Ok(()), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:7878",
            "127.0.0.1",
            "127.0.0.1:7879",
            "localhost.evil.example:7878",
            "127.0.0.1:7878.evil.example",
            "user@127.0.0.1:7878",
            "",
        ] {
            assert_eq!(with(bad), Err(Refusal::Host), "{bad}");
        }
        let auth = ("authorization", bearer.as_str());
        assert_eq!(ask(&gate, "/", &[auth]), Err(Refusal::Host));
        let host = ("host", "127.0.0.1:7878");
        assert_eq!(ask(&gate, "/", &[host, ("host", "evil.example"), auth]), Err(Refusal::Host));
        assert_eq!(ask(&gate, "http://evil.example/api", &[host, auth]), Err(Refusal::Host));
        assert_eq!(ask(&gate, "http://127.0.0.1:7878/api", &[host, auth]), Ok(()));
    }

    #[test]
    fn a_foreign_page_is_refused_with_the_right_token_too() {
        let (gate, token) = gate();
        let bearer = format!("Bearer {token}");
        let with = |name: &str, value: &str| {
            let host = ("host", "localhost:7878");
            ask(&gate, "/", &[host, ("authorization", &bearer), (name, value)])
        };
        assert_eq!(with("origin", "http://localhost:7878"), Ok(()));
        assert_eq!(with("origin", "http://127.0.0.1:7878"), Ok(()));
        assert_eq!(with("sec-fetch-site", "same-origin"), Ok(()));
        assert_eq!(with("sec-fetch-site", "none"), Ok(()));
        for foreign in [
            "null",
            "",
            "http://evil.example",
            "https://localhost:7878",
            "http://localhost",
            "http://localhost:7879",
            "http://localhost:7878.evil.example",
            "http://localhost:7878/",
        ] {
            assert_eq!(with("origin", foreign), Err(Refusal::Origin), "{foreign}");
        }
        assert_eq!(with("sec-fetch-site", "cross-site"), Err(Refusal::Origin));
        assert_eq!(with("sec-fetch-site", "same-site"), Err(Refusal::Origin));
    }

    #[test]
    fn the_token_is_wanted_in_its_place() {
        let (gate, token) = gate();
        let host = ("host", "localhost:7878");
        let with = |headers: &[(&str, &str)]| {
            ask(&gate, &format!("/?token={token}"), &[&[host], headers].concat())
        };
        let bearer = |text: &str| format!("Bearer {text}");
        assert_eq!(with(&[("authorization", &bearer(&token))]), Ok(()));
        assert_eq!(with(&[("authorization", &format!("bearer {token}"))]), Ok(()));
        assert_eq!(with(&[]), Err(Refusal::Token));
        for wrong in ["", "x", &token[1..], &format!("{token}0"), &token.to_uppercase()] {
            // A token of digits alone is the same in capitals.
            if *wrong != token {
                assert_eq!(
                    with(&[("authorization", &bearer(wrong))]),
                    Err(Refusal::Token),
                    "{wrong}"
                );
            }
        }
        assert_eq!(with(&[("authorization", &token)]), Err(Refusal::Token));
        assert_eq!(with(&[("authorization", &format!("Basic {token}"))]), Err(Refusal::Token));
        let two = bearer(&token);
        assert_eq!(
            with(&[("authorization", &two), ("authorization", "Bearer x")]),
            Err(Refusal::Token)
        );
        let offered = format!("{SUBPROTOCOL}, {TOKEN_PREFIX}{token}");
        let offer = ("sec-websocket-protocol", offered.as_str());
        assert_eq!(with(&[offer]), Err(Refusal::Token), "only for a WebSocket");
        assert_eq!(with(&[offer, ("sec-websocket-key", "x")]), Ok(()));
    }
}
