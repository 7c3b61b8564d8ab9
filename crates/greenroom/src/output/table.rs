//! Tables that fit the window they are read in.
//!
//! In: cells, each of which says which side of it matters. Out: lines. On a terminal columns give
//! way until the table fits; in a pipe nothing is cut, whatever its width. Absent on purpose:
//! borders, sorting.

use std::borrow::Cow;
use std::fmt::Write as _;

use textwrap::WordSplitter::NoHyphenation;
use unicode_width::UnicodeWidthStr as _;

use super::{Output, Tone, elide, elide_start, one_line};

/// A column that may shrink keeps at least this much, or its content says nothing.
const SHRINK_TO: usize = 8;
/// A column that wraps keeps this much; with less its text goes below the row.
const WRAP_TO: usize = 24;
/// How far text below its row is indented.
const BELOW: usize = 4;

/// One cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
    keeps: Keeps,
}

/// Which part of a cell is kept if it does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keeps {
    #[default]
    Start,
    End,
    /// In the last column only: it goes on in the next line.
    All,
}

impl Cell {
    /// A cell with a meaning.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Cell {
        Cell { text: one_line(&text.into()), tone, keeps: Keeps::Start }
    }

    /// Its end is what tells it from others.
    pub fn path(text: impl Into<String>) -> Cell {
        Cell { keeps: Keeps::End, ..Cell::from(text) }
    }

    /// All of it is shown, in several lines if need be. For the last column.
    pub fn whole(text: impl Into<String>) -> Cell {
        Cell { keeps: Keeps::All, ..Cell::from(text) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(Tone::Plain, text)
    }
}

impl Output {
    /// A table that fits the window: columns named in `shrink` give way, widest first; the first of
    /// them last.
    pub fn table<const N: usize>(
        &self,
        head: [&str; N],
        rows: impl IntoIterator<Item = [Cell; N]>,
        shrink: &[&str],
    ) -> String {
        let heads = head.map(|name| Cell::toned(Tone::Head, name));
        let rows: Vec<[Cell; N]> = std::iter::once(heads).chain(rows).collect();
        let mut widths = [0; N];
        for row in &rows {
            widths = std::array::from_fn(|at| widths[at].max(row[at].text.width()));
        }
        let wraps = rows.iter().any(|row| row[N - 1].keeps == Keeps::All);
        let below = match self.columns {
            Some(columns) => squeeze(&mut widths, head, wraps, shrink, columns),
            None => None,
        };
        let mut text = String::new();
        rows.iter().for_each(|row| self.row(&mut text, row, &widths, below));
        text
    }

    /// `below` is the width of the last cell if it has lines of its own.
    fn row(&self, text: &mut String, row: &[Cell], widths: &[usize], below: Option<usize>) {
        let start: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let last = column + 1 == widths.len();
            if last && cell.keeps == Keeps::All {
                let (indent, width) = below.map_or((start, *width), |width| (BELOW, width));
                for (number, line) in wrap(&cell.text, width).iter().enumerate() {
                    if number > 0 || below.is_some() {
                        end_line(text);
                        write!(text, "{:indent$}", "").expect("writing to a string");
                    }
                    text.push_str(&self.paint(cell.tone, line));
                }
                continue;
            }
            let shown = match cell.keeps {
                Keeps::End => elide_start(&cell.text, *width, self.ellipsis()),
                Keeps::Start | Keeps::All => elide(&cell.text, *width, self.ellipsis()),
            };
            let pad = if last { 0 } else { width.saturating_sub(shown.width()) + 2 };
            let painted = self.paint(cell.tone, &shown);
            write!(text, "{painted}{:pad$}", "").expect("writing to a string");
        }
        end_line(text);
    }
}

fn end_line(text: &mut String) {
    while text.ends_with(' ') {
        text.pop();
    }
    text.push('\n');
}

