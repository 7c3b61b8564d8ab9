//! The network beyond the proxy: names to addresses, and one address dialled.
//!
//! Addresses of this machine, its neighbours and the provider are refused whatever name leads
//! there: a name is a grant for a public host, not for the router or the metadata service.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::rules::Allowed;

/// A name must be found within this, and an address answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// For tests and measurements: `name=address:port`, separated by commas. Such a name is dialled
/// there, unjudged. Read from the daemon's own environment, which no session can change.
const FIXED_NAMES: &str = "GREENROOM_PROXY_NAMES";

type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
type Resolve = dyn Fn(String, u16) -> Found + Send + Sync;

#[derive(Clone)]
pub struct Outside {
    resolve: Arc<Resolve>,
    fixed: Arc<HashMap<String, SocketAddr>>,
}

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error("{host} leads to {address}, which is not a public address")]
    Private { host: String, address: IpAddr },
    #[error("{host} has no address")]
    Nowhere { host: String },
    #[error("cannot reach {host}: {source}")]
    Connect { host: String, source: io::Error },
}

impl Outside {
    /// The machine's own network.
    pub fn real() -> Outside {
        let text = std::env::var(FIXED_NAMES).unwrap_or_default();
        let pair = |pair: &str| {
            let (name, address) = pair.split_once('=')?;
            Some((name.to_owned(), address.parse().ok()?))
        };
        let fixed = text.split(',').filter_map(pair).collect();
        Outside { fixed: Arc::new(fixed), ..Outside::resolving(by_the_system) }
    }

    /// With another way to find addresses.
    pub fn resolving<F>(resolve: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Outside
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let resolve = move |host, port| -> Found { Box::pin(resolve(host, port)) };
        Outside { resolve: Arc::new(resolve), fixed: Arc::default() }
    }

    #[cfg(test)]
    pub fn with_fixed(mut self, name: &str, address: SocketAddr) -> Outside {
        Arc::make_mut(&mut self.fixed).insert(name.to_owned(), address);
        self
    }

    /// Resolves once, judges, and dials what was judged.
    pub async fn dial(&self, to: &Allowed) -> Result<TcpStream, DialError> {
        let host = || to.host.clone();
        if let Some(address) = self.fixed.get(&to.host) {
            let dialled = TcpStream::connect(address).await;
            return dialled.map_err(|source| DialError::Connect { host: host(), source });
        }
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let found = tokio::time::timeout(PATIENCE, (self.resolve)(host(), to.port)).await;
        let found = found
            .unwrap_or_else(|_| Err(late()))
            .map_err(|source| DialError::Resolve { host: host(), source })?;
        let mut error = DialError::Nowhere { host: host() };
        for address in found.into_iter().take(ADDRESSES_MAX) {
            if !is_public(address.ip()) {
                error = DialError::Private { host: host(), address: address.ip() };
                continue;
            }
            let address = SocketAddr::new(address.ip(), to.port);
            match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(source)) => error = DialError::Connect { host: host(), source },
                Err(_) => error = DialError::Connect { host: host(), source: late() },
            }
        }
        Err(error)
    }
}

async fn by_the_system(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    // A dot at the end: no search list of the machine turns it into another name.
    Ok(tokio::net::lookup_host((format!("{host}."), port)).await?.collect())
}

/// An address on the open internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        // Carriers' own, benchmarking, reserved, protocol assignments, 6to4 relays.
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || a >= 240
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // An address of version 4 in another coat counts as what is inside.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Teredo, documentation, discard, local translation.
        [0x2001, 0, ..] | [0x2001, 0xdb8, ..] | [0x100, ..] | [0x64, 0xff9b, 1, ..] => false,
        // Only what is given out for the internet: 2000::/3. Everything else is local, multicast or
        // nothing.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
