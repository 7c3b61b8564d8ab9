//! The guest: alacritty's grid machine, kept small and readable.
//!
//! In: grid operations (through [`Term`]'s public `Handler`), screen switches, size changes. Out:
//! the active grid, the parked primary grid, the alternate screen's saved cursor.
//!
//! The guest always allocates both grids and lets nobody read the inactive one. Here the inactive
//! grid inside `Term` is a dummy of two cells: the primary grid is parked in this room while the
//! program is on the alternate screen, and the alternate grid exists only while it is shown, since
//! entering it blanks it anyway. So an idle screen owns one grid, and a keyframe can read both.
//! Deliberately absent: titles, keyboard stacks, colours, cursor style; see `state`.

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use vte::ansi::Handler;

use crate::size::Size;

/// A wide character needs two cells; the guest's reflow does not end on a narrower grid.
const MIN_COLS: usize = 2;

pub(crate) struct Guest {
    pub term: Term<VoidListener>,
    /// The primary grid while the alternate screen is shown.
    parked: Option<Grid<Cell>>,
    /// The alternate grid's saved cursor while the primary screen is shown.
    alt_saved: Cursor<Cell>,
    history: usize,
}

impl Guest {
    pub(crate) fn new(size: Size, history: usize) -> Guest {
        let config = Config { scrolling_history: history, ..Config::default() };
        let mut guest = Guest {
            term: Term::new(config, &dimensions(size), VoidListener),
            parked: None,
            alt_saved: Cursor::default(),
            history,
        };
        guest.drop_inactive();
        guest
    }

    pub(crate) fn cols(&self) -> usize {
        self.term.columns()
    }

    pub(crate) fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    pub(crate) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    pub(crate) fn on_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// The primary grid while it is not the active one.
    pub(crate) fn parked(&self) -> Option<&Grid<Cell>> {
        self.parked.as_ref()
    }

    pub(crate) fn parked_mut(&mut self) -> Option<&mut Grid<Cell>> {
        self.parked.as_mut()
    }

    /// The alternate grid's saved cursor while the primary screen is shown.
    pub(crate) fn alt_saved(&self) -> &Cursor<Cell> {
        &self.alt_saved
    }

    pub(crate) fn enter_alternate(&mut self) {
        if self.on_alternate() {
            return;
        }
        let mut alt = Grid::new(self.rows(), self.cols(), 0);
        let mut primary = self.switch(dummy());
        primary.saved_cursor = primary.cursor.clone();
        alt.cursor = primary.cursor.clone();
        alt.saved_cursor = std::mem::take(&mut self.alt_saved);
        alt.reset_region(..);
        *self.term.grid_mut() = alt;
        self.parked = Some(primary);
    }

    pub(crate) fn leave_alternate(&mut self) {
        if let Some(primary) = self.parked.take() {
            let alt = self.switch(primary);
            self.alt_saved = alt.saved_cursor;
        }
    }

    /// RIS.
    pub(crate) fn reset(&mut self) {
        self.leave_alternate();
        self.term.reset_state();
        self.alt_saved = Cursor::default();
    }

    /// The guest's resize. A screen without history would lose the lines that a narrower width
    /// pushes over the top, even with empty rows at the bottom: it gets history for a moment.
    /// False when the size was this already: then nothing at all happens, as in the guest.
    pub(crate) fn resize(&mut self, size: Size) -> bool {
        let to = dimensions(size);
        let (cols, rows) = (to.columns, to.screen_lines);
        if cols == self.cols() && rows == self.rows() {
            return false;
        }
        let alternate = self.on_alternate();
        let lend = self.history == 0;
        if lend && !alternate {
            self.term.grid_mut().update_history(rows);
        }
        self.term.resize(to);
        self.drop_inactive();
        if lend && !alternate {
            pull_down(self.term.grid_mut());
        }
        settle(self.term.grid_mut());
        if let Some(primary) = &mut self.parked {
            if lend {
                primary.update_history(rows);
            }
            primary.resize(true, rows, cols);
            if lend {
                pull_down(primary);
            }
            settle(primary);
        }
        if !alternate {
            // What the guest's resize does to the saved cursor of a grid without history.
            let point = &mut self.alt_saved.point;
            point.line = point.line.min(Line(rows as i32 - 1));
            point.column = point.column.min(Column(cols - 1));
        }
        true
    }

    /// Replaces the active grid and flips the guest's own notion of which screen is active.
    fn switch(&mut self, to: Grid<Cell>) -> Grid<Cell> {
        // The guest copies cursors between its two grids when it switches: only dummies may be in.
        let from = std::mem::replace(self.term.grid_mut(), dummy());
        self.term.swap_alt();
        *self.term.grid_mut() = to;
        from
    }

    /// Makes the guest's inactive grid a dummy.
    fn drop_inactive(&mut self) {
        let active = self.switch(dummy());
        self.switch(active);
    }
}

fn dimensions(size: Size) -> TermSize {
    TermSize::new(usize::from(size.cols()).max(MIN_COLS), size.rows().into())
}

fn dummy() -> Grid<Cell> {
    Grid::new(1, MIN_COLS, 0)
}

/// Brings lines back from lent history while the rows below the cursor are empty, then ends the
/// loan.
fn pull_down(grid: &mut Grid<Cell>) {
    let (rows, cols) = (grid.screen_lines(), grid.columns());
    let below = grid.cursor.point.line.0 as usize + 1;
    let empty = (below..rows).rev().take_while(|&line| grid[Line(line as i32)].is_clear()).count();
    let back = empty.min(grid.history_size());
    if back > 0 {
        // Growing takes lines from history, shrinking drops rows below the cursor.
        grid.resize(true, rows + back, cols);
        grid.resize(true, rows, cols);
    }
    grid.update_history(0);
}

/// After a resize. The guest grows a grid by a thousand spare rows, and leaves rows whose "touched
/// up to here" bound is too low for a later clear (cells of an old background stay): both are
/// hidden state that a keyframe could not carry.
fn settle(grid: &mut Grid<Cell>) {
    for line in grid.topmost_line().0..grid.screen_lines() as i32 {
        // Mutable iteration marks the whole row as touched.
        let _ = (&mut grid[Line(line)]).into_iter();
    }
    if grid.history_size() == 0 {
        grid.truncate();
        // A clone has no spare capacity.
        *grid = grid.clone();
    }
}
