//! What is written beside the bytes: resizes, input marks, marks, the end.
//!
//! In come [`Note`]s of the actor, out go record kinds and payloads, and back.
//! Deliberately absent: input *content* (passwords are typed too; only its
//! length is kept) and where records are stored (`mod`, `files`).

use greenroom_term::Size;

use super::limits::MARK_BYTES;

/// Kinds of record. Numbers are on disk: never reuse one.
pub(super) mod kind {
    /// First record of an index; payload: version, cols, rows.
    pub(crate) const START: u8 = 1;
    /// Bytes from here on came at this time.
    pub(crate) const TIME: u8 = 2;
    pub(crate) const RESIZE: u8 = 3;
    pub(crate) const INPUT: u8 = 4;
    pub(crate) const MARK: u8 = 5;
    pub(crate) const EXIT: u8 = 6;
    pub(crate) const REATTACHED: u8 = 7;
    /// Bytes from seq up to the payload's word are missing.
    pub(crate) const GAP: u8 = 8;
    /// So many input marks found no room.
    pub(crate) const NOTES_LOST: u8 = 9;
}

/// Version in START records and key files.
pub(super) const FORMAT: u16 = 1;

/// Something to remember at the current sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The terminal has this size from here on.
    Resize(Size),
    /// So many bytes were typed. What they were is not recorded.
    Input { len: u32 },
    /// A named place; cut to [`MARK_BYTES`].
    Mark(String),
    /// The program ended.
    Exit { code: Option<i32>, signal: Option<i32> },
    /// A new daemon took the session over here.
    Reattached,
    /// So many notes before this one found no room and were not recorded.
    Lost(u64),
}

impl Note {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Note::Resize(_) => kind::RESIZE,
            Note::Input { .. } => kind::INPUT,
            Note::Mark(_) => kind::MARK,
            Note::Exit { .. } => kind::EXIT,
            Note::Reattached => kind::REATTACHED,
            Note::Lost(_) => kind::NOTES_LOST,
        }
    }

    pub(super) fn payload(&self, out: &mut Vec<u8>) {
        match self {
            Note::Resize(size) => {
                out.extend_from_slice(&size.cols().to_le_bytes());
                out.extend_from_slice(&size.rows().to_le_bytes());
            }
            Note::Input { len } => out.extend_from_slice(&len.to_le_bytes()),
            Note::Mark(text) => out.extend_from_slice(cut(text).as_bytes()),
            Note::Exit { code, signal } => {
                for part in [code, signal] {
                    out.push(u8::from(part.is_some()));
                    out.extend_from_slice(&part.unwrap_or(0).to_le_bytes());
                }
            }
            Note::Reattached => {}
            Note::Lost(count) => out.extend_from_slice(&count.to_le_bytes()),
        }
    }

    /// `None`: a kind that is no note, or a payload of the wrong shape.
    pub(super) fn decode(kind: u8, payload: &[u8]) -> Option<Note> {
        Some(match kind {
            kind::RESIZE => Note::Resize(decode_size(payload)?),
            kind::INPUT => Note::Input { len: u32::from_le_bytes(payload.try_into().ok()?) },
            kind::MARK => Note::Mark(String::from_utf8_lossy(payload).into_owned()),
            kind::EXIT => {
                let part = |at: usize| -> Option<Option<i32>> {
                    let value = i32::from_le_bytes(payload.get(at + 1..at + 5)?.try_into().ok()?);
                    Some((payload[at] != 0).then_some(value))
                };
                Note::Exit { code: part(0)?, signal: part(5)? }
            }
            kind::REATTACHED => Note::Reattached,
            kind::NOTES_LOST => Note::Lost(payload.try_into().map_or(0, u64::from_le_bytes)),
            _ => return None,
        })
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MARK_BYTES)]
}

pub(super) fn decode_size(payload: &[u8]) -> Option<Size> {
    let cols = u16::from_le_bytes(payload.get(..2)?.try_into().ok()?);
    let rows = u16::from_le_bytes(payload.get(2..4)?.try_into().ok()?);
    Size::new(cols, rows)
}

/// Payload of a START record.
pub(super) fn start_payload(size: Size) -> [u8; 6] {
    let mut out = [0; 6];
    out[..2].copy_from_slice(&size.cols().to_le_bytes());
    out[2..4].copy_from_slice(&size.rows().to_le_bytes());
    out[4..].copy_from_slice(&FORMAT.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_back_as_written() {
        let size = Size::new(80, 24).unwrap();
        for note in [
            Note::Resize(size),
            Note::Input { len: 7 },
            Note::Mark("tea".into()),
            Note::Exit { code: Some(-3), signal: None },
            Note::Exit { code: None, signal: Some(9) },
            Note::Reattached,
            Note::Lost(7),
        ] {
            let mut payload = Vec::new();
            note.payload(&mut payload);
            assert_eq!(Note::decode(note.kind(), &payload), Some(note));
        }
    }

    #[test]
    fn a_long_mark_is_cut_at_a_character() {
        let mut payload = Vec::new();
        Note::Mark("ä".repeat(MARK_BYTES)).payload(&mut payload);
        assert_eq!(payload.len(), MARK_BYTES);
        assert!(String::from_utf8(payload).is_ok());
    }
}
