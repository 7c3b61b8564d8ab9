//! The places in a text where something could begin: a filter in front of every closer look.
//!
//! Three bytes are hashed at every place and looked up in a small table of bits. Nothing that
//! begins as a rule or a literal does is missed; a few places too many are fine.

/// Bits of the table: small enough to stay in the nearest cache.
const BITS: usize = 1 << 16;

#[derive(Clone)]
pub(crate) struct Heads {
    table: Box<[u64; BITS / 64]>,
    count: usize,
}

impl Default for Heads {
    fn default() -> Heads {
        Heads { table: Box::new([0; BITS / 64]), count: 0 }
    }
}

/// The first three bytes of something, as a number.
pub(crate) fn head(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [a, b, c, ..] => Some(u32::from_le_bytes([*a, *b, *c, 0])),
        _ => None,
    }
}

fn slot(head: u32) -> usize {
    (head.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

impl Heads {
    pub(crate) fn add(&mut self, head: u32) {
        let slot = slot(head);
        self.table[slot / 64] |= 1 << (slot % 64);
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Heads) {
        for (bits, more) in self.table.iter_mut().zip(other.table.iter()) {
            *bits |= more;
        }
        self.count += other.count;
    }

    fn has(&self, head: u32) -> u64 {
        let slot = slot(head);
        self.table[slot / 64] >> (slot % 64) & 1
    }

    /// The next place from `from` on where something may begin.
    pub(crate) fn next(&self, text: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        // Six places per load.
        while let Some(eight) = text.get(at..at + 8) {
            let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
            let mut hits = 0;
            for n in 0..6 {
                hits |= self.has((word >> (8 * n)) as u32 & 0xff_ffff) << n;
            }
            if hits != 0 {
                return Some(at + hits.trailing_zeros() as usize);
            }
            at += 6;
        }
        let last = text.len().checked_sub(3)?;
        (at..=last).find(|&at| head(&text[at..]).is_some_and(|head| self.has(head) == 1))
    }
}
