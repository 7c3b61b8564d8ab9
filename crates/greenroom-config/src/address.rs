//! Where HTTP may listen: addresses that only this machine can reach.

use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("cannot read the address {text}: it must be such as 127.0.0.1:7878")]
    Unreadable { text: String },
    #[error(
        "cannot serve HTTP on {address}: others than this machine could reach it, and there is no TLS"
    )]
    Wider { address: SocketAddr },
}

/// An address that only this machine can reach.
pub fn loopback(text: &str) -> Result<SocketAddr, AddressError> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let unreadable = |_| AddressError::Unreadable { text: text.escape_debug().to_string() };
    let address: SocketAddr = numeric.parse().map_err(unreadable)?;
    if address.ip().is_loopback() { Ok(address) } else { Err(AddressError::Wider { address }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        for good in ["127.0.0.1:0", "127.8.9.1:80", "[::1]:7878", "localhost:7878"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for wide in ["0.0.0.0:80", "[::]:80", "192.168.1.4:80", "8.8.8.8:1", "[::ffff:127.0.0.1]:1"]
        {
            assert!(matches!(loopback(wide), Err(AddressError::Wider { .. })), "{wide}");
        }
        for bad in
            ["", "127.0.0.1", ":80", "example.com:80", "localhost", "127.0.0.1:99999", "\u{1b}[0m"]
        {
            assert!(matches!(loopback(bad), Err(AddressError::Unreadable { .. })), "{bad}");
        }
    }
}
