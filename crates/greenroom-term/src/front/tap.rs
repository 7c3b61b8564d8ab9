//! What vte makes of the sequences that the front does not parse itself.
//!
//! In: whole sequences through vte's `Processor`. Out: calls on the guest, changes of our own
//! state, replies, marks. Grid operations are passed on; what the guest keeps private is mirrored
//! on the way; titles, keyboard flags, colours, cursor style and mouse never reach it.
//! Deliberately absent: text. vte is handed sequences only.

use std::cell::Cell;
use std::time::Duration;

use alacritty_terminal::term::TermMode;
use vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, KeyboardModes,
    KeyboardModesApplyBehavior, LineClearMode, Mode, ModifyOtherKeys, NamedPrivateMode,
    PrivateMode, Processor, Rgb, StandardCharset, TabulationClearMode, Timeout,
};

use super::Front;
use super::dispatch::{DA1, DA2, DA3};
use super::rules::Rule;
use crate::input_modes::{MouseEncoding, MouseMode};
use crate::mark::Mark;

/// Longest link and link id kept in cells; the numbers of the OSC 8 specification.
const MAX_URI: usize = 2083;
const MAX_LINK_ID: usize = 250;

/// Turns vte's buffering of synchronized updates off: bytes take effect at once.
#[derive(Default)]
struct NeverPending;

impl Timeout for NeverPending {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

thread_local! {
    /// One parser per thread, in ground state between uses: each reserves 2 MiB. Taken out while
    /// in use, so that a panic of the guest throws away the state it left.
    static PROCESSOR: Cell<Option<Box<Processor<NeverPending>>>> = const { Cell::new(None) };
}

impl Front {
    /// Hands a whole sequence to vte.
    pub(super) fn hand_over(&mut self, sequence: &[u8], terminator: &[u8]) {
        let mut processor = PROCESSOR.take().unwrap_or_default();
        processor.advance(self, sequence);
        processor.advance(self, terminator);
        PROCESSOR.set(Some(processor));
    }

    /// Mouse reports: one kind at a time; taking away another kind changes nothing.
    fn set_mouse(&mut self, mode: MouseMode, on: bool) {
        if on {
            self.state.mouse = mode;
        } else if self.state.mouse == mode {
            self.state.mouse = MouseMode::Off;
        }
    }

    fn set_mouse_encoding(&mut self, encoding: MouseEncoding, on: bool) {
        if on {
            self.state.mouse_encoding = encoding;
        } else if self.state.mouse_encoding == encoding {
            self.state.mouse_encoding = MouseEncoding::Legacy;
        }
    }

    /// The part of a private mode that the guest does not see; true when that was all of it.
    fn own_private_mode(&mut self, mode: PrivateMode, on: bool) -> bool {
        use NamedPrivateMode as Named;
        match mode {
            PrivateMode::Named(Named::SwapScreenAndSetRestoreCursor) => self.alternate(on),
            PrivateMode::Named(Named::SyncUpdate) => self.state.sync_update = on,
            PrivateMode::Named(Named::BlinkingCursor) => {
                self.state.cursor_style.get_or_insert_default().blinking = on;
            }
            PrivateMode::Named(Named::ReportMouseClicks) => self.set_mouse(MouseMode::Normal, on),
            PrivateMode::Named(Named::ReportCellMouseMotion) => {
                self.set_mouse(MouseMode::Button, on);
            }
            PrivateMode::Named(Named::ReportAllMouseMotion) => self.set_mouse(MouseMode::Any, on),
            PrivateMode::Named(Named::Utf8Mouse) => {
                self.set_mouse_encoding(MouseEncoding::Utf8, on);
            }
            PrivateMode::Named(Named::SgrMouse) => self.set_mouse_encoding(MouseEncoding::Sgr, on),
            PrivateMode::Unknown(9) => self.set_mouse(MouseMode::X10, on),
            PrivateMode::Unknown(1016) => self.set_mouse_encoding(MouseEncoding::SgrPixels, on),
            PrivateMode::Unknown(47 | 1047) => self.alternate(on),
            PrivateMode::Unknown(1048) if on => self.guest.term.save_cursor_position(),
            PrivateMode::Unknown(1048) => self.guest.term.restore_cursor_position(),
            PrivateMode::Unknown(66) if on => self.guest.term.set_keypad_application_mode(),
            PrivateMode::Unknown(66) => self.guest.term.unset_keypad_application_mode(),
            PrivateMode::Unknown(67) => self.state.backarrow = on,
            PrivateMode::Named(Named::ColumnMode) => {
                // The guest resets the region, among other things.
                self.state.set_region(1, None, self.guest.rows());
                return false;
            }
            _ => return false,
        }
        true
    }

