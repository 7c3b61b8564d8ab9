//! Reads the time stamps the ticking program prints out of a stream cut anywhere.

use std::time::Duration;

use crate::programs::{TICK, now_ns};

/// Collects the delay of each stamp at the moment its piece arrives.
#[derive(Default)]
pub struct Ticks {
    pending: Vec<u8>,
    pub delays: Vec<Duration>,
}

impl Ticks {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_at(bytes, now_ns());
    }

    fn feed_at(&mut self, bytes: &[u8], now: u64) {
        self.pending.extend_from_slice(bytes);
        while let Some((stamp, used)) = first_stamp(&self.pending) {
            self.delays.push(Duration::from_nanos(now.saturating_sub(stamp)));
            self.pending.drain(..used);
        }
    }
}

/// The first whole stamp and where it ends.
fn first_stamp(bytes: &[u8]) -> Option<(u64, usize)> {
    let start = bytes.windows(TICK.len()).position(|window| window == TICK.as_bytes())?;
    let digits = start + TICK.len();
    let length = bytes[digits..].iter().position(|byte| *byte == b'.')?;
    let stamp = std::str::from_utf8(&bytes[digits..digits + length]).ok()?.parse().ok()?;
    Some((stamp, digits + length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_wherever_the_stream_is_cut() {
        let text = b"ready\r\ntick:100.\r\ntick:250.\r\n";
        for cut in 0..text.len() {
            let mut ticks = Ticks::default();
            ticks.feed_at(&text[..cut], 1000);
            ticks.feed_at(&text[cut..], 1000);
            assert_eq!(ticks.delays, [Duration::from_nanos(900), Duration::from_nanos(750)]);
        }
    }
}
