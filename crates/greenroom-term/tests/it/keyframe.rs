//! A keyframe and the bytes after it give the live screen. (With random streams and everything
//! hidden compared: `front/equality`.)

use greenroom_term::Screen;
use proptest::prelude::*;

use super::{shown, size};

/// Recordings of real programs.
fn recordings() -> Vec<(String, Vec<u8>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/recorded");
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .expect("the corpus is there")
        .map(|entry| entry.expect("the corpus can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "esc"))
        .map(|path| {
            (path.display().to_string(), std::fs::read(&path).expect("a file of the corpus"))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

fn same(a: &Screen, b: &Screen) -> bool {
    a.frame() == b.frame() && a.keyframe() == b.keyframe()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn recorded_programs_can_be_cut_anywhere(which: prop::sample::Index, cut: prop::sample::Index) {
        let all = recordings();
        let (name, bytes) = which.get(&all);
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut live = shown(80, 24, head);
        let mut restored = Screen::restore(live.size(), &live.keyframe());
        prop_assert!(same(&live, &restored), "{name} at {}", head.len());
        live.feed(tail);
        restored.feed(tail);
        prop_assert!(same(&live, &restored), "{name} after {}", head.len());
    }
}

/// What a terminal that is not ours shows of a keyframe and of what follows it.
fn viewed(live: &Screen, then: &[u8]) -> Screen {
    let keyframe = live.viewer_keyframe();
    assert!(!keyframe.windows(2).any(|two| two == b"\x1b_"), "{}", keyframe.escape_ascii());
    let mut viewer = Screen::new(live.size());
    viewer.feed(&keyframe);
    viewer.feed(then);
    viewer
}

/// What a person sees of both screens.
fn seen(screen: &Screen) -> (String, (u16, u16)) {
    let cursor = screen.frame().cursor;
    (screen.text(), (cursor.row, cursor.col))
}

const FULL: &str = "abcdefghijklmnopqrst";

/// Hidden state that shows in what comes next, with what comes next. All in 20 by 6.
fn hidden() -> Vec<(String, &'static str)> {
    let full = |before: &str, after: &str| format!("{before}{FULL}{after}");
    vec![
        (full("", ""), "NEXT"),
        (full("one\r\n", "\x1b[31m"), "NEXT"),
        (full("\x1b[6;1H", ""), "NEXT"),
        ("abcdefghijklmnopqr\u{4e2d}".to_owned(), "\u{6587}NEXT"),
        (full("", "\u{301}"), "NEXT"),
        (full("\x1b[44m", "\x1b[m\x1b[K"), "NEXT"),
        (full("\x1b[?7l", "xyz"), "NEXT"),
        (full("\x1b[4h", ""), "NEXT"),
        ("\x1b[3;5rab\x1b[?6h\x1b[2;4H".to_owned(), "X\x1b[1;1HY\r\n\n\nZ"),
        ("\x1b[2;4r\x1b[?6h\x1b[3;1Habcdefghijklmnopqrst".to_owned(), "NEXT"),
        (full("", "\x1b7\x1b[1;1H"), "\x1b8NEXT"),
        (full("shell\r\n", "\x1b[?1049h\x1b[2Jvim"), "\x1b[?1049lNEXT"),
        (full("shell\r\n", "\x1b[?1049h\x1b[2J\x1b[H01234567890123456789"), "X\x1b[?1049lNEXT"),
        ("\x1b)0a\x0eq".to_owned(), "qq\x0fq"),
        (full("\x1b(0", ""), "qq\x1b(Bq"),
        ("\x1b[3g\x1b[4G\x1bH\x1b[11G\x1bH\r".to_owned(), "\ta\tb\tc"),
        ("abc\x1b[1;2H\x1b[4h".to_owned(), "XY"),
        ("\x1b[20habc".to_owned(), "\nX"),
    ]
}

#[test]
fn a_viewers_terminal_goes_on_as_the_session_does() {
    for (head, tail) in hidden() {
        let mut live = shown(20, 6, head.as_bytes());
        assert_eq!(seen(&viewed(&live, b"")), seen(&live), "{head:?}");
        let viewer = viewed(&live, tail.as_bytes());
        live.feed(tail.as_bytes());
        assert_eq!(seen(&viewer), seen(&live), "{head:?} then {tail:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn recorded_programs_go_on_in_a_viewers_terminal(which: prop::sample::Index, cut: prop::sample::Index) {
        let all = recordings();
        let (name, bytes) = which.get(&all);
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut live = shown(80, 24, head);
        let viewer = viewed(&live, tail);
        live.feed(tail);
        prop_assert_eq!(seen(&viewer), seen(&live), "{} after {}", name, head.len());
    }
}

#[test]
fn an_idle_screen_is_small() {
    let prompt = shown(80, 24, b"\x1b[1;32muser@host\x1b[0m:\x1b[34m~\x1b[0m$ ").keyframe();
    assert!(prompt.len() < 200, "{} bytes", prompt.len());
    let full: Vec<u8> =
        (0..24).flat_map(|n| format!("{:<79}\r\n", "word ".repeat(n % 15)).into_bytes()).collect();
    let full = shown(80, 24, &full).keyframe();
    assert!(full.len() < 3000, "{} bytes", full.len());
}

#[test]
fn both_screens_are_in_it() {
    let mut live = shown(20, 4, b"shell\x1b7\x1b[31m$ \x1b[?1049h\x1b[2;2H\x1b[44mvim\x1b[?25l");
    let mut restored = Screen::restore(size(20, 4), &live.keyframe());
    assert!(same(&live, &restored));
    assert_eq!(restored.text(), "\n vim");
    for screen in [&mut live, &mut restored] {
        screen.feed(b"\x1b[?1049lls");
    }
    assert!(same(&live, &restored));
    assert_eq!(restored.text(), "shell$ ls");
}

#[test]
fn restoring_gives_neither_replies_nor_marks() {
    let live = shown(20, 4, b"\x1b]2;title\x07\x07\x1b]11;#fff\x07");
    let mut restored = Screen::restore(size(20, 4), &live.keyframe());
    assert_eq!(restored.title(), Some("title"));
    assert!(restored.take_marks().is_empty());
    assert!(restored.take_replies().is_empty());
}

#[test]
fn private_strings_are_for_keyframes_only() {
    let mut screen = shown(20, 4, b"text\x1b_greenroom;c0,0,58,0;k3,3,0\x1b\\");
    assert_eq!(screen.text(), "text");
    assert_eq!(screen.cursor().row, 0);
    screen = Screen::restore(size(20, 4), b"text\x1b_greenroom;c0,0,58,0\x1b\\");
    assert_eq!(screen.text(), "Xext");
}