    fn alternate(&mut self, on: bool) {
        if on {
            self.guest.enter_alternate();
        } else {
            self.guest.leave_alternate();
        }
    }

    /// DECRPM for a private mode: 0 not known, 1 set, 2 reset.
    fn private_mode_state(&self, mode: PrivateMode) -> u8 {
        use NamedPrivateMode as Named;
        let guest = |mode| self.guest.term.mode().contains(mode);
        let state = &self.state;
        let set = match mode {
            PrivateMode::Named(named) => match named {
                Named::CursorKeys => guest(TermMode::APP_CURSOR),
                Named::Origin => guest(TermMode::ORIGIN),
                Named::LineWrap => guest(TermMode::LINE_WRAP),
                Named::BlinkingCursor => state.cursor_style.is_some_and(|style| style.blinking),
                Named::ShowCursor => guest(TermMode::SHOW_CURSOR),
                Named::ReportMouseClicks => state.mouse == MouseMode::Normal,
                Named::ReportCellMouseMotion => state.mouse == MouseMode::Button,
                Named::ReportAllMouseMotion => state.mouse == MouseMode::Any,
                Named::ReportFocusInOut => guest(TermMode::FOCUS_IN_OUT),
                Named::Utf8Mouse => state.mouse_encoding == MouseEncoding::Utf8,
                Named::SgrMouse => state.mouse_encoding == MouseEncoding::Sgr,
                Named::AlternateScroll => guest(TermMode::ALTERNATE_SCROLL),
                Named::UrgencyHints => guest(TermMode::URGENCY_HINTS),
                Named::SwapScreenAndSetRestoreCursor => self.guest.on_alternate(),
                Named::BracketedPaste => guest(TermMode::BRACKETED_PASTE),
                Named::SyncUpdate => state.sync_update,
                Named::ColumnMode => return 0,
            },
            PrivateMode::Unknown(9) => state.mouse == MouseMode::X10,
            PrivateMode::Unknown(47 | 1047) => self.guest.on_alternate(),
            PrivateMode::Unknown(66) => guest(TermMode::APP_KEYPAD),
            PrivateMode::Unknown(67) => state.backarrow,
            PrivateMode::Unknown(1016) => state.mouse_encoding == MouseEncoding::SgrPixels,
            PrivateMode::Unknown(_) => return 0,
        };
        if set { 1 } else { 2 }
    }
}

impl Handler for Front {
    fn set_title(&mut self, title: Option<String>) {
        self.state.set_title(title.unwrap_or_default());
        self.title_changed();
    }

    fn push_title(&mut self) {
        self.state.push_title();
    }

    fn pop_title(&mut self) {
        if self.state.pop_title() {
            self.title_changed();
        }
    }

    fn set_cursor_style(&mut self, style: Option<CursorStyle>) {
        self.touched = true;
        self.state.cursor_style = style;
    }

    fn set_cursor_shape(&mut self, shape: CursorShape) {
        self.touched = true;
        self.state.cursor_style.get_or_insert_default().shape = shape;
    }

