//! What a subscriber is sent: in order, and nothing of a secret, also when only the beginning of it
//! was printed.

use std::sync::Arc;

use greenroom_term::{Screen, Size};

use super::masking::Masking;
use super::subscription::{Treatment, subscribe};
use super::{Picture, Push, RawPush, SubscriberKind};
use crate::egress::{Egress, HostKey, Literals, Raw, Redaction, Rules};
use crate::id::{ClientId, Seq};
use crate::process::ExitStatus;

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

/// The masking of a viewer who joins after `first` was printed.
fn masking(egress: &Egress, first: &[u8]) -> Masking {
    let seq = Seq(first.len() as u64);
    let mut masking = Masking::new(egress.clone(), egress.redactor_at(seq), seq);
    masking.restart(seq, first);
    masking
}

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
fn joined_at(cut: usize, printed: &str, secret: &str, cols: u16, rows: u16, before: &str) {
    let (size, egress) = (Size::new(cols, rows).unwrap(), egress());
    let text = format!("{before}{printed}");
    let (first, rest) = text.as_bytes().split_at(before.len() + cut);
    let mut screen = Screen::new(size);
    screen.feed(first);
    let when = format!("{cols} columns, {printed:?} cut at {cut}");
    let seq = Seq(first.len() as u64);
    let frame = Arc::new(screen.frame());
    let (keyframe, before) = (screen.annotated_keyframe(), Vec::new());
    let window = Size::new(cols + 3, rows + 1).unwrap();
    let same_size = Picture::Keyframe { keyframe, size, before: before.clone() };
    let larger = Picture::Grid { frame: frame.clone(), window, before };
    for (picture, window) in [(same_size, size), (larger, window)] {
        let mut masking = masking(&egress, first);
        let bytes = masking.picture(seq, Raw::new(picture)).into_inner();
        assert_hidden(&String::from_utf8_lossy(&bytes), secret, &when);
        let mut viewer = Screen::restore(window, &bytes);
        assert_hidden(&seen(&viewer), secret, &when);
        for byte in rest.chunks(1) {
            let seq = Seq(seq.0 + (byte.as_ptr() as usize - rest.as_ptr() as usize) as u64);
            if let Some(Push::Output { bytes, .. }) = masking.output(seq, Raw::new(byte.into())) {
                viewer.feed(bytes.get());
            }
            assert_hidden(&seen(&viewer), secret, &when);
        }
    }
    // Nor in a snapshot.
    let masked = egress.frame(Raw::new(frame)).into_inner();
    let rows: String = masked.rows.iter().map(|row| row.text() + "\n").collect();
    assert_hidden(&rows, secret, &when);
}

#[test]
fn whoever_joins_in_the_middle_of_a_secret_sees_no_beginning_of_it() {
    for (printed, secret) in PRINTED {
        for cut in 0..=printed.len() {
            joined_at(cut, printed, secret, 80, 24, "some text\r\n");
            // Wrapped, and with old text behind the cursor.
            joined_at(cut, printed, secret, 17, 9, "one\r\ntwo\r\nxxxxxxxxxxxxxxxx\r");
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
        let (keyframe, size) = (screen.annotated_keyframe(), screen.size());
        let picture = Picture::Keyframe { keyframe, size, before: Vec::new() };
        let bytes = masking(&egress, text.as_bytes()).picture(seq, Raw::new(picture)).into_inner();
        let viewer = Screen::restore(Size::new(40, 4).unwrap(), &bytes);
        assert_eq!(viewer.text(), text.trim_end());
    }
}

/// The session ends while a part of its output is undecided: that comes first, and each of them
/// once.
#[test]
fn the_end_comes_after_what_was_held_back() {
    let egress = egress();
    let treatment = Treatment::Masked(Box::new(masking(&egress, b"")));
    let (actor, _mailbox) = tokio::sync::mpsc::channel(4);
    let (mut subscriber, mut subscription) =
        subscribe(ClientId(1), SubscriberKind::Stream, Seq(0), actor, egress, treatment);
    let (seq, end) = (Seq(0), Seq(9));
    subscriber.push(seq, RawPush::Output { seq, bytes: Raw::new(Arc::from(&b"a hunter2"[..])) });
    let exited = Push::Exited { status: ExitStatus::Code(0), seq: end };
    subscriber.push(end, RawPush::Plain(exited));
    let pushes: Vec<String> = std::iter::from_fn(|| subscription.try_next())
        .map(|push| match push {
            Push::Output { seq, bytes } => {
                format!("{} {}", seq.0, String::from_utf8_lossy(bytes.get()))
            }
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(pushes, ["0 a ", "2 hunter2", "Exited { status: Code(0), seq: Seq(9) }"]);
}
