//! The text in the prompt box. Long pastes are kept whole and shown as one short word, as agents
//! do.

use crate::input::MAX_PASTE;

/// A paste with more lines, or more bytes, is shown as a placeholder.
const SHOWN_LINES: usize = 3;
const SHOWN_BYTES: usize = 800;
/// The box takes no more than one largest paste and some typing.
const MAX_DRAFT: usize = MAX_PASTE + 64 * 1024;

#[derive(Default)]
pub(crate) struct Draft {
    pieces: Vec<Piece>,
    pastes: usize,
}

enum Piece {
    Text(String),
    Pasted { label: String, text: String },
}

impl Draft {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() || self.full().len() + text.len() > MAX_DRAFT {
            return;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        let more = text.matches('\n').count();
        if more < SHOWN_LINES && text.len() <= SHOWN_BYTES {
            return self.push(text);
        }
        if self.full().len() + text.len() > MAX_DRAFT {
            return;
        }
        self.pastes += 1;
        let label = format!("[Pasted text #{} +{more} lines]", self.pastes);
        self.pieces.push(Piece::Pasted { label, text: text.to_owned() });
    }

    pub(crate) fn backspace(&mut self) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.pop();
            if !text.is_empty() {
                return;
            }
        }
        self.pieces.pop();
    }

    /// What is submitted.
    pub(crate) fn full(&self) -> String {
        self.joined(|_, text| text)
    }

    /// What is shown.
    pub(crate) fn shown(&self) -> String {
        self.joined(|label, _| label)
    }

    fn joined<'a>(&'a self, choose: impl Fn(&'a str, &'a str) -> &'a str) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Pasted { label, text } => choose(label, text),
        });
        pieces.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pastes_are_one_word() {
        let mut draft = Draft::default();
        draft.push("see ");
        draft.paste("a\nb\nc\nd\n");
        draft.push("!");
        assert_eq!(draft.shown(), "see [Pasted text #1 +4 lines]!");
        assert_eq!(draft.full(), "see a\nb\nc\nd\n!");
        draft.backspace();
        draft.backspace();
        assert_eq!(draft.full(), "see ");
        draft.paste("short");
        assert_eq!(draft.shown(), "see short");
    }

    #[test]
    fn the_box_has_an_end() {
        let mut draft = Draft::default();
        for _ in 0..100 {
            draft.push(&"x".repeat(10_000));
        }
        assert!(draft.full().len() <= MAX_DRAFT);
    }
}
