//! The one record format, used by index files and by the ring's note area.
//!
//! A record is a 40 byte header (magic, kind, payload length, sequence number, time, ordinal, crc)
//! and a payload padded to 8 bytes; little-endian. In come bytes of any origin, out come records
//! whose crc is right. A damaged stretch is stepped over 8 bytes at a time and counted, never
//! trusted. Deliberately absent: what the kinds mean (`note`).

use crate::keep::checksum;

/// First two bytes of each record.
const MAGIC: u16 = 0x4a47;
pub(super) const HEADER: usize = 40;
/// Payloads are marks, and marks are capped.
pub(super) const PAYLOAD_MAX: usize = super::limits::MARK_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub kind: u8,
    pub seq: u64,
    pub time_ns: u64,
    /// Grows by one per record of a session; makes a rewrite after a kill
    /// recognisable. Gap records, which are idempotent, carry 0.
    pub ord: u64,
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Appends the encoded record to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.payload.len() <= PAYLOAD_MAX, "payloads are capped by the caller");
        let at = out.len();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.push(self.kind);
        out.push(0);
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.ord.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(self.payload);
        let crc = checksum(&out[at..at + 32], self.payload);
        out[at + 32..at + 36].copy_from_slice(&crc.to_le_bytes());
        out.resize(at + padded(self.payload.len()), 0);
    }
}

fn padded(payload: usize) -> usize {
    HEADER + payload.next_multiple_of(8)
}

/// The record at the start of `bytes` and its whole length, if it is sound.
pub(super) fn decode(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    if bytes.len() < HEADER || bytes[..2] != MAGIC.to_le_bytes() {
        return None;
    }
    let half = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_le_bytes);
    let word = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes);
    let len = half(4)? as usize;
    if len > PAYLOAD_MAX {
        return None;
    }
    let whole = padded(len);
    let payload = bytes.get(HEADER..whole)?.get(..len)?;
    if half(32)? != checksum(&bytes[..32], payload) {
        return None;
    }
    let (seq, time_ns, ord) = (word(8)?, word(16)?, word(24)?);
    Some((Record { kind: bytes[2], seq, time_ns, ord, payload }, whole))
}

/// Walks over records; see `damaged` and `sound_end` when it is done.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes stepped over because no sound record began there.
    pub damaged: u64,
    /// End of the last sound record: where an index goes on.
    pub sound_end: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Records { bytes, at: 0, damaged: 0, sound_end: 0 }
    }

    /// Where the next record is looked for.
    pub(super) fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        while self.at < self.bytes.len() {
            if let Some((record, whole)) = decode(&self.bytes[self.at..]) {
                self.at += whole;
                self.sound_end = self.at;
                return Some(record);
            }
            let step = 8.min(self.bytes.len() - self.at);
            self.at += step;
            self.damaged += step as u64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(records: &[(u8, u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, (kind, seq, payload)) in records.iter().enumerate() {
            Record { kind: *kind, seq: *seq, time_ns: 7, ord: i as u64, payload }.encode(&mut out);
        }
        out
    }

    fn some_records() -> impl Strategy<Value = Vec<(u8, u64, Vec<u8>)>> {
        proptest::collection::vec(
            (any::<u8>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..60)),
            1..12,
        )
    }

    proptest! {
        #[test]
        fn records_read_back_as_written(records in some_records()) {
            let bytes = encoded(&records);
            let mut walk = Records::new(&bytes);
            let back: Vec<_> = walk.by_ref().map(|r| (r.kind, r.seq, r.payload.to_vec())).collect();
            prop_assert_eq!(back, records);
            prop_assert_eq!(walk.damaged, 0);
            prop_assert_eq!(walk.sound_end, bytes.len());
        }

        #[test]
        fn a_torn_tail_costs_only_the_torn_record(records in some_records(), cut in any::<prop::sample::Index>()) {
            let bytes = encoded(&records);
            let cut = cut.index(bytes.len());
            let mut ends = Vec::new();
            let mut walk = Records::new(&bytes);
            while walk.next().is_some() { ends.push(walk.sound_end); }
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let mut torn = Records::new(&bytes[..cut]);
            prop_assert_eq!(torn.by_ref().count(), whole);
            prop_assert_eq!(torn.sound_end, ends[..whole].last().copied().unwrap_or(0));
        }

        #[test]
        fn a_flipped_bit_costs_at_most_one_record(records in some_records(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = encoded(&records);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let back = Records::new(&bytes).count();
            prop_assert!(back + 1 >= records.len() && back <= records.len());
        }
    }
}
