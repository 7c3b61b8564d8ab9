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
    KeyboardModesApplyBehavior, LineClearMode, Mode, ModifyOtherKeys, PrivateMode, Processor, Rgb,
    StandardCharset, TabulationClearMode, Timeout,
};

use super::Front;
use super::dispatch::{DA1, DA2, DA3};
use super::rules::Rule;
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
}

/// Operations of which the front notes at most that something visible may have changed.
macro_rules! pass_on {
    ($touches:literal: $($name:ident($($arg:ident: $type:ty),*);)+) => {
        $(fn $name(&mut self, $($arg: $type),*) {
            self.touched |= $touches;
            self.guest.term.$name($($arg),*);
        })+
    };
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

    pass_on! { false:
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        save_cursor_position();
        terminal_attribute(attr: Attr);
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

    fn set_active_charset(&mut self, charset: CharsetIndex) {
        self.invoke(charset);
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

    pass_on! { true:
        goto(line: i32, col: usize);
        goto_line(line: i32);
        goto_col(col: usize);
        insert_blank(count: usize);
        move_up(lines: usize);
        move_down(lines: usize);
        move_forward(cols: usize);
        move_backward(cols: usize);
        move_down_and_cr(lines: usize);
        move_up_and_cr(lines: usize);
        scroll_up(lines: usize);
        scroll_down(lines: usize);
        insert_blank_lines(lines: usize);
        delete_lines(lines: usize);
        erase_chars(count: usize);
        delete_chars(count: usize);
        restore_cursor_position();
        clear_line(mode: LineClearMode);
        clear_screen(mode: ClearMode);
        reverse_index();
        decaln();
    }

    fn carriage_return(&mut self) {
        self.execute(b'\r');
    }

    fn linefeed(&mut self) {
        self.execute(b'\n');
    }

    fn move_backward_tabs(&mut self, count: u16) {
        self.touched = true;
        self.tabs_back(count.into());
    }

    fn move_forward_tabs(&mut self, count: u16) {
        self.touched = true;
        self.tabs_forward(count.into());
    }
}

impl Front {
    fn title_changed(&mut self) {
        self.touched = true;
        let title = self.state.title.clone().unwrap_or_default();
        self.marks.push(Mark::Title(title));
    }
}
