//! A screen painted anew from the journal: after a crash of the daemon, after
//! a failure of the screen engine, and as history for scrollback.

use std::ops::ControlFlow;

use greenroom_term::{Screen, Size};

use crate::id::Seq;
use crate::journal::{Item, JournalError, JournalReader, ReplayFrom};

/// The screen as it stands at the journal's end, and that end. Blocks on files.
pub(crate) fn screen(reader: &JournalReader, size: Size) -> Result<(Screen, Seq), JournalError> {
    paint(reader, ReplayFrom::LastKeyframe, Screen::new(size), |size, bytes| {
        Screen::restore(size, bytes)
    })
}

/// The screen with up to `lines` of scrollback, from the oldest byte kept.
pub(crate) fn history(
    reader: &JournalReader,
    size: Size,
    lines: usize,
) -> Result<(Screen, Seq), JournalError> {
    paint(reader, ReplayFrom::Oldest, Screen::with_history(size, lines), |size, bytes| {
        let mut screen = Screen::with_history(size, lines);
        screen.feed(bytes);
        screen
    })
}

fn paint(
    reader: &JournalReader,
    from: ReplayFrom,
    start: Screen,
    restore: impl Fn(Size, &[u8]) -> Screen,
) -> Result<(Screen, Seq), JournalError> {
    let mut screen = start;
    let mut painted = false;
    let end = reader.replay(from, &mut |item| {
        match item {
            // Only the first keyframe starts a picture; later ones repeat what
            // the bytes already painted.
            Item::Keyframe { size, bytes, .. } if !painted => screen = restore(size, bytes),
            Item::Output { bytes, .. } => screen.feed(bytes),
            Item::Resize { size, .. } => screen.resize(size),
            _ => {}
        }
        painted = true;
        ControlFlow::Continue(())
    })?;
    // The program had its answers when the bytes were live.
    screen.take_replies();
    screen.take_marks();
    Ok((screen, end))
}
