//! The live screen of one session.
//!
//! In: every byte the program wrote, in any pieces, and size changes. Out: frames, text, replies
//! to the program, marks, keyframes.
//! Deliberately absent: scrollback of the live screen (a view of the journal) and timers (whoever
//! reads decides how long a synchronized update may hold it back).

use std::panic::{AssertUnwindSafe, catch_unwind};

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::TermMode;
use vte::ansi::CursorShape as AnsiShape;

use crate::frame::{self, Cursor, CursorShape, Frame, Row};
use crate::front::Front;
use crate::input_modes::InputModes;
use crate::keyframe::{self, AnnotatedKeyframe};
use crate::mark::Mark;
use crate::size::Size;

/// A terminal without a window.
pub struct Screen {
    front: Front,
    changes: u64,
    broken: bool,
}

impl Screen {
    /// A blank screen without history.
    pub fn new(size: Size) -> Screen {
        Screen::with_history(size, 0)
    }

    /// A blank screen that keeps `lines` of history: for scrollback views. Slower: nothing may be
    /// skipped.
    pub fn with_history(size: Size, lines: usize) -> Screen {
        Screen { front: Front::new(size, lines), changes: 0, broken: false }
    }

    /// Takes what the program wrote. Never panics: a panic of the guest makes the screen
    /// [broken](Screen::is_broken).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.guarded(|front| front.feed(bytes));
    }

    /// The guest panicked: the screen takes no more bytes. Rebuild it from the journal.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Changes the size; long lines of the primary screen are wrapped anew.
    pub fn resize(&mut self, size: Size) {
        self.guarded(|front| front.resize(size));
    }

    /// An escape stream that makes a new screen of the same size equal to this one.
    pub fn keyframe(&self) -> Vec<u8> {
        keyframe::write(&self.front)
    }

    /// The same in ordinary sequences only, for terminals that are not ours: what those cannot say
    /// is left out.
    pub fn viewer_keyframe(&self) -> Vec<u8> {
        keyframe::write_public(&self.front)
    }

    /// The same, with what is known of its parts.
    pub fn annotated_keyframe(&self) -> AnnotatedKeyframe {
        keyframe::write_annotated(&self.front)
    }

    /// A new screen from a keyframe. Replies and marks that the keyframe caused are dropped: they
    /// were given when it was live.
    pub fn restore(size: Size, keyframe: &[u8]) -> Screen {
        let mut screen = Screen::new(size);
        screen.front.set_restoring(true);
        screen.feed(keyframe);
        screen.front.set_restoring(false);
        screen.take_replies();
        screen.take_marks();
        screen
    }

    /// What the terminal answers to the program since the last call.
    pub fn take_replies(&mut self) -> Vec<u8> {
        self.front.take_replies()
    }

    /// What the program said beside its picture since the last call; bounded, oldest lost first.
    pub fn take_marks(&mut self) -> Vec<Mark> {
        self.front.marks.take()
    }

    /// A number that grows when something visible may have changed.
    pub fn visible_changes(&self) -> u64 {
        self.changes
    }

    /// The program is in the middle of a frame (`CSI ? 2026 h`): readers wait.
    pub fn in_sync_update(&self) -> bool {
        self.front.state.sync_update
    }

    /// The whole screen, typed.
    pub fn frame(&self) -> Frame {
        Frame {
            size: self.size(),
            cursor: self.cursor(),
            alternate: self.alternate(),
            title: self.title().map(str::to_owned),
            modes: self.input_modes(),
            rows: frame::rows(self.front.guest.grid(), 0, self.front.guest.rows() as i32),
        }
    }

    /// The rows joined by newlines; blanks at the end of rows and empty rows at the end are left
    /// out.
    pub fn text(&self) -> String {
        let grid = self.front.guest.grid();
        let mut text = String::new();
        for line in 0..self.front.guest.rows() {
            if line > 0 {
                text.push('\n');
            }
            frame::push_row_text(&grid[Line(line as i32)], &mut text);
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// At most `count` rows of history, `from` counted from the oldest.
    pub fn history(&self, from: usize, count: usize) -> Vec<Row> {
        let kept = self.history_len();
        let from = from.min(kept);
        let to = from.saturating_add(count).min(kept);
        let line = |index: usize| index as i32 - kept as i32;
        frame::rows(self.primary(), line(from), line(to))
    }

    /// Number of rows of history.
    pub fn history_len(&self) -> usize {
        self.primary().history_size()
    }

    /// How keys, pastes and the mouse are to be encoded now.
    pub fn input_modes(&self) -> InputModes {
        let state = &self.front.state;
        let has = |mode| self.front.guest.term.mode().contains(mode);
        InputModes {
            app_cursor: has(TermMode::APP_CURSOR),
            app_keypad: has(TermMode::APP_KEYPAD),
            bracketed_paste: has(TermMode::BRACKETED_PASTE),
            focus: has(TermMode::FOCUS_IN_OUT),
            kitty_flags: state.keyboard_flags(self.alternate()),
            modify_other_keys: state.modify_other_keys,
            mouse: state.mouse,
            mouse_encoding: state.mouse_encoding,
            alternate_scroll: has(TermMode::ALTERNATE_SCROLL),
            backarrow: state.backarrow,
        }
    }

    pub fn title(&self) -> Option<&str> {
        self.front.state.title.as_deref()
    }

    pub fn cursor(&self) -> Cursor {
        let point = self.front.guest.grid().cursor.point;
        let shape = self.front.state.cursor_style.map(|style| style.shape);
        Cursor {
            row: point.line.0 as u16,
            col: point.column.0 as u16,
            visible: self.front.guest.term.mode().contains(TermMode::SHOW_CURSOR),
            shape: match shape {
                Some(AnsiShape::Underline) => CursorShape::Underline,
                Some(AnsiShape::Beam) => CursorShape::Bar,
                _ => CursorShape::Block,
            },
        }
    }

    /// The size of the grid: at least two columns, since a wide character needs them.
    pub fn size(&self) -> Size {
        Size::new(self.front.guest.cols() as u16, self.front.guest.rows() as u16)
            .expect("the grid was made from a size")
    }

    /// The program is on the alternate screen.
    pub fn alternate(&self) -> bool {
        self.front.guest.on_alternate()
    }

    fn primary(&self) -> &alacritty_terminal::grid::Grid<alacritty_terminal::term::cell::Cell> {
        self.front.guest.parked().unwrap_or(self.front.guest.grid())
    }

    /// The guest is a guest: its panic costs this screen, not the process.
    fn guarded(&mut self, act: impl FnOnce(&mut Front)) {
        if self.broken {
            return;
        }
        // The screen that the panic left behind is never fed again, only read or thrown away.
        let done = catch_unwind(AssertUnwindSafe(|| act(&mut self.front)));
        self.broken = done.is_err();
        if std::mem::take(&mut self.front.touched) || self.broken {
            self.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_guest_breaks_this_screen_only() {
        let mut screen = Screen::new(Size::default());
        screen.feed(b"before");
        let changes = screen.visible_changes();
        screen.guarded(|_| panic!("as a guest would"));
        assert!(screen.is_broken());
        assert!(screen.visible_changes() > changes);
        screen.feed(b" after");
        screen.resize(Size::new(10, 10).unwrap());
        assert_eq!(screen.text(), "before", "what it had can still be read");
        let mut other = Screen::new(Size::default());
        other.feed(b"\x1b[?25lfine");
        assert!(!other.is_broken());
        assert_eq!(other.text(), "fine");
    }
}
