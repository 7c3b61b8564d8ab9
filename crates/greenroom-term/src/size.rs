//! The size of a terminal in cells.
//!
//! In: two numbers from a client or a record. Out: a [`Size`] that every other room may trust.
//! Deliberately absent: pixels; a session on a host has none.

/// Longest side of a terminal. A full grid of this size is 24 MB; beyond it no real window exists
/// and a client could make the host allocate at will.
pub const MAX_SIDE: u16 = 1000;

/// Columns and rows, each within `1..=MAX_SIDE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    cols: u16,
    rows: u16,
}

impl Size {
    /// `None` when a side is zero or longer than [`MAX_SIDE`].
    pub fn new(cols: u16, rows: u16) -> Option<Size> {
        let fits = |side: u16| (1..=MAX_SIDE).contains(&side);
        (fits(cols) && fits(rows)).then_some(Size { cols, rows })
    }

    pub fn cols(self) -> u16 {
        self.cols
    }

    pub fn rows(self) -> u16 {
        self.rows
    }
}

impl Default for Size {
    /// 80 columns, 24 rows.
    fn default() -> Size {
        Size { cols: 80, rows: 24 }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.cols, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sane_sizes_exist() {
        assert_eq!(Size::new(0, 24), None);
        assert_eq!(Size::new(80, 0), None);
        assert_eq!(Size::new(1001, 24), None);
        assert_eq!(Size::new(1, 1000).map(|s| s.to_string()).as_deref(), Some("1x1000"));
    }
}
