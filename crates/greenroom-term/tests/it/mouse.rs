//! Mouse, wheel and focus against the documented sequences of xterm.

use greenroom_term::{
    InputModes, Mods, MouseButton, MouseEncoding, MouseEvent, MouseKind, MouseMode,
    encode_alternate_scroll, encode_focus, encode_mouse,
};

use crate::keys::PLAIN;

fn event(kind: MouseKind) -> MouseEvent {
    MouseEvent { kind, mods: Mods::NONE, col: 4, row: 9, pixel: Some((40, 90)) }
}

pub fn mouse(mouse: MouseMode, mouse_encoding: MouseEncoding) -> InputModes {
    InputModes { mouse, mouse_encoding, ..PLAIN }
}

#[test]
fn each_mouse_mode_reports_its_events() {
    use MouseButton::{Left, WheelUp};
    let kinds = [
        MouseKind::Press(Left),
        MouseKind::Release(Left),
        MouseKind::Press(WheelUp),
        MouseKind::Release(WheelUp),
        MouseKind::Motion(Some(Left)),
        MouseKind::Motion(None),
    ];
    let table = [
        (MouseMode::Off, [false; 6]),
        (MouseMode::X10, [true, false, false, false, false, false]),
        (MouseMode::Normal, [true, true, true, false, false, false]),
        (MouseMode::Button, [true, true, true, false, true, false]),
        (MouseMode::Any, [true, true, true, false, true, true]),
    ];
    for (mode, expected) in table {
        let got = kinds
            .map(|kind| encode_mouse(&event(kind), &mouse(mode, MouseEncoding::Sgr)).is_some());
        assert_eq!(got, expected, "{mode:?}");
    }
}

#[test]
fn mouse_encodings() {
    use MouseButton::{Back, Left, Middle, Right, WheelDown, WheelUp};
    let check = |mode, encoding, kind, mods, expected: &[u8]| {
        let event = MouseEvent { mods, ..event(kind) };
        let got = encode_mouse(&event, &mouse(mode, encoding)).unwrap();
        assert_eq!(got, expected, "{kind:?} {encoding:?}");
    };
    let (any, none) = (MouseMode::Any, Mods::NONE);
    let all = Mods::SHIFT | Mods::ALT | Mods::CTRL;
    use MouseEncoding::{Legacy, Sgr, SgrPixels, Utf8};
    check(any, Legacy, MouseKind::Press(Left), none, b"\x1b[M %*");
    check(any, Legacy, MouseKind::Release(Right), none, b"\x1b[M#%*");
    check(any, Legacy, MouseKind::Press(WheelUp), none, b"\x1b[M`%*");
    check(any, Legacy, MouseKind::Press(Left), all, b"\x1b[M<%*");
    check(any, Legacy, MouseKind::Press(Back), none, &[0x1b, b'[', b'M', 160, 37, 42]);
    check(any, Utf8, MouseKind::Press(Back), none, "\x1b[M\u{a0}%*".as_bytes());
    check(any, Sgr, MouseKind::Press(Middle), none, b"\x1b[<1;5;10M");
    check(any, Sgr, MouseKind::Release(Middle), none, b"\x1b[<1;5;10m");
    check(any, Sgr, MouseKind::Press(WheelDown), Mods::CTRL, b"\x1b[<81;5;10M");
    check(any, Sgr, MouseKind::Motion(Some(Left)), none, b"\x1b[<32;5;10M");
    check(any, Sgr, MouseKind::Motion(None), none, b"\x1b[<35;5;10M");
    check(any, SgrPixels, MouseKind::Press(Left), none, b"\x1b[<0;41;91M");
    // X10 knows no modifiers.
    check(MouseMode::X10, Legacy, MouseKind::Press(Left), all, b"\x1b[M %*");
}

#[test]
fn mouse_positions_an_encoding_cannot_say_are_not_sent() {
    let at = |col, encoding| {
        let event = MouseEvent { col, pixel: None, ..event(MouseKind::Press(MouseButton::Left)) };
        encode_mouse(&event, &mouse(MouseMode::Normal, encoding))
    };
    assert_eq!(at(222, MouseEncoding::Legacy).unwrap(), [0x1b, b'[', b'M', 32, 255, 42]);
    assert_eq!(at(223, MouseEncoding::Legacy), None);
    assert_eq!(at(2014, MouseEncoding::Utf8).unwrap(), "\x1b[M \u{7ff}*".as_bytes());
    assert_eq!(at(2015, MouseEncoding::Utf8), None);
    assert_eq!(at(u16::MAX, MouseEncoding::Sgr).unwrap(), b"\x1b[<0;65536;10M");
    assert_eq!(at(4, MouseEncoding::SgrPixels), None);
}

#[test]
fn focus_is_told_only_when_asked() {
    let asked = InputModes { focus: true, ..PLAIN };
    assert_eq!(encode_focus(true, &asked).unwrap(), b"\x1b[I");
    assert_eq!(encode_focus(false, &asked).unwrap(), b"\x1b[O");
    assert_eq!(encode_focus(true, &PLAIN), None);
}

#[test]
fn wheel_becomes_cursor_keys_only_without_mouse_reports() {
    let modes = InputModes { alternate_scroll: true, app_cursor: true, ..PLAIN };
    assert_eq!(encode_alternate_scroll(true, &modes).unwrap(), b"\x1bOA\x1bOA\x1bOA");
    assert_eq!(encode_alternate_scroll(false, &PLAIN), None);
    let reported = InputModes { mouse: MouseMode::Normal, ..modes };
    assert_eq!(encode_alternate_scroll(true, &reported), None);
}
