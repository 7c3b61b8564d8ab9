//! Terminal state that the guest keeps to itself or does not keep.
//!
//! In: the front, when a sequence changes something. Out: everything a keyframe or an answer needs
//! and a grid does not hold. Three kinds:
//! *mirrors* of private fields of the guest (scroll region, tab stops, active charset), which must
//! follow its rules to the letter; state that we *own* and the guest never sees (titles, keyboard
//! flags, colours, cursor style, mouse); and flags the guest does not know (?9 ?67 ?1016 ?2026).
//! Deliberately absent: anything visible in a grid.

use std::collections::BTreeMap;
use std::ops::Range;

use vte::ansi::{CharsetIndex, CursorStyle, Rgb};

use crate::input_modes::{MouseEncoding, MouseMode};

/// Saved titles. xterm keeps 10; each one is copied into every keyframe.
const MAX_TITLES: usize = 16;
/// Bytes of a title. Longer ones are cut: a title is for one line of a window.
const MAX_TITLE: usize = 1024;
/// Saved keyboard flags per screen. The kitty protocol asks for a bound and drops the oldest; the
/// guest panics past 4096.
const MAX_KEYBOARD: usize = 32;
/// The guest's tab stops are this far apart at first.
const TAB_INTERVAL: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub region: Range<usize>,
    pub tabs: Vec<bool>,
    pub charset: CharsetIndex,
    pub title: Option<String>,
    pub titles: Vec<Option<String>>,
    /// Kitty keyboard flags of the primary and the alternate screen; the last entry is in force.
    pub keyboard: [Vec<u8>; 2],
    pub modify_other_keys: u8,
    /// `None`: the terminal's own choice.
    pub cursor_style: Option<CursorStyle>,
    /// Changed colours by the guest's index (0–255, foreground, background, cursor).
    pub colors: BTreeMap<usize, Rgb>,
    pub mouse: MouseMode,
    pub mouse_encoding: MouseEncoding,
    pub backarrow: bool,
    pub sync_update: bool,
    /// What REP repeats.
    pub last_char: Option<char>,
}

impl State {
    pub(crate) fn new(cols: usize, rows: usize) -> State {
        State {
            region: 0..rows,
            tabs: (0..cols).map(|col| col % TAB_INTERVAL == 0).collect(),
            ..State::default()
        }
    }

    /// RIS. Colours and the repeated character survive, as they do in the guest.
    pub(crate) fn reset(&mut self, cols: usize, rows: usize) {
        let fresh = State::new(cols, rows);
        let old = std::mem::replace(self, fresh);
        self.colors = old.colors;
        self.last_char = old.last_char;
    }

    /// Mirrors the guest's resize: the region becomes the whole screen, new columns get stops.
    pub(crate) fn resized(&mut self, cols: usize, rows: usize) {
        self.region = 0..rows;
        let mut col = self.tabs.len();
        self.tabs.resize_with(cols, || {
            col += 1;
            (col - 1).is_multiple_of(TAB_INTERVAL)
        });
    }

    /// Mirrors the guest's DECSTBM, `top` and `bottom` counted from 1.
    pub(crate) fn set_region(&mut self, top: usize, bottom: Option<usize>, rows: usize) {
        let bottom = bottom.unwrap_or(rows);
        if top < bottom {
            self.region = (top - 1).min(rows)..bottom.min(rows);
        }
    }

    pub(crate) fn region_is_full(&self, rows: usize) -> bool {
        self.region == (0..rows)
    }

    pub(crate) fn tabs_are_default(&self) -> bool {
        self.tabs.iter().enumerate().all(|(col, &stop)| stop == (col % TAB_INTERVAL == 0))
    }

    pub(crate) fn set_title(&mut self, mut title: String) {
        title.truncate(title.floor_char_boundary(MAX_TITLE));
        self.title = Some(title);
    }

    pub(crate) fn push_title(&mut self) {
        if self.titles.len() == MAX_TITLES {
            self.titles.remove(0);
        }
        self.titles.push(self.title.clone());
    }

    /// Whether there was a title to take back.
    pub(crate) fn pop_title(&mut self) -> bool {
        let Some(title) = self.titles.pop() else { return false };
        self.title = title;
        true
    }

    pub(crate) fn keyboard_flags(&self, alternate: bool) -> u8 {
        self.keyboard[usize::from(alternate)].last().copied().unwrap_or(0)
    }

    pub(crate) fn push_keyboard(&mut self, alternate: bool, flags: u8) {
        let stack = &mut self.keyboard[usize::from(alternate)];
        if stack.len() == MAX_KEYBOARD {
            stack.remove(0);
        }
        stack.push(flags);
    }

    pub(crate) fn pop_keyboard(&mut self, alternate: bool, count: usize) {
        let stack = &mut self.keyboard[usize::from(alternate)];
        stack.truncate(stack.len().saturating_sub(count));
    }

    /// `CSI = flags ; how u` changes the entry in force; on an empty stack it makes one.
    pub(crate) fn set_keyboard(&mut self, alternate: bool, flags: u8) {
        match self.keyboard[usize::from(alternate)].last_mut() {
            Some(top) => *top = flags,
            None => self.push_keyboard(alternate, flags),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_bounded_and_drop_the_oldest() {
        let mut state = State::new(80, 24);
        for flags in 0..100 {
            state.push_keyboard(false, flags);
            state.set_title(flags.to_string());
            state.push_title();
        }
        assert_eq!(state.keyboard[0].len(), MAX_KEYBOARD);
        assert_eq!(state.keyboard_flags(false), 99);
        assert_eq!(state.titles.len(), MAX_TITLES);
        state.pop_keyboard(false, 65_535);
        assert_eq!(state.keyboard_flags(false), 0);
    }

    #[test]
    fn long_titles_are_cut_at_a_character() {
        let mut state = State::new(80, 24);
        state.set_title("é".repeat(MAX_TITLE));
        assert_eq!(state.title.map(|title| title.len()), Some(MAX_TITLE));
    }

    #[test]
    fn a_region_below_the_screen_is_empty_not_full() {
        let mut state = State::new(80, 24);
        state.set_region(100, Some(200), 24);
        assert_eq!(state.region, 24..24);
        assert!(!state.region_is_full(24));
        state.set_region(5, Some(5), 24);
        assert_eq!(state.region, 24..24, "an invalid region changes nothing");
    }

    #[test]
    fn new_columns_get_tab_stops_and_lost_ones_are_forgotten() {
        let mut state = State::new(20, 5);
        state.tabs.fill(false);
        state.resized(10, 5);
        state.resized(20, 5);
        let stops: Vec<_> = (0..20).filter(|&col| state.tabs[col]).collect();
        assert_eq!(stops, [16]);
    }
}