    fn set_horizontal_tabstop(&mut self) {
        self.state.tabs[self.guest.grid().cursor.point.column.0] = true;
        self.guest.term.set_horizontal_tabstop();
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        match mode {
            TabulationClearMode::Current => {
                self.state.tabs[self.guest.grid().cursor.point.column.0] = false;
            }
            TabulationClearMode::All => self.state.tabs.fill(false),
        }
        self.guest.term.clear_tabs(mode);
    }

    fn reset_state(&mut self) {
        self.touched = true;
        self.guest.reset();
        let region = self.state.region.clone();
        self.state.reset(self.guest.cols(), self.guest.rows());
        if !self.rules.hold(Rule::RegionReset) {
            self.state.region = region;
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.guest.term.set_mode(mode);
    }

    fn unset_mode(&mut self, mode: Mode) {
        self.guest.term.unset_mode(mode);
    }

    fn report_mode(&mut self, mode: Mode) {
        let set = |flag| if self.guest.term.mode().contains(flag) { 1 } else { 2 };
        let state = match mode.raw() {
            4 => set(TermMode::INSERT),
            20 => set(TermMode::LINE_FEED_NEW_LINE),
            _ => 0,
        };
        self.reply(format!("\x1b[{};{state}$y", mode.raw()).as_bytes());
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        self.touched = true;
        if !self.own_private_mode(mode, true) {
            self.guest.term.set_private_mode(mode);
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        self.touched = true;
        if !self.own_private_mode(mode, false) {
            self.guest.term.unset_private_mode(mode);
        }
    }

    fn report_private_mode(&mut self, mode: PrivateMode) {
        let state = self.private_mode_state(mode);
        self.reply(format!("\x1b[?{};{state}$y", mode.raw()).as_bytes());
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        self.touched = true;
        self.state.set_region(top, bottom, self.guest.rows());
        self.guest.term.set_scrolling_region(top, bottom);
    }

    fn set_keypad_application_mode(&mut self) {
        self.guest.term.set_keypad_application_mode();
    }

    fn unset_keypad_application_mode(&mut self) {
        self.guest.term.unset_keypad_application_mode();
    }

    fn set_active_charset(&mut self, charset: CharsetIndex) {
        self.invoke(charset);
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.guest.term.configure_charset(index, charset);
    }

    fn set_color(&mut self, index: usize, color: Rgb) {
        self.touched = true;
        self.state.colors.insert(index, color);
    }

    fn reset_color(&mut self, index: usize) {
        self.touched = true;
        self.state.colors.remove(&index);
    }

    fn dynamic_color_sequence(&mut self, prefix: String, index: usize, terminator: &str) {
        self.report_color(&prefix, index, terminator);
    }

    fn set_hyperlink(&mut self, link: Option<Hyperlink>) {
        let fits = |link: &Hyperlink| {
            link.uri.len() <= MAX_URI && link.id.as_ref().is_none_or(|id| id.len() <= MAX_LINK_ID)
        };
        self.guest.term.set_hyperlink(link.filter(fits));
    }

    fn report_keyboard_mode(&mut self) {
        let flags = self.state.keyboard_flags(self.guest.on_alternate());
        self.reply(format!("\x1b[?{flags}u").as_bytes());
    }

    fn push_keyboard_mode(&mut self, mode: KeyboardModes) {
        self.state.push_keyboard(self.guest.on_alternate(), mode.bits());
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        self.state.pop_keyboard(self.guest.on_alternate(), count.into());
    }

    fn set_keyboard_mode(&mut self, mode: KeyboardModes, how: KeyboardModesApplyBehavior) {
        let alternate = self.guest.on_alternate();
        let flags = self.state.keyboard_flags(alternate);
        let flags = match how {
            KeyboardModesApplyBehavior::Replace => mode.bits(),
            KeyboardModesApplyBehavior::Union => flags | mode.bits(),
            KeyboardModesApplyBehavior::Difference => flags & !mode.bits(),
        };
        self.state.set_keyboard(alternate, flags);
    }

    fn set_modify_other_keys(&mut self, mode: ModifyOtherKeys) {
        self.state.modify_other_keys = mode as u8;
    }

    fn report_modify_other_keys(&mut self) {
        self.reply(format!("\x1b[>4;{}m", self.state.modify_other_keys).as_bytes());
    }

    // Queries in an unusual spelling.

    fn identify_terminal(&mut self, which: Option<char>) {
        match which {
            None => self.reply(DA1),
            Some('>') => self.reply(DA2),
            Some('=') => self.reply(DA3),
            Some(_) => {}
        }
    }

    fn device_status(&mut self, what: usize) {
        self.report_status(what as u16);
    }

    fn text_area_size_pixels(&mut self) {
        self.window_report(14);
    }

    fn text_area_size_chars(&mut self) {
        self.window_report(18);
    }

    // Grid operations that reach vte because the front saw something unusual in the sequence.

    fn goto(&mut self, line: i32, col: usize) {
        self.touched = true;
        self.guest.term.goto(line, col);
    }

    fn goto_line(&mut self, line: i32) {
        self.touched = true;
        self.guest.term.goto_line(line);
    }

    fn goto_col(&mut self, col: usize) {
        self.touched = true;
        self.guest.term.goto_col(col);
    }

    fn insert_blank(&mut self, count: usize) {
        self.touched = true;
        self.guest.term.insert_blank(count);
    }

    fn move_up(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.move_up(lines);
    }

    fn move_down(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.move_down(lines);
    }

    fn move_forward(&mut self, cols: usize) {
        self.touched = true;
        self.guest.term.move_forward(cols);
    }

    fn move_backward(&mut self, cols: usize) {
        self.touched = true;
        self.guest.term.move_backward(cols);
    }

    fn move_down_and_cr(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.move_down_and_cr(lines);
    }

    fn move_up_and_cr(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.move_up_and_cr(lines);
    }

    fn carriage_return(&mut self) {
        self.execute(b'\r');
    }

    fn linefeed(&mut self) {
        self.execute(b'\n');
    }

    fn scroll_up(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.scroll_up(lines);
    }

    fn scroll_down(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.scroll_down(lines);
    }

    fn insert_blank_lines(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.insert_blank_lines(lines);
    }

    fn delete_lines(&mut self, lines: usize) {
        self.touched = true;
        self.guest.term.delete_lines(lines);
    }

    fn erase_chars(&mut self, count: usize) {
        self.touched = true;
        self.guest.term.erase_chars(count);
    }

    fn delete_chars(&mut self, count: usize) {
        self.touched = true;
        self.guest.term.delete_chars(count);
    }

    fn move_backward_tabs(&mut self, count: u16) {
        self.touched = true;
        self.tabs_back(count.into());
    }

    fn move_forward_tabs(&mut self, count: u16) {
        self.touched = true;
        self.tabs_forward(count.into());
    }

    fn save_cursor_position(&mut self) {
        self.guest.term.save_cursor_position();
    }

    fn restore_cursor_position(&mut self) {
        self.touched = true;
        self.guest.term.restore_cursor_position();
    }

    fn clear_line(&mut self, mode: LineClearMode) {
        self.touched = true;
        self.guest.term.clear_line(mode);
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        self.touched = true;
        self.guest.term.clear_screen(mode);
    }

    fn reverse_index(&mut self) {
        self.touched = true;
        self.guest.term.reverse_index();
    }

    fn terminal_attribute(&mut self, attr: Attr) {
        self.guest.term.terminal_attribute(attr);
    }

    fn decaln(&mut self) {
        self.touched = true;
        self.guest.term.decaln();
    }
}

impl Front {
    fn title_changed(&mut self) {
        self.touched = true;
        let title = self.state.title.clone().unwrap_or_default();
        self.marks.push(Mark::Title(title));
    }
}
