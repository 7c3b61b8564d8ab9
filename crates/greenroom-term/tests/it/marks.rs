//! What programs say beside their picture.

use greenroom_term::Mark;

use super::shown;

fn check(output: &str, expected: &[Mark]) {
    assert_eq!(shown(80, 24, output.as_bytes()).take_marks(), expected, "{output:?}");
}

#[test]
fn strings_become_marks_in_order() {
    check(
        "\x07\x07\x1b]0;one\x07\x1b]2;two\x1b\\\x07\x1b]7;file://h/tmp\x07",
        &[
            Mark::Bell,
            Mark::Title("one".into()),
            Mark::Title("two".into()),
            Mark::Bell,
            Mark::Cwd("/tmp".into()),
        ],
    );
    check("\x1b]9;4;1;50\x07", &[Mark::Progress { state: 1, percent: Some(50) }]);
    check("\x1b]9;hello\x07", &[Mark::Notify { title: None, body: "hello".into() }]);
    check(
        "\x1b]777;notify;t;b\x1b\\",
        &[Mark::Notify { title: Some("t".into()), body: "b".into() }],
    );
    check(
        "\x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07x\r\n\x1b]133;D;2\x07",
        &[
            Mark::PromptStart,
            Mark::PromptEnd,
            Mark::CommandStart,
            Mark::CommandEnd { exit: Some(2) },
        ],
    );
    check(
        "\x1b]52;c;aGVsbG8=\x07",
        &[Mark::Clipboard { selection: "c".into(), data: b"hello".into() }],
    );
    check("\x1b]52;c;?\x07", &[]);
}

#[test]
fn a_title_comes_back_from_the_stack() {
    let mut screen = shown(80, 24, b"\x1b]2;shell\x07\x1b[22;0;0t\x1b]2;vim\x07");
    assert_eq!(screen.title(), Some("vim"));
    screen.take_marks();
    screen.feed(b"\x1b[23;0;0t");
    assert_eq!(screen.title(), Some("shell"));
    assert_eq!(screen.take_marks(), [Mark::Title("shell".into())]);
}

#[test]
fn skipped_text_still_rings_and_names() {
    let mut flood = b"line of a log\r\n".repeat(4000);
    flood.splice(300..300, *b"\x07");
    flood.splice(600..600, *b"\x1b]2;building\x07");
    let mut screen = shown(80, 24, &flood);
    assert_eq!(screen.take_marks(), [Mark::Bell, Mark::Title("building".into())]);
}

#[test]
fn hyperlinks_are_in_the_frame() {
    let screen = shown(80, 24, b"see \x1b]8;;https://example.org/a;b\x1b\\here\x1b]8;;\x1b\\.");
    let runs = &screen.frame().rows[0].runs;
    let links: Vec<_> = runs.iter().map(|run| (&*run.text, run.style.link.as_deref())).collect();
    assert_eq!(links, [("see ", None), ("here", Some("https://example.org/a;b")), (".", None)]);
}
