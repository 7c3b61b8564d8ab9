//! Private modes: which the guest keeps, which are ours, and what we report of them.
//!
//! In: `CSI ? n h`, `l` and `$ p` through vte. Out: changes of our own state, or a word that the
//! guest must see it. Mouse modes are ours, so that X10 and pixel reports fit in; the alternate
//! screen is ours, because the grids are (`guest`).

use alacritty_terminal::term::TermMode;
use vte::ansi::{Handler, NamedPrivateMode, PrivateMode};

use super::Front;
use crate::input_modes::{MouseEncoding, MouseMode};

impl Front {
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
    pub(super) fn own_private_mode(&mut self, mode: PrivateMode, on: bool) -> bool {
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
                // The guest resets the region and clears the screen.
                self.forget_blank_ends();
                self.state.set_region(1, None, self.guest.rows());
                return false;
            }
            _ => return false,
        }
        true
    }

    fn alternate(&mut self, on: bool) {
        self.forget_blank_ends();
        if on {
            self.guest.enter_alternate();
        } else {
            self.guest.leave_alternate();
        }
    }

    /// DECRPM for a private mode: 0 not known, 1 set, 2 reset.
    pub(super) fn private_mode_state(&self, mode: PrivateMode) -> u8 {
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
