//! A screen painted anew from the journal: after a crash of the daemon, after
//! a failure of the screen engine, and as history for scrollback.

use std::ops::ControlFlow;

use greenroom_term::{Screen, Size};

use crate::id::Seq;
use crate::journal::{Item, JournalError, JournalReader, Note, ReplayFrom};

/// The screen as it stands at the journal's end, and that end. Blocks on files.
pub(crate) fn screen(reader: &JournalReader, size: Size) -> Result<(Screen, Seq), JournalError> {
    paint(reader, ReplayFrom::LastKeyframe, Screen::new(size), Screen::restore)
}

/// The screen with up to `lines` of scrollback, from the oldest byte kept.
pub(crate) fn history(
    reader: &JournalReader,
    size: Size,
    lines: usize,
) -> Result<(Screen, Seq), JournalError> {
    paint(reader, ReplayFrom::Oldest, Screen::with_history(size, lines), tall(lines))
}

/// Restores keyframes into screens that keep so many lines above.
fn tall(lines: usize) -> impl Fn(Size, &[u8]) -> Screen {
    move |size, bytes| {
        let mut screen = Screen::with_history(size, lines);
        screen.feed(bytes);
        screen
    }
}

/// The screen with the lines above it brought back into a window that grew.
///
/// The live screen keeps no history, so a resize cannot pull lines down from
/// it; the journal has them. `None` when the journal's end is not `seq`.
pub(crate) fn regrown(reader: &JournalReader, seq: Seq, size: Size) -> Option<Screen> {
    let lines = usize::from(size.rows()) * REGROW_SCREENS;
    let from = ReplayFrom::KeyframeBefore(Seq(seq.0.saturating_sub(REGROW_BYTES)));
    let blank = Screen::with_history(size, lines);
    let (mut screen, end) = paint(reader, from, blank, tall(lines)).ok()?;
    if end != seq || screen.is_broken() {
        return None;
    }
    screen.resize(size);
    Some(Screen::restore(size, &screen.keyframe()))
}

/// Output looked back at for lines to bring back: many screens of text, a few
/// milliseconds of parsing.
const REGROW_BYTES: u64 = 256 * 1024;

/// History kept while doing so, in screens.
const REGROW_SCREENS: usize = 4;

fn paint(
    reader: &JournalReader,
    from: ReplayFrom,
    start: Screen,
    restore: impl Fn(Size, &[u8]) -> Screen,
) -> Result<(Screen, Seq), JournalError> {
    let mut screen = start;
    let end = reader.replay(from, &mut |item| {
        match item {
            // The start of the picture, and again where bytes are missing.
            Item::Keyframe { size, bytes, .. } => screen = restore(size, bytes),
            Item::Output { bytes, .. } => screen.feed(bytes),
            Item::Note { note: Note::Resize(size), .. } => screen.resize(*size),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    // The program had its answers when the bytes were live.
    screen.take_replies();
    screen.take_marks();
    Ok((screen, end))
}
