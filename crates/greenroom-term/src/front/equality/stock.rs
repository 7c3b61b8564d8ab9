//! The oracle: vte's own `Processor` into a stock `Term`, one reading of everything.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use vte::ansi::{Processor, Rgb, Timeout};

use super::compare::{Picture, cells, cursor, stock_replies};
use crate::input_modes::{MouseEncoding, MouseMode};
use crate::mark::Mark;
use crate::size::Size;

#[derive(Default)]
struct Never;

impl Timeout for Never {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

#[derive(Clone)]
struct Recorder {
    events: Rc<RefCell<Vec<Event>>>,
}

impl EventListener for Recorder {
    fn send_event(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

pub struct Stock {
    term: Term<Recorder>,
    processor: Processor<Never>,
    recorder: Recorder,
    size: Size,
}

impl Stock {
    pub fn new(size: Size) -> Stock {
        let config = Config { scrolling_history: 0, kitty_keyboard: true, ..Config::default() };
        let recorder = Recorder { events: Rc::default() };
        let dimensions = TermSize::new(size.cols().into(), size.rows().into());
        let term = Term::new(config, &dimensions, recorder.clone());
        Stock { term, processor: Processor::new(), recorder, size }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.processor.advance(&mut self.term, bytes);
    }

    /// Everything readable; takes the events.
    pub fn picture(&mut self) -> Picture {
        let (replies, marks) = self.take_events();
        let grid = self.term.grid();
        let mode = *self.term.mode();
        Picture {
            cells: cells(grid),
            cursor: cursor(&grid.cursor),
            saved: cursor(&grid.saved_cursor),
            mode: mode & !Picture::OWN_MODES,
            mouse: match mode & TermMode::MOUSE_MODE {
                TermMode::MOUSE_REPORT_CLICK => MouseMode::Normal,
                TermMode::MOUSE_DRAG => MouseMode::Button,
                TermMode::MOUSE_MOTION => MouseMode::Any,
                _ => MouseMode::Off,
            },
            encoding: match mode & (TermMode::SGR_MOUSE | TermMode::UTF8_MOUSE) {
                TermMode::SGR_MOUSE => MouseEncoding::Sgr,
                TermMode::UTF8_MOUSE => MouseEncoding::Utf8,
                _ => MouseEncoding::Legacy,
            },
            style: self.term.cursor_style(),
            colors: (0..269).filter_map(|i| self.term.colors()[i].map(|rgb| (i, rgb))).collect(),
            keyboard: ((mode & TermMode::KITTY_KEYBOARD_PROTOCOL).bits() >> 18) as u8,
            replies,
            marks,
            total_lines: self.term.total_lines(),
            own: None,
        }
    }

    fn take_events(&mut self) -> (String, Vec<Mark>) {
        let mut replies = String::new();
        let mut marks: Vec<Mark> = Vec::new();
        let window = WindowSize {
            num_lines: self.size.rows(),
            num_cols: self.size.cols(),
            cell_width: 8,
            cell_height: 16,
        };
        for event in self.recorder.events.take() {
            match event {
                // We say a little more about ourselves.
                Event::PtyWrite(text) if text == "\x1b[?6c" => replies += "\x1b[?62;22;52c",
                Event::PtyWrite(text) => replies += &text,
                Event::ColorRequest(_, format) => replies += &format(Rgb { r: 0, g: 0, b: 0 }),
                Event::TextAreaSizeRequest(format) => replies += &format(window),
                Event::Title(title) => marks.push(Mark::Title(title)),
                Event::ResetTitle => marks.push(Mark::Title(String::new())),
                Event::Bell if marks.last() != Some(&Mark::Bell) => marks.push(Mark::Bell),
                _ => {}
            }
        }
        (stock_replies(&replies), marks)
    }
}
