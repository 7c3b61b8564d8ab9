//! Frames, text, modes, history, size.

use greenroom_term::{Color, CursorShape, MouseEncoding, MouseMode, Screen, Style, Underline};

use super::{shown, size};

#[test]
fn a_screen_may_move_between_threads() {
    fn check<T: Send>() {}
    check::<Screen>();
}

#[test]
fn text_leaves_blanks_at_the_ends_out() {
    assert_eq!(shown(10, 4, b"").text(), "");
    assert_eq!(shown(10, 4, b"a  \r\n\r\n  b\r\n").text(), "a\n\n  b");
    assert_eq!(shown(10, 4, b"a\tb").text(), "a       b");
    assert_eq!(shown(10, 4, "漢字 e\u{301}".as_bytes()).text(), "漢字 e\u{301}");
}

#[test]
fn a_frame_has_runs_of_one_style() {
    let screen = shown(20, 3, "ab\x1b[1;31mred漢\x1b[0m  \x1b[44m \x1b[0m".as_bytes());
    let frame = screen.frame();
    let row: Vec<_> =
        frame.rows[0].runs.iter().map(|run| (run.col, run.width, run.text.as_str())).collect();
    assert_eq!(row, [(0, 2, "ab"), (2, 5, "red漢"), (7, 2, "  "), (9, 1, " ")]);
    let red = Style { fg: Color::Indexed(1), bold: true, ..Style::default() };
    assert_eq!(frame.rows[0].runs[1].style, red);
    assert_eq!(frame.rows[0].runs[3].style.bg, Color::Indexed(4));
    assert!(frame.rows[1].runs.is_empty());
    assert_eq!(frame.rows[0].text(), "abred漢");
}

#[test]
fn every_attribute_is_told() {
    let screen = shown(20, 3, b"\x1b[2;3;4:3;7;8;9;38;2;1;2;3;48;5;200mx");
    let expected = Style {
        fg: Color::Rgb(1, 2, 3),
        bg: Color::Indexed(200),
        dim: true,
        italic: true,
        underline: Underline::Curly,
        inverse: true,
        hidden: true,
        strike: true,
        ..Style::default()
    };
    assert_eq!(screen.frame().rows[0].runs[0].style, expected);
}

#[test]
fn cursor_and_its_shape() {
    let mut screen = shown(20, 5, b"\x1b[3;4H");
    let cursor = screen.cursor();
    assert_eq!((cursor.row, cursor.col, cursor.visible), (2, 3, true));
    assert_eq!(cursor.shape, CursorShape::Block);
    screen.feed(b"\x1b[6 q\x1b[?25l");
    assert_eq!((screen.cursor().visible, screen.cursor().shape), (false, CursorShape::Bar));
    screen.feed(b"\x1b[3 q");
    assert_eq!(screen.cursor().shape, CursorShape::Underline);
}

#[test]
fn wrapped_rows_say_so() {
    let screen = shown(5, 3, b"1234567\r\nx");
    let wrapped: Vec<_> = screen.frame().rows.iter().map(|row| row.wrapped).collect();
    assert_eq!(wrapped, [true, false, false]);
}

#[test]
fn a_resize_wraps_anew() {
    let mut screen = shown(10, 4, b"0123456789abc\r\n$ ");
    screen.resize(size(5, 4));
    assert_eq!(screen.text(), "01234\n56789\nabc\n$");
    screen.resize(size(20, 4));
    assert_eq!(screen.text(), "0123456789abc\n$");
    assert_eq!(screen.size(), size(20, 4));
    assert_eq!((screen.cursor().row, screen.cursor().col), (1, 2));
}

#[test]
fn a_resize_to_the_same_size_is_none() {
    let mut screen = shown(10, 4, b"1\r\n2\r\n3\r\n4\x1b[3;4r");
    let before = (screen.frame(), screen.visible_changes());
    screen.resize(size(10, 4));
    assert_eq!((screen.frame(), screen.visible_changes()), before);
    screen.feed(b"\x1b[4;1H\nx");
    assert_eq!(screen.text(), "1\n2\n4\nx", "the scroll region is still there");
}

#[test]
fn a_resize_on_the_alternate_screen_keeps_the_primary() {
    let mut screen = shown(10, 4, b"0123456789abc\r\n$ \x1b[?1049h\x1b[Hfull screen");
    assert!(screen.alternate());
    screen.resize(size(5, 4));
    screen.resize(size(20, 6));
    screen.feed(b"\x1b[?1049l");
    assert!(!screen.alternate());
    assert_eq!(screen.text(), "0123456789abc\n$");
}

