//! What the live region looks like: spinner, prompt box, dialogs, and the welcome.
//!
//! In: the state to show and the width. Out: lines. Deliberately absent: any state of its own.

use std::time::Duration;

use crate::line::{Line, Style};
use crate::paint::{Live, boxed};
use crate::turn::Dialog;

const GLYPHS: [char; 6] = ['·', '✢', '✳', '✶', '✻', '✽'];
/// One glyph of the spinner.
pub(crate) const SPIN: Duration = Duration::from_millis(120);
/// Rows of the draft that are shown; the end of a longer one.
const DRAFT_ROWS: usize = 8;
/// A wider box is hard to read.
const MAX_INNER: usize = 116;

pub(crate) fn welcome(text: &str, cwd: &str, cols: usize) -> Vec<Line> {
    let lines = vec![
        Line::new("✻ ", Style::Accent).with(text, Style::Bold),
        Line::default(),
        Line::new("  /exit to leave, ctrl-c twice as well", Style::Dim),
        Line::new(&format!("  cwd: {cwd}"), Style::Dim),
    ];
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    boxed(lines, widest.min(inner(cols)), Style::Accent)
}

pub(crate) fn spinner(word: &str, elapsed: Duration) -> Line {
    let at = usize::try_from(elapsed.as_millis() / SPIN.as_millis()).unwrap_or(0);
    let glyph = GLYPHS[at % GLYPHS.len()];
    Line::new(&format!("{glyph} {word}… "), Style::Accent)
        .with(&format!("({}s · esc to interrupt)", elapsed.as_secs()), Style::Dim)
}

/// The prompt box with the cursor at the end of the draft, added below what is already there.
pub(crate) fn prompt(live: &mut Live, draft: &str, footer: &str, cols: usize) {
    let inner = inner(cols);
    let mut rows = Vec::new();
    for (at, line) in draft.split('\n').enumerate() {
        let lead = if at == 0 { "> " } else { "  " };
        rows.extend(Line::plain(&format!("{lead}{line}")).wrap(inner, 2));
    }
    rows.drain(..rows.len().saturating_sub(DRAFT_ROWS));
    let col = rows.last().map_or(0, Line::width).min(inner);
    live.cursor = Some((live.lines.len() + rows.len(), col + 2));
    live.lines.extend(boxed(rows, inner, Style::Dim));
    live.lines.push(Line::new(&format!("  {footer}"), Style::Dim));
}

pub(crate) fn dialog(live: &mut Live, dialog: &Dialog, cols: usize) {
    let inner = inner(cols);
    let mut rows = vec![Line::new(&dialog.title, Style::Bold), Line::default()];
    for line in &dialog.body {
        rows.extend(Line::plain(line).wrap(inner, 4));
    }
    rows.push(Line::default());
    rows.push(Line::plain(&dialog.question));
    for (at, option) in dialog.options.iter().enumerate() {
        let (mark, style) =
            if at == dialog.selected { ("❯", Style::Accent) } else { (" ", Style::Plain) };
        rows.extend(Line::new(&format!("{mark} {}. {option}", at + 1), style).wrap(inner, 5));
    }
    live.cursor = None;
    live.lines.extend(boxed(rows, inner, Style::Accent));
}

fn inner(cols: usize) -> usize {
    cols.saturating_sub(4).clamp(1, MAX_INNER)
}
