//! Faults of the guests, each covered by the front.

use greenroom_term::Screen;
use proptest::prelude::*;

use super::{shown, size};

#[test]
fn a_character_cut_between_reads_is_not_lost() {
    // vte 0.15.0 prints "éé" here.
    let text = "éaé漢😀z".as_bytes();
    for cut in 0..=text.len() {
        let mut screen = shown(20, 2, &text[..cut]);
        screen.feed(&text[cut..]);
        assert_eq!(screen.text(), "éaé漢😀z", "cut at {cut}");
    }
}

#[test]
fn a_flood_of_keyboard_pushes_does_not_panic() {
    // alacritty_terminal 0.26.0 panics at the 4097th.
    let mut screen = shown(80, 24, &b"\x1b[>1u".repeat(10_000));
    assert!(!screen.is_broken());
    screen.feed(b"\x1b[?u");
    assert_eq!(screen.take_replies(), b"\x1b[?1u");
}

#[test]
fn marks_in_one_cell_are_bounded() {
    let mut screen = shown(80, 24, b"a");
    screen.feed("\u{301}".repeat(1_000_000).as_bytes());
    screen.feed(b"\x1b[65535b");
    assert!(screen.text().chars().count() <= 33);
}

#[test]
fn a_string_without_end_is_bounded() {
    for start in ["\x1b]2;", "\x1bP$q", "\x1b_", "\x1b["] {
        let mut screen = shown(80, 24, start.as_bytes());
        for _ in 0..1000 {
            screen.feed(&[b'0'; 10_000]);
        }
        let kept = screen.keyframe().len();
        assert!(kept < 1000, "{start:?} keeps {kept} bytes");
        screen.feed(b"\x1b\\\x1b[Hok");
        assert_eq!(screen.text(), "ok");
        assert_eq!(screen.title(), None, "an endless title is no title");
    }
}

#[test]
fn a_title_and_its_stack_are_bounded() {
    let mut screen = shown(80, 24, b"");
    for n in 0..1000 {
        screen.feed(format!("\x1b]2;{n}{}\x07\x1b[22t", "x".repeat(60_000)).as_bytes());
    }
    assert!(screen.title().is_some_and(|title| title.len() <= 1024));
    assert!(screen.keyframe().len() < 32 * 1024);
}

#[test]
fn links_are_bounded() {
    let mut screen = shown(80, 24, b"");
    screen.feed(format!("\x1b]8;;{}\x07text", "u".repeat(100_000)).as_bytes());
    assert_eq!(screen.frame().rows[0].runs[0].style.link, None);
}

/// The cost of one sequence must not be chosen by a number in it: these took minutes.
#[test]
fn amplifiers_are_clamped() {
    let sequences: [&[u8]; 5] = [
        b"x\x1b[65535b",
        b"\x1b[3g\x1b[80G\x1b[65535Z",
        b"\x1b[65535I",
        b"\x1b[65535L",
        b"\x1b[65535S",
    ];
    for sequence in sequences {
        let mut screen = shown(80, 24, &sequence.repeat(2000));
        screen.feed(b"\x1bcdone");
        assert_eq!(screen.text(), "done");
    }
}

#[test]
fn a_repeat_longer_than_the_screen_keeps_its_place() {
    let mut screen = shown(7, 3, b"ab\x1b[65535b");
    // 65,537 characters on rows of 7: the last row holds 3.
    assert_eq!(screen.text(), "bbbbbbb\nbbbbbbb\nbbb");
    screen.feed(b"|");
    assert_eq!(screen.text(), "bbbbbbb\nbbbbbbb\nbbb|");
}

#[test]
fn invalid_bytes_are_replaced() {
    let screen = shown(20, 2, b"a\xff\xc3(\xe2\x82z\x80\xf0\x9f");
    assert_eq!(screen.text(), "a\u{fffd}\u{fffd}(\u{fffd}z");
}

#[test]
fn the_narrowest_screen_holds_a_wide_character() {
    let mut screen = shown(1, 1, "漢字\x1b[9999b".as_bytes());
    assert_eq!(screen.size(), size(2, 1));
    screen.resize(size(10, 3));
    screen.resize(size(1, 1));
    assert!(!screen.is_broken());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_break_a_screen(
        cols in 1u16..40, rows in 1u16..12,
        pieces in prop::collection::vec(
            prop_oneof![
                4 => prop::collection::vec(any::<u8>(), 0..200),
                4 => prop::collection::vec(prop::sample::select(b"\x1b[]P;:?0129hlmHJKrABCDLMPST@Xbu \r\n\t\x07\\e".to_vec()), 0..200),
                1 => "\\PC{0,40}".prop_map(String::into_bytes),
            ],
            0..12,
        ),
        sizes in prop::collection::vec((1u16..40, 1u16..12), 0..4),
    ) {
        let mut screen = shown(cols, rows, b"");
        for (at, piece) in pieces.iter().enumerate() {
            screen.feed(piece);
            if let Some(&(cols, rows)) = sizes.get(at) {
                screen.resize(size(cols, rows));
            }
            prop_assert!(!screen.is_broken());
        }
        let restored = Screen::restore(screen.size(), &screen.keyframe());
        prop_assert_eq!(restored.frame(), screen.frame());
        prop_assert_eq!(restored.text(), screen.text());
    }

    /// A keyframe comes from a file: nothing in it may do harm.
    #[test]
    fn a_damaged_keyframe_does_no_harm(at in 0usize..200, byte: u8, patch in "[ckspx]{0,2}[0-9a-f,;]{0,30}") {
        let mut keyframe = shown(20, 5, "漢\ttext\x1b[31m\x1b[2;4r\x1b7".as_bytes()).keyframe();
        let len = keyframe.len();
        keyframe[at % len] = byte;
        keyframe.extend_from_slice(format!("\x1b_greenroom;{patch}\x1b\\").as_bytes());
        let mut screen = Screen::restore(size(20, 5), &keyframe);
        screen.feed("more 漢字\r\n".repeat(20).as_bytes());
        prop_assert!(!screen.is_broken());
    }
}
