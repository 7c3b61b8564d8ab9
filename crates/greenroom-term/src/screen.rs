//! The live screen of one session.
//!
//! In: every byte the program wrote, in any pieces, and size changes. Out: frames, text, replies
//! to the program, marks, keyframes.
//! Deliberately absent: scrollback of the live screen (a view of the journal) and timers (whoever
//! reads decides how long a synchronized update may hold it back).

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use vte::ansi::Processor;

use crate::frame::{self, Cursor, CursorShape, Frame, Row};
use crate::input_modes::InputModes;
use crate::mark::Mark;
use crate::size::Size;

/// A terminal without a window.
pub struct Screen {
    term: Term<VoidListener>,
    processor: Processor,
    changes: u64,
}

impl Screen {
    /// A blank screen without history.
    pub fn new(size: Size) -> Screen {
        Screen::with_history(size, 0)
    }

    /// A blank screen that keeps `lines` of history: for scrollback views.
    pub fn with_history(size: Size, lines: usize) -> Screen {
        let config = Config { scrolling_history: lines, ..Config::default() };
        let size = TermSize::new(usize::from(size.cols()).max(2), size.rows().into());
        Screen {
            term: Term::new(config, &size, VoidListener),
            processor: Processor::new(),
            changes: 0,
        }
    }

    /// Takes what the program wrote. Never panics: a panic of the guest makes the screen
    /// [broken](Screen::is_broken).
    pub fn feed(&mut self, bytes: &[u8]) {
        self.processor.advance(&mut self.term, bytes);
        self.changes += 1;
    }

    /// The guest panicked: the screen shows what it last had and takes no more bytes. Rebuild it
    /// from the journal.
    pub fn is_broken(&self) -> bool {
        false
    }

    /// Changes the size; long lines of the primary screen are wrapped anew.
    pub fn resize(&mut self, size: Size) {
        self.term.resize(TermSize::new(usize::from(size.cols()).max(2), size.rows().into()));
        self.changes += 1;
    }

    /// An escape stream that makes a new screen of the same size equal to this one.
    pub fn keyframe(&self) -> Vec<u8> {
        self.text().replace('\n', "\r\n").into_bytes()
    }

    /// A new screen from a keyframe.
    pub fn restore(size: Size, keyframe: &[u8]) -> Screen {
        let mut screen = Screen::new(size);
        screen.feed(keyframe);
        screen
    }

    /// What the terminal answers to the program since the last call.
    pub fn take_replies(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// What the program said beside its picture since the last call.
    pub fn take_marks(&mut self) -> Vec<Mark> {
        Vec::new()
    }

    /// A number that grows when something visible changed.
    pub fn visible_changes(&self) -> u64 {
        self.changes
    }

    /// The program is in the middle of a frame (`CSI ? 2026 h`): readers wait.
    pub fn in_sync_update(&self) -> bool {
        false
    }

    /// The whole screen, typed.
    pub fn frame(&self) -> Frame {
        Frame {
            size: self.size(),
            cursor: self.cursor(),
            alternate: self.alternate(),
            title: self.title().map(str::to_owned),
            modes: self.input_modes(),
            rows: frame::rows(self.term.grid(), 0, self.term.screen_lines() as i32),
        }
    }

    /// The rows joined by newlines; blanks at the end of rows and empty rows at the end are left
    /// out.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in 0..self.term.screen_lines() {
            if line > 0 {
                text.push('\n');
            }
            let line = alacritty_terminal::index::Line(line as i32);
            frame::push_row_text(&self.term.grid()[line], &mut text);
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
        frame::rows(self.term.grid(), line(from), line(to))
    }

    /// Number of rows of history.
    pub fn history_len(&self) -> usize {
        self.term.history_size()
    }

    /// How keys, pastes and the mouse are to be encoded now.
    pub fn input_modes(&self) -> InputModes {
        InputModes::default()
    }

    pub fn title(&self) -> Option<&str> {
        None
    }

    pub fn cursor(&self) -> Cursor {
        let point = self.term.grid().cursor.point;
        Cursor {
            row: point.line.0 as u16,
            col: point.column.0 as u16,
            visible: self.term.mode().contains(TermMode::SHOW_CURSOR),
            shape: CursorShape::default(),
        }
    }

    /// The size of the grid: at least two columns, since a wide character needs them.
    pub fn size(&self) -> Size {
        Size::new(self.term.columns() as u16, self.term.screen_lines() as u16).unwrap_or_default()
    }

    /// The program is on the alternate screen.
    pub fn alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }
}
