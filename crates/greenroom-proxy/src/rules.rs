//! What a session may reach. Pure: a name and a port in, a verdict out, nothing resolved.

use greenroom_sandbox::policy::{HostPattern, normalise};

const HTTPS: u16 = 443;
const HTTP: u16 = 80;

#[derive(Clone, Debug)]
pub struct Rules {
    pub hosts: Vec<HostPattern>,
    /// Plain HTTP on port 80 too.
    pub http: bool,
}

/// How the bytes after the request will be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TLS hello must name the host.
    Tls,
    /// One plain request, whose head names the host.
    Plain,
}

/// A host that may be dialled, in the one spelling that is compared, resolved and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub host: String,
    pub port: u16,
}

/// Why not; also told to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub what: String,
    pub why: String,
}

impl Rules {
    pub fn decide(&self, host: &str, port: u16, kind: Kind) -> Result<Allowed, Denied> {
        let deny = |why: String| Err(Denied { what: format!("{}:{port}", shown(host)), why });
        let name = match normalise(host) {
            Ok(name) => name,
            Err(error) => return deny(error.to_string()),
        };
        if !self.hosts.iter().any(|pattern| pattern.matches(&name)) {
            return deny(format!("not an allowed host: allow it with --allow-host {name}"));
        }
        match (port, kind) {
            (HTTPS, Kind::Tls) => Ok(Allowed { host: name, port }),
            (HTTP, Kind::Plain) if self.http => Ok(Allowed { host: name, port }),
            (HTTP, _) if !self.http => {
                deny("plain HTTP is not allowed: use https, or --allow-http".to_owned())
            }
            (HTTP, Kind::Tls) => {
                deny("port 80 is for plain requests through HTTP_PROXY".to_owned())
            }
            _ => deny(format!("port {port} is not allowed: only 443 is")),
        }
    }
}

/// For a log and a terminal: short, nothing that could disturb either.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
