//! A viewer who joins when only the beginning of a secret was printed.

use std::sync::Arc;

use greenroom_term::{Screen, Size};

use crate::egress::flow::{Flow, Picture, Shown};
use crate::egress::{Egress, HostKey, Literals, Raw, Redaction, Rules, Sink};
use crate::id::Seq;

const VALUE: &str = "hunter2 and-more";

/// What is printed, and the part of it nobody may see.
const PRINTED: [(&str, &str); 6] = [
    ("$ echo hunter2 and-more", VALUE),
    ("\x1b[31mhun\x1b[32mter2 and\x1b[0m-more", VALUE),
    ("key ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8 ", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
    ("sk-ant-api03-Zq8Lm2Xv7Nw4Rt6Yb1Kc9Pd3Fg5Hj0Sa ", "Zq8Lm2Xv7Nw4Rt6Yb1Kc9Pd3Fg5Hj0Sa"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI8K7MDENGxbPxRfiCY9EXAMPLEKEYx ", "wJalrXUtnFEMI8K7MDENG"),
    ("\x1b]0;hunter2 and-more\x07", VALUE),
];

fn egress() -> Egress {
    let redaction = Redaction::new(Rules::built_in(), false, HostKey::passing().unwrap());
    Egress::new(&redaction, Literals::new([VALUE.as_bytes()]))
}

/// No four letters of it that stand side by side, but for the first three that a pause lets out.
fn assert_hidden(shown: &str, secret: &str, when: &str) {
    let squeezed: String = shown.chars().filter(|c| !c.is_whitespace()).collect();
    let letters: Vec<char> = secret.chars().filter(|c| !c.is_whitespace()).collect();
    for four in letters.windows(4) {
        let four: String = four.iter().collect();
        assert!(!squeezed.contains(&four), "{when}: {four} in {shown:?}");
    }
}

fn seen(screen: &Screen) -> String {
    format!("{}\n{}", screen.text(), screen.title().unwrap_or_default())
}

/// The first part is on the screen when the viewer comes, the rest follows.
fn joined_at(cut: usize, printed: &str, secret: &str, (cols, rows): (u16, u16), before: &str) {
    let (size, egress) = (Size::new(cols, rows).unwrap(), egress());
    let text = format!("{before}{printed}");
    let (first, rest) = text.as_bytes().split_at(before.len() + cut);
    let mut screen = Screen::new(size);
    screen.feed(first);
    let when = format!("{cols} columns, {printed:?} cut at {cut}");
    let seq = Seq(first.len() as u64);
    let frame = Arc::new(screen.frame());
    let keyframe = Shown::Keyframe(screen.marked_keyframe(), screen.size());
    let window = Size::new(cols + 3, rows + 1).unwrap();
    for (shown, window) in
        [(keyframe, size), (Shown::Grid { frame: frame.clone(), window }, window)]
    {
        let mut flow = Flow::new(&egress, Some(Sink::AttachRemote), seq);
        flow.restart(seq, &Raw::new(first.to_vec()));
        let picture = Picture { shown, before: Vec::new() };
        let bytes = flow.keyframe(seq, Raw::new(picture)).into_inner();
        assert_hidden(&String::from_utf8_lossy(&bytes), secret, &when);
        let mut viewer = Screen::restore(window, &bytes);
        assert_hidden(&seen(&viewer), secret, &when);
        for byte in rest.chunks(1) {
            let seq = Seq(seq.0 + (byte.as_ptr() as usize - rest.as_ptr() as usize) as u64);
            if let Some((_, bytes)) = flow.output(seq, Raw::new(byte.into())) {
                viewer.feed(bytes.get());
            }
            assert_hidden(&seen(&viewer), secret, &when);
        }
    }
    // Nor in a snapshot.
    let masked = egress.frame(Sink::Snapshot, Raw::new(frame)).into_inner();
    let rows: String = masked.rows.iter().map(|row| row.text() + "\n").collect();
    assert_hidden(&rows, secret, &when);
}

#[test]
fn whoever_joins_in_the_middle_of_a_secret_sees_no_beginning_of_it() {
    for (printed, secret) in PRINTED {
        for cut in 0..=printed.len() {
            joined_at(cut, printed, secret, (80, 24), "some text\r\n");
            // Wrapped, and with old text behind the cursor.
            joined_at(cut, printed, secret, (17, 9), "one\r\ntwo\r\nxxxxxxxxxxxxxxxx\r");
        }
    }
}

/// What is decided is shown as it is.
#[test]
fn what_cannot_become_a_secret_is_not_masked() {
    let egress = egress();
    for text in ["$ ", "user@host:~$ ls", "hunting ", "password: ", "the end s"] {
        let mut screen = Screen::new(Size::new(40, 4).unwrap());
        screen.feed(text.as_bytes());
        let seq = Seq(text.len() as u64);
        let mut flow = Flow::new(&egress, Some(Sink::AttachRemote), seq);
        flow.restart(seq, &Raw::new(text.as_bytes().to_vec()));
        let shown = Shown::Keyframe(screen.marked_keyframe(), screen.size());
        let picture = Picture { shown, before: Vec::new() };
        let bytes = flow.keyframe(seq, Raw::new(picture)).into_inner();
        let viewer = Screen::restore(Size::new(40, 4).unwrap(), &bytes);
        assert_eq!(viewer.text(), text.trim_end());
    }
}
