//! Every question a program is known to wait for gets its answer.

use super::shown;

/// Asks an 80x24 screen.
fn check(question: &str, answer: &str) {
    let mut screen = shown(80, 24, question.as_bytes());
    let found = screen.take_replies();
    assert_eq!(String::from_utf8_lossy(&found), answer, "{question:?}");
    assert!(screen.take_replies().is_empty(), "an answer is given once");
}

#[test]
fn device_attributes() {
    check("\x1b[c", "\x1b[?62;22;52c");
    check("\x1b[0c", "\x1b[?62;22;52c");
    check("\x1bZ", "\x1b[?62;22;52c");
    check("\x1b[>c", "\x1b[>0;2600;1c");
    check("\x1b[>0c", "\x1b[>0;2600;1c");
    check("\x1b[=c", "\x1bP!|47524D31\x1b\\");
    check("\x1b[>q", concat!("\x1bP>|greenroom ", env!("CARGO_PKG_VERSION"), "\x1b\\"));
    check("\x1b[>0q", concat!("\x1bP>|greenroom ", env!("CARGO_PKG_VERSION"), "\x1b\\"));
    check("\x1b[0x", "\x1b[2;1;1;128;128;1;0x");
}

#[test]
fn device_status() {
    check("\x1b[5n", "\x1b[0n");
    check("\x1b[7;11H\x1b[6n", "\x1b[7;11R");
    check("\x1b[7;11H\x1b[?6n", "\x1b[?7;11R");
    check("\x1b[?15n", "\x1b[?13n");
    check("\x1b[?26n", "\x1b[?27;1;0;0n");
    check("\x1b[?996n", "\x1b[?997;1n");
}

#[test]
fn modes_are_reported_truthfully() {
    for (mode, at_first) in [
        (1, 2),
        (6, 2),
        (7, 1),
        (9, 2),
        (12, 2),
        (25, 1),
        (47, 2),
        (66, 2),
        (67, 2),
        (1000, 2),
        (1002, 2),
        (1003, 2),
        (1004, 2),
        (1005, 2),
        (1006, 2),
        (1007, 1),
        (1016, 2),
        (1042, 1),
        (1047, 2),
        (1049, 2),
        (2004, 2),
        (2026, 2),
    ] {
        check(&format!("\x1b[?{mode}$p"), &format!("\x1b[?{mode};{at_first}$y"));
        check(&format!("\x1b[?{mode}h\x1b[?{mode}$p"), &format!("\x1b[?{mode};1$y"));
        check(&format!("\x1b[?{mode}l\x1b[?{mode}$p"), &format!("\x1b[?{mode};2$y"));
    }
    check("\x1b[?4711$p", "\x1b[?4711;0$y");
    for mode in [4, 20] {
        check(&format!("\x1b[{mode}$p"), &format!("\x1b[{mode};2$y"));
        check(&format!("\x1b[{mode}h\x1b[{mode}$p"), &format!("\x1b[{mode};1$y"));
    }
    check("\x1b[3$p", "\x1b[3;0$y");
}

