//! Tables that fit the window they are read in.
//!
//! In: cells, each of which says which side of it matters. Out: lines. On a terminal columns give way until the table
//! fits; in a pipe nothing is cut, whatever its width. Absent on purpose: borders, sorting.

use std::fmt::Write as _;

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

/// What of a cell stays if it does not fit.
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
    /// A table that fits the window: columns named in `shrink` give way, widest first; the first of them last.
    pub fn table(&self, head: &[&str], rows: &[Vec<Cell>], shrink: &[&str]) -> String {
        let mut widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.width()).chain([head[column].width()]).max().unwrap_or(0)
            })
            .collect();
        let below = match self.columns {
            Some(columns) => squeeze(&mut widths, head, rows, shrink, columns),
            None => None,
        };
        let heads: Vec<Cell> = head.iter().map(|name| Cell::toned(Tone::Head, *name)).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(rows) {
            self.row(&mut text, row, &widths, below);
        }
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

/// Makes the columns fit. Answers the width of the last column's own lines if it has to stand below.
fn squeeze(
    widths: &mut [usize],
    head: &[&str],
    rows: &[Vec<Cell>],
    shrink: &[&str],
    columns: usize,
) -> Option<usize> {
    let gaps = 2 * head.len().saturating_sub(1);
    let over = |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
    let last = head.len().saturating_sub(1);
    let wraps = rows.iter().any(|row| row.get(last).is_some_and(|cell| cell.keeps == Keeps::All));
    if wraps {
        let least = WRAP_TO.min(widths[last]);
        widths[last] = widths[last].saturating_sub(over(widths)).max(least);
    }
    let least: Vec<usize> = widths
        .iter()
        .zip(head)
        .map(|(width, name)| SHRINK_TO.max(name.width()).min(*width))
        .collect();
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
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        loop {
            let line = lines.last_mut().expect("there is always a line");
            let gap = usize::from(!line.is_empty());
            if line.width() + gap + word.width() <= width {
                line.push_str(&" ".repeat(gap));
                line.push_str(&word);
                break;
            }
            if line.is_empty() {
                let part = elide(&word, width, "");
                // A character wider than the line stands alone.
                let part = if part.is_empty() { word.chars().take(1).collect() } else { part };
                word = word[part.len()..].to_owned();
                *line = part;
            }
            lines.push(String::new());
        }
    }
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::plain;
    use super::*;

    #[test]
    fn tables_fit_and_say_what_they_left_out() {
        let rows = vec![vec![Cell::from("s1"), Cell::from("x".repeat(100)), Cell::from("running")]];
        let text = plain(40).table(&["ID", "CWD", "STATE"], &rows, &["CWD"]);
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains('…') && text.contains("running"), "{text}");
    }

    #[test]
    fn a_pipe_gets_everything() {
        let rows = vec![vec![Cell::path("x".repeat(300)), Cell::whole("y ".repeat(200))]];
        let text = plain(None).table(&["PATH", "WHY"], &rows, &["PATH"]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains(&"x".repeat(300)) && !text.contains('…'), "{text}");
    }

    #[test]
    fn paths_keep_their_end_and_the_widest_gives_way() {
        let path = "/home/somebody/.local/state/worktrees/app/feat-17";
        let rows = vec![vec![Cell::from("name"), Cell::path(path), Cell::from("make -j8")]];
        let text = plain(40).table(&["NAME", "CWD", "COMMAND"], &rows, &["NAME", "CWD", "COMMAND"]);
        assert!(text.contains("feat-17") && text.contains("make -j8"), "{text}");
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
    }

    #[test]
    fn the_reason_is_whole_beside_or_below() {
        let why = "3 commits are on no other branch or remote: a1b2c3d, d4e5f6a; 2 files modified";
        let rows =
            vec![vec![Cell::from("feat"), Cell::path("/a/b/c/d/e/f/g/h/i"), Cell::whole(why)]];
        for columns in [80, 50, 30] {
            let text = plain(columns).table(&["SLUG", "PATH", "WHY"], &rows, &["SLUG", "PATH"]);
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