#[test]
fn the_alternate_screen_starts_blank_each_time() {
    let mut screen = shown(10, 3, b"shell\x1b[?1049h\x1b[Hvim");
    assert_eq!(screen.text(), "vim");
    screen.feed(b"\x1b[?1049l");
    assert_eq!(screen.text(), "shell");
    screen.feed(b"\x1b[?1049h");
    assert_eq!(screen.text(), "");
}

#[test]
fn synchronized_output_raises_a_flag() {
    let mut screen = shown(10, 3, b"\x1b[?2026hhalf");
    assert!(screen.in_sync_update());
    assert_eq!(screen.text(), "half", "bytes take effect at once; readers look at the flag");
    screen.feed(b" a frame\x1b[?2026l");
    assert!(!screen.in_sync_update());
}

#[test]
fn only_visible_things_count_as_changes() {
    let mut screen = shown(20, 3, b"hello");
    for quiet in
        [&b"\x1b[c"[..], b"\x07", b"\x1b]9;note\x07", b"\x1b[?u", b"\x1b[1m", b"", b"\x1b["]
    {
        let before = screen.visible_changes();
        screen.feed(quiet);
        assert_eq!(screen.visible_changes(), before, "{}", quiet.escape_ascii());
    }
    screen.feed(b"1m");
    for loud in
        [&b"x"[..], b"\r", b"\x1b[A", b"\x1b]2;t\x07", b"\x1b[?25l", b"\x1b[2J", "é".as_bytes()]
    {
        let before = screen.visible_changes();
        screen.feed(loud);
        assert!(screen.visible_changes() > before, "{}", loud.escape_ascii());
    }
}

#[test]
fn modes_for_the_key_encoder() {
    let mut screen = shown(20, 3, b"");
    assert!(screen.input_modes().alternate_scroll);
    screen.feed(
        b"\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[>3u\x1b[>4;1m\x1b[?1002h\x1b[?1006h\x1b[?67h",
    );
    let modes = screen.input_modes();
    assert!(modes.app_cursor && modes.app_keypad && modes.bracketed_paste && modes.focus);
    assert!(modes.backarrow);
    assert_eq!((modes.kitty_flags, modes.modify_other_keys), (3, 1));
    assert_eq!((modes.mouse, modes.mouse_encoding), (MouseMode::Button, MouseEncoding::Sgr));
    screen.feed(b"\x1bc");
    assert_eq!(screen.input_modes(), shown(20, 3, b"").input_modes());
}

#[test]
fn history_is_kept_when_asked_for() {
    let mut screen = Screen::with_history(size(20, 3), 100);
    for n in 0..50 {
        screen.feed(format!("line {n}\r\n").as_bytes());
    }
    assert_eq!(screen.text(), "line 48\nline 49");
    assert_eq!(screen.history_len(), 48);
    let rows: Vec<_> = screen.history(46, 10).iter().map(|row| row.text()).collect();
    assert_eq!(rows, ["line 46", "line 47"]);
    screen.feed(b"\x1b[?1049h");
    assert_eq!(screen.history(0, 1)[0].text(), "line 0", "the alternate screen hides none of it");
    for n in 0..500 {
        screen.feed(format!("\x1b[?1049lline {n}\r\n").as_bytes());
    }
    assert_eq!(screen.history_len(), 100);
}

#[test]
fn a_live_screen_keeps_no_history() {
    let screen = shown(20, 3, &b"line\r\n".repeat(10_000));
    assert_eq!(screen.history_len(), 0);
    assert_eq!(screen.text(), "line\nline");
}

#[test]
fn a_flood_in_one_batch_equals_the_same_in_small_reads() {
    let mut flood = Vec::new();
    for n in 0..5000u32 {
        flood.extend(
            format!("\x1b[3{}m{n:>6}\x1b[0m some words é漢 {n}\x1b[K\r\n", n % 8).into_bytes(),
        );
    }
    let batch = shown(80, 24, &flood);
    let mut small = shown(80, 24, b"");
    for read in flood.chunks(1000) {
        small.feed(read);
    }
    assert_eq!(batch.frame(), small.frame());
    assert_eq!(batch.keyframe(), small.keyframe());
}
