//! The public face of the room, tested as its users see it.

use greenroom_term::{Screen, Size};

mod faults;
mod keyframe;
mod keys;
mod marks;
mod mouse;
mod queries;
mod screen;
#[allow(clippy::useless_concat, reason = "every case is written the same way, one line or many")]
mod tmux;

/// A screen that has read `output`.
fn shown(cols: u16, rows: u16, output: &[u8]) -> Screen {
    let mut screen = Screen::new(size(cols, rows));
    screen.feed(output);
    screen
}

fn size(cols: u16, rows: u16) -> Size {
    Size::new(cols, rows).expect("a size within limits")
}
