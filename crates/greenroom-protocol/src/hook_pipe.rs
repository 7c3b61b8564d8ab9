//! What agents' hooks say from inside a confined session: messages in pieces, through a named pipe.
//!
//! A confined session reaches no socket. It has a pipe of its own into which `greenroom hook`
//! writes pieces of exactly [`PIECE_BYTES`], which the kernel never mixes with others'. Whose pipe
//! it is says who speaks; nothing in a message does. In: a message, or pieces from a pipe into
//! which the session may have written anything. Out: pieces, or messages.

use std::collections::VecDeque;

/// Names the pipe, inside.
pub const PIPE_VARIABLE: &str = "GREENROOM_HOOK";
/// What the kernel writes into a pipe as a whole.
pub const PIECE_BYTES: usize = 4096;
/// The largest message: a tool's input may hold a whole file.
pub const MESSAGE_BYTES: usize = 1024 * 1024;
/// Messages of which some pieces are still to come.
const UNFINISHED_MAX: usize = 8;

const MAGIC: [u8; 4] = *b"GRH1";
/// Magic, message, number of the piece, count of pieces, bytes in it.
const HEAD_BYTES: usize = 4 + 8 + 2 + 2 + 2;
const BODY_BYTES: usize = PIECE_BYTES - HEAD_BYTES;

/// The pieces of a message; `None` if it is too large or empty. `id` tells it from others of the
/// same time.
pub fn pieces(message: &[u8], id: u64) -> Option<Vec<Vec<u8>>> {
    if message.is_empty() || message.len() > MESSAGE_BYTES {
        return None;
    }
    let count = u16::try_from(message.len().div_ceil(BODY_BYTES)).ok()?;
    let piece = |(number, body): (u16, &[u8])| {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        piece.extend(MAGIC);
        piece.extend(id.to_le_bytes());
        piece.extend(number.to_le_bytes());
        piece.extend(count.to_le_bytes());
        piece.extend(u16::try_from(body.len()).unwrap_or(u16::MAX).to_le_bytes());
        piece.extend(body);
        piece.resize(PIECE_BYTES, 0);
        piece
    };
    Some((0..).zip(message.chunks(BODY_BYTES)).map(piece).collect())
}

/// This is no piece: somebody else wrote into the pipe, and where the next piece begins is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage;

struct Unfinished {
    id: u64,
    count: u16,
    next: u16,
    message: Vec<u8>,
}

/// Puts messages together again. What is left unfinished gives way to what comes later.
#[derive(Default)]
pub struct Assembly {
    unfinished: VecDeque<Unfinished>,
}

impl Assembly {
    /// Takes one piece; answers a message if this was its last.
    pub fn take(&mut self, piece: &[u8]) -> Result<Option<Vec<u8>>, Garbage> {
        let (id, number, count, body) = read(piece).ok_or(Garbage)?;
        let known = self.unfinished.iter().position(|it| it.id == id && it.count == count);
        let mut message = match known.and_then(|at| self.unfinished.remove(at)) {
            // One writer's pieces come in order.
            Some(known) if known.next == number => known,
            _ if number == 0 => Unfinished { id, count, next: 0, message: Vec::new() },
            _ => return Ok(None),
        };
        message.message.extend(body);
        message.next += 1;
        if message.next == count {
            return Ok(Some(message.message));
        }
        if self.unfinished.len() == UNFINISHED_MAX {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(message);
        Ok(None)
    }
}

fn read(piece: &[u8]) -> Option<(u64, u16, u16, &[u8])> {
    let (head, body) = piece.split_at_checked(HEAD_BYTES)?;
    let rest = head.strip_prefix(&MAGIC)?;
    let (id, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (length, _) = rest.split_first_chunk()?;
    let (number, count) = (u16::from_le_bytes(*number), u16::from_le_bytes(*count));
    let body = body.get(..u16::from_le_bytes(*length).into())?;
    let possible = number < count && usize::from(count) <= MESSAGE_BYTES.div_ceil(BODY_BYTES);
    // All but the last are full: a message's size follows from its count.
    let full = number + 1 == count || body.len() == BODY_BYTES;
    (possible && full && !body.is_empty()).then_some((u64::from_le_bytes(*id), number, count, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_also_mixed() {
        let sizes = [1, BODY_BYTES, BODY_BYTES + 1, 100_000, MESSAGE_BYTES];
        let messages: Vec<Vec<u8>> = sizes.iter().map(|size| vec![*size as u8; *size]).collect();
        let mut all: Vec<VecDeque<Vec<u8>>> =
            (7..).zip(&messages).map(|(id, message)| pieces(message, id).unwrap().into()).collect();
        let (mut assembly, mut out) = (Assembly::default(), Vec::new());
        while all.iter().any(|it| !it.is_empty()) {
            for piece in all.iter_mut().filter_map(VecDeque::pop_front) {
                assert_eq!(piece.len(), PIECE_BYTES);
                out.extend(assembly.take(&piece).unwrap());
            }
        }
        assert_eq!(out, messages);
        assert!(pieces(&vec![0; MESSAGE_BYTES + 1], 1).is_none() && pieces(b"", 1).is_none());
    }

    #[test]
    fn garbage_is_told_and_nothing_grows() {
        let mut assembly = Assembly::default();
        let good = pieces(&[1; 10_000], 5).unwrap();
        let bad = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut piece = good[0].clone();
            change(&mut piece);
            piece
        };
        for piece in [
            vec![0; PIECE_BYTES],
            Vec::new(),
            bad(&|it| it[0] = 0),
            bad(&|it| it[14] = 0),
            bad(&|it| it[15] = 0xff),
            bad(&|it| it[17] = 0xff),
            bad(&|it| it[16..18].fill(0)),
        ] {
            assert_eq!(assembly.take(&piece), Err(Garbage));
        }
        // A piece in the middle of nothing, and one that comes twice.
        assert_eq!(assembly.take(&good[1]), Ok(None));
        assert_eq!(assembly.take(&good[0]), Ok(None));
        assert_eq!(assembly.take(&good[0]), Ok(None));
        for id in 100..200 {
            assert_eq!(assembly.take(&pieces(&[1; 10_000], id).unwrap()[0]), Ok(None));
        }
        assert_eq!(assembly.unfinished.len(), UNFINISHED_MAX);
    }
}