#[test]
fn colours() {
    check("\x1b]10;?\x1b\\", "\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\");
    check("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07");
    check("\x1b]12;?\x07", "\x1b]12;rgb:e5e5/e5e5/e5e5\x07");
    check("\x1b]4;196;?\x07", "\x1b]4;196;rgb:ffff/0000/0000\x07");
    check("\x1b]4;1;#102030\x07\x1b]4;1;?\x07", "\x1b]4;1;rgb:1010/2020/3030\x07");
    check("\x1b]11;#fff\x07\x1b]111\x07\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07");
    check("\x1b]10;?;?\x07", "\x1b]10;rgb:e5e5/e5e5/e5e5\x07\x1b]11;rgb:0000/0000/0000\x07");
}

#[test]
fn keyboard_flags() {
    check("\x1b[?u", "\x1b[?0u");
    check("\x1b[>5u\x1b[?u", "\x1b[?5u");
    check("\x1b[=3u\x1b[?u", "\x1b[?3u");
    check("\x1b[=1u\x1b[=2;2u\x1b[?u", "\x1b[?3u");
    check("\x1b[=7u\x1b[=2;3u\x1b[?u", "\x1b[?5u");
    check("\x1b[>1u\x1b[>2u\x1b[<u\x1b[?u", "\x1b[?1u");
    // Each screen has its own.
    check("\x1b[>1u\x1b[?1049h\x1b[?u\x1b[>4u\x1b[?1049l\x1b[?u", "\x1b[?0u\x1b[?1u");
    check("\x1b[>4;2m\x1b[?4m", "\x1b[>4;2m");
}

#[test]
fn settings() {
    check("\x1bP$qm\x1b\\", "\x1bP1$r0m\x1b\\");
    check("\x1b[1;4:3;31;48;5;7m\x1bP$qm\x1b\\", "\x1bP1$r0;1;4:3;31;48;5;7m\x1b\\");
    check("\x1b[38;2;1;2;3;97;58;5;9m\x1bP$qm\x1b\\", "\x1bP1$r0;97;58;5;9m\x1b\\");
    check("\x1bP$qr\x1b\\", "\x1bP1$r1;24r\x1b\\");
    check("\x1b[3;9r\x1bP$qr\x1b\\", "\x1bP1$r3;9r\x1b\\");
    check("\x1bP$q q\x1b\\", "\x1bP1$r0 q\x1b\\");
    for style in 1..=6 {
        check(&format!("\x1b[{style} q\x1bP$q q\x1b\\"), &format!("\x1bP1$r{style} q\x1b\\"));
    }
    check("\x1bP$q\"p\x1b\\", "\x1bP1$r62;1\"p\x1b\\");
    check("\x1bP$qnonsense\x1b\\", "\x1bP0$r\x1b\\");
}

#[test]
fn capabilities() {
    // "TN" and "Co"
    check("\x1bP+q544e\x1b\\", "\x1bP1+r544e=787465726D2D323536636F6C6F72\x1b\\");
    check("\x1bP+q436F\x1b\\", "\x1bP1+r436F=323536\x1b\\");
    // "zz", then something that is not hex: nothing of it is echoed
    check("\x1bP+q7a7a;x\n\x1b\\", "\x1bP0+r7a7a\x1b\\\x1bP0+r\x1b\\");
}

#[test]
fn window() {
    check("\x1b[14t", "\x1b[4;384;640t");
    check("\x1b[16t", "\x1b[6;16;8t");
    check("\x1b[18t", "\x1b[8;24;80t");
    check("\x1b[19t", "\x1b[9;24;80t");
    check("\x1b[11t", "\x1b[1t");
    check("\x1b[13t", "\x1b[3;0;0t");
    // A title is never told back: it would be typed into the program.
    check("\x1b]2;evil\r\x07\x1b[21t\x1b[20t", "\x1b]l\x1b\\\x1b]L\x1b\\");
}

#[test]
fn a_clipboard_is_never_told() {
    check("\x1b]52;c;?\x07", "");
}

#[test]
fn an_answer_does_not_depend_on_how_the_question_is_cut() {
    let questions =
        b"\x1b[c\x1b[>q\x1bP$qm\x1b\\\x1b]11;?\x1b\\\x1b[?2026$p\x1b[6n\x1bP+q544e\x1b\\";
    let whole = shown(80, 24, questions).take_replies();
    let mut screen = shown(80, 24, b"");
    for byte in questions {
        screen.feed(&[*byte]);
    }
    assert_eq!(screen.take_replies(), whole);
}

#[test]
fn questions_without_end_do_not_fill_memory() {
    let mut screen = shown(80, 24, &b"\x1b[c".repeat(100_000));
    assert!(screen.take_replies().len() <= 64 * 1024);
    screen.feed(b"\x1b[5n");
    assert_eq!(screen.take_replies(), b"\x1b[0n", "it answers again once somebody reads");
}