/// Makes the columns fit. Answers the width of the last column's own lines if it has to stand
/// below.
fn squeeze<const N: usize>(
    widths: &mut [usize; N],
    head: [&str; N],
    wraps: bool,
    shrink: &[&str],
    columns: usize,
) -> Option<usize> {
    let last = N - 1;
    let over =
        |widths: &[usize; N]| (widths.iter().sum::<usize>() + 2 * last).saturating_sub(columns);
    if wraps {
        let least = WRAP_TO.min(widths[last]);
        widths[last] = widths[last].saturating_sub(over(widths)).max(least);
    }
    let least: [usize; N] =
        std::array::from_fn(|at| SHRINK_TO.max(head[at].width()).min(widths[at]));
    let (first, others) = shrink.split_at(shrink.len().min(1));
    for group in [others, first] {
        let named: Vec<usize> =
            group.iter().filter_map(|name| head.iter().position(|other| other == name)).collect();
        while over(widths) > 0 {
            let gives = named.iter().filter(|column| widths[**column] > least[**column]);
            let Some(column) = gives.copied().max_by_key(|column| widths[*column]) else { break };
            widths[column] -= 1;
        }
    }
    if !wraps || over(widths) == 0 {
        return None;
    }
    // Not even so: the others get the line for themselves.
    widths[last] = head[last].width();
    Some(columns.saturating_sub(BELOW).max(SHRINK_TO))
}

/// `text` in lines of at most `width` columns, broken between words where there are any.
fn wrap(text: &str, width: usize) -> Vec<Cow<'_, str>> {
    textwrap::wrap(text, textwrap::Options::new(width).word_splitter(NoHyphenation))
}

#[cfg(test)]
mod tests {
    use super::super::tests::plain;
    use super::*;

    #[test]
    fn tables_fit_and_say_what_they_left_out() {
        let row = [Cell::from("s1"), Cell::from("x".repeat(100)), Cell::from("running")];
        let text = plain(40).table(["ID", "CWD", "STATE"], [row], &["CWD"]);
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains('…') && text.contains("running"), "{text}");
    }

    #[test]
    fn a_pipe_gets_everything() {
        let row = [Cell::path("x".repeat(300)), Cell::whole("y ".repeat(200))];
        let text = plain(None).table(["PATH", "WHY"], [row], &["PATH"]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains(&"x".repeat(300)) && !text.contains('…'), "{text}");
    }

    #[test]
    fn paths_keep_their_end_and_the_widest_gives_way() {
        let path = "/home/somebody/.local/state/worktrees/app/feat-17";
        let row = [Cell::from("name"), Cell::path(path), Cell::from("make -j8")];
        let text = plain(40).table(["NAME", "CWD", "COMMAND"], [row], &["NAME", "CWD", "COMMAND"]);
        assert!(text.contains("feat-17") && text.contains("make -j8"), "{text}");
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
    }

    #[test]
    fn the_reason_is_whole_beside_or_below() {
        let why = "3 commits are on no other branch or remote: a1b2c3d, d4e5f6a; 2 files modified";
        let row = [Cell::from("feat"), Cell::path("/a/b/c/d/e/f/g/h/i"), Cell::whole(why)];
        for columns in [80, 50, 30] {
            let text =
                plain(columns).table(["SLUG", "PATH", "WHY"], [row.clone()], &["SLUG", "PATH"]);
            assert!(text.lines().all(|line| line.width() <= columns), "{columns}: {text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            let found = why.split(' ').filter(|word| words.contains(word)).count();
            assert_eq!(found, why.split(' ').count(), "{columns}: {text}");
        }
    }

    #[test]
    fn words_are_wrapped_and_long_ones_broken() {
        assert_eq!(wrap("ab cd ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
        assert_eq!(wrap("日本", 1), ["日", "本"]);
    }

    #[test]
    fn a_session_cannot_paint_the_list() {
        assert_eq!(Cell::from("a\x1b[31mb\n").text, "a [31mb ");
    }
}
