//! Keys and pastes against the documented sequences of xterm and kitty.

use greenroom_term::{
    InputModes, Key, KeyError, KeyPress, Keypad, Mods, MouseEncoding, MouseMode, Screen, Size,
    encode_key, encode_paste,
};
use proptest::prelude::*;

use crate::mouse::mouse;

pub const PLAIN: InputModes = InputModes {
    app_cursor: false,
    app_keypad: false,
    bracketed_paste: false,
    focus: false,
    kitty_flags: 0,
    modify_other_keys: 0,
    mouse: MouseMode::Off,
    mouse_encoding: MouseEncoding::Legacy,
    alternate_scroll: false,
    backarrow: false,
};

fn kitty(kitty_flags: u8) -> InputModes {
    InputModes { kitty_flags, ..PLAIN }
}

fn other_keys(modify_other_keys: u8) -> InputModes {
    InputModes { modify_other_keys, ..PLAIN }
}

fn press(name: &str) -> KeyPress {
    name.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Every `name => bytes` pair, with the failing name in the message.
fn check(modes: InputModes, table: &[(&str, &str)]) {
    for (name, expected) in table {
        let bytes = encode_key(&press(name), &modes);
        let got = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(got, *expected, "{name} in {modes:?}");
    }
}

#[test]
fn xterm_keys_without_modes() {
    check(
        PLAIN,
        &[
            ("a", "a"),
            ("A", "A"),
            ("é", "é"),
            ("世", "世"),
            ("space", " "),
            ("shift-1", "!"),
            ("enter", "\r"),
            ("shift-enter", "\r"),
            ("ctrl-enter", "\r"),
            ("alt-enter", "\x1b\r"),
            ("tab", "\t"),
            ("shift-tab", "\x1b[Z"),
            ("alt-shift-tab", "\x1b\x1b[Z"),
            ("escape", "\x1b"),
            ("alt-escape", "\x1b\x1b"),
            ("backspace", "\x7f"),
            ("ctrl-backspace", "\x08"),
            ("alt-backspace", "\x1b\x7f"),
            ("up", "\x1b[A"),
            ("down", "\x1b[B"),
            ("right", "\x1b[C"),
            ("left", "\x1b[D"),
            ("home", "\x1b[H"),
            ("end", "\x1b[F"),
            ("insert", "\x1b[2~"),
            ("delete", "\x1b[3~"),
            ("page_up", "\x1b[5~"),
            ("page_down", "\x1b[6~"),
            ("kp_begin", "\x1b[E"),
        ],
    );
}

#[test]
fn xterm_function_keys() {
    check(
        PLAIN,
        &[
            ("f1", "\x1bOP"),
            ("f2", "\x1bOQ"),
            ("f3", "\x1bOR"),
            ("f4", "\x1bOS"),
            ("f5", "\x1b[15~"),
            ("f6", "\x1b[17~"),
            ("f7", "\x1b[18~"),
            ("f8", "\x1b[19~"),
            ("f9", "\x1b[20~"),
            ("f10", "\x1b[21~"),
            ("f11", "\x1b[23~"),
            ("f12", "\x1b[24~"),
            ("f13", "\x1b[25~"),
            ("f14", "\x1b[26~"),
            ("f15", "\x1b[28~"),
            ("f16", "\x1b[29~"),
            ("f17", "\x1b[31~"),
            ("f18", "\x1b[32~"),
            ("f19", "\x1b[33~"),
            ("f20", "\x1b[34~"),
            ("f21", "\x1b[42~"),
            ("f24", "\x1b[45~"),
            ("shift-f1", "\x1b[1;2P"),
            ("ctrl-alt-f4", "\x1b[1;7S"),
            ("ctrl-f5", "\x1b[15;5~"),
        ],
    );
}

#[test]
fn xterm_modifier_numbers() {
    check(
        PLAIN,
        &[
            ("shift-up", "\x1b[1;2A"),
            ("alt-up", "\x1b[1;3A"),
            ("alt-shift-up", "\x1b[1;4A"),
            ("ctrl-up", "\x1b[1;5A"),
            ("ctrl-shift-up", "\x1b[1;6A"),
            ("ctrl-alt-up", "\x1b[1;7A"),
            ("ctrl-alt-shift-up", "\x1b[1;8A"),
            ("super-up", "\x1b[1;9A"),
            ("hyper-up", "\x1b[1;17A"),
            ("ctrl-alt-del", "\x1b[3;7~"),
            ("shift-page_up", "\x1b[5;2~"),
            // A modified key never uses SS3.
            ("ctrl-home", "\x1b[1;5H"),
        ],
    );
}

#[test]
fn control_characters() {
    check(
        PLAIN,
        &[
            ("ctrl-a", "\x01"),
            ("ctrl-c", "\x03"),
            ("Ctrl-C", "\x03"),
            ("ctrl-shift-c", "\x03"),
            ("ctrl-z", "\x1a"),
            ("ctrl-space", "\0"),
            ("ctrl-@", "\0"),
            ("ctrl-2", "\0"),
            ("ctrl-[", "\x1b"),
            ("ctrl-3", "\x1b"),
            ("ctrl-\\", "\x1c"),
            ("ctrl-]", "\x1d"),
            ("ctrl-^", "\x1e"),
            ("ctrl-_", "\x1f"),
            ("ctrl-/", "\x1f"),
            ("ctrl-?", "\x7f"),
            ("ctrl-8", "\x7f"),
            ("ctrl-1", "1"),
            ("ctrl-;", ";"),
            ("ctrl-alt-c", "\x1b\x03"),
            ("alt-x", "\x1bx"),
            ("alt-X", "\x1bX"),
            ("alt-[", "\x1b["),
            // No old encoding can say these.
            ("super-a", "\x1b[97;9u"),
            ("menu", "\x1b[57363u"),
        ],
    );
}

#[test]
fn application_cursor_keys() {
    let modes = InputModes { app_cursor: true, ..PLAIN };
    check(
        modes,
        &[
            ("up", "\x1bOA"),
            ("down", "\x1bOB"),
            ("right", "\x1bOC"),
            ("left", "\x1bOD"),
            ("home", "\x1bOH"),
            ("end", "\x1bOF"),
            ("kp_begin", "\x1bOE"),
            ("ctrl-up", "\x1b[1;5A"),
            ("delete", "\x1b[3~"),
            ("page_up", "\x1b[5~"),
        ],
    );
    // With disambiguation the application form is gone.
    check(InputModes { kitty_flags: 1, ..modes }, &[("up", "\x1b[A"), ("home", "\x1b[H")]);
    check(InputModes { kitty_flags: 2, ..modes }, &[("up", "\x1b[A"), ("escape", "\x1b")]);
}

#[test]
fn keypad_in_both_modes() {
    check(
        PLAIN,
        &[("kp_0", "0"), ("kp_9", "9"), ("kp_enter", "\r"), ("kp_add", "+"), ("kp_decimal", ".")],
    );
    check(
        InputModes { app_keypad: true, ..PLAIN },
        &[
            ("kp_0", "\x1bOp"),
            ("kp_1", "\x1bOq"),
            ("kp_9", "\x1bOy"),
            ("kp_enter", "\x1bOM"),
            ("kp_add", "\x1bOk"),
            ("kp_subtract", "\x1bOm"),
            ("kp_multiply", "\x1bOj"),
            ("kp_divide", "\x1bOo"),
            ("kp_decimal", "\x1bOn"),
            ("kp_separator", "\x1bOl"),
            ("kp_equal", "\x1bOX"),
            ("ctrl-kp_add", "\x1bO5k"),
            ("1", "1"),
            ("enter", "\r"),
        ],
    );
}

#[test]
fn backarrow_mode_swaps_backspace() {
    check(
        InputModes { backarrow: true, ..PLAIN },
        &[("backspace", "\x08"), ("ctrl-backspace", "\x7f"), ("alt-backspace", "\x1b\x08")],
    );
}

#[test]
fn modify_other_keys_one_keeps_what_always_worked() {
    check(
        other_keys(1),
        &[
            ("a", "a"),
            ("A", "A"),
            ("ctrl-a", "\x01"),
            ("ctrl-i", "\t"),
            ("alt-x", "\x1bx"),
            ("ctrl-space", "\0"),
            ("ctrl-_", "\x1f"),
            ("backspace", "\x7f"),
            ("ctrl-backspace", "\x08"),
            ("shift-tab", "\x1b[Z"),
            ("enter", "\r"),
            ("escape", "\x1b"),
            ("shift-enter", "\x1b[27;2;13~"),
            ("ctrl-enter", "\x1b[27;5;13~"),
            ("ctrl-tab", "\x1b[27;5;9~"),
            ("ctrl-;", "\x1b[27;5;59~"),
            ("ctrl-1", "\x1b[27;5;49~"),
            ("ctrl-shift-a", "\x1b[27;6;65~"),
            ("ctrl-alt-;", "\x1b[27;7;59~"),
            ("ctrl-up", "\x1b[1;5A"),
        ],
    );
}

#[test]
fn modify_other_keys_two_reports_every_modified_key() {
    check(
        other_keys(2),
        &[
            ("a", "a"),
            ("A", "A"),
            ("shift-1", "!"),
            ("shift-space", "\x1b[27;2;32~"),
            ("ctrl-a", "\x1b[27;5;97~"),
            ("ctrl-i", "\x1b[27;5;105~"),
            ("alt-x", "\x1b[27;3;120~"),
            ("ctrl-space", "\x1b[27;5;32~"),
            ("shift-enter", "\x1b[27;2;13~"),
            ("alt-enter", "\x1b[27;3;13~"),
            ("shift-tab", "\x1b[Z"),
            ("ctrl-shift-tab", "\x1b[27;6;9~"),
            ("ctrl-backspace", "\x08"),
            ("shift-backspace", "\x1b[27;2;127~"),
            ("shift-escape", "\x1b[27;2;27~"),
            ("f1", "\x1bOP"),
        ],
    );
}

#[test]
fn kitty_disambiguates() {
    check(
        kitty(1),
        &[
            ("a", "a"),
            ("A", "A"),
            ("shift-1", "!"),
            ("é", "é"),
            ("enter", "\r"),
            ("tab", "\t"),
            ("backspace", "\x7f"),
            ("escape", "\x1b[27u"),
            ("shift-enter", "\x1b[13;2u"),
            ("ctrl-enter", "\x1b[13;5u"),
            ("alt-enter", "\x1b[13;3u"),
            ("shift-tab", "\x1b[9;2u"),
            ("ctrl-backspace", "\x1b[127;5u"),
            ("ctrl-c", "\x1b[99;5u"),
            ("ctrl-shift-c", "\x1b[99;6u"),
            ("ctrl-i", "\x1b[105;5u"),
            ("alt-x", "\x1b[120;3u"),
            ("alt-X", "\x1b[120;4u"),
            ("ctrl-space", "\x1b[32;5u"),
            ("ctrl-plus", "\x1b[61;6u"),
            ("super-a", "\x1b[97;9u"),
            ("hyper-a", "\x1b[97;17u"),
            ("up", "\x1b[A"),
            ("ctrl-up", "\x1b[1;5A"),
            ("f1", "\x1b[P"),
            ("f2", "\x1b[Q"),
            ("f3", "\x1b[13~"),
            ("shift-f3", "\x1b[13;2~"),
            ("f4", "\x1b[S"),
            ("ctrl-f4", "\x1b[1;5S"),
            ("f5", "\x1b[15~"),
            ("f12", "\x1b[24~"),
            ("f13", "\x1b[57376u"),
            ("f24", "\x1b[57387u"),
            ("insert", "\x1b[2~"),
            ("ctrl-delete", "\x1b[3;5~"),
            ("kp_0", "\x1b[57399u"),
            ("kp_9", "\x1b[57408u"),
            ("kp_decimal", "\x1b[57409u"),
            ("kp_enter", "\x1b[57414u"),
            ("kp_begin", "\x1b[E"),
            ("caps_lock", "\x1b[57358u"),
            ("menu", "\x1b[57363u"),
        ],
    );
}

#[test]
fn kitty_reports_all_keys_alternates_and_text() {
    check(
        kitty(8),
        &[
            ("a", "\x1b[97u"),
            ("A", "\x1b[97;2u"),
            ("enter", "\x1b[13u"),
            ("tab", "\x1b[9u"),
            ("backspace", "\x1b[127u"),
            ("escape", "\x1b[27u"),
            ("space", "\x1b[32u"),
            ("up", "\x1b[A"),
        ],
    );
    check(kitty(8 | 4), &[("a", "\x1b[97u"), ("A", "\x1b[97:65;2u"), ("!", "\x1b[49:33;2u")]);
    check(kitty(1 | 4), &[("ctrl-shift-a", "\x1b[97:65;6u"), ("ctrl-a", "\x1b[97;5u"), ("A", "A")]);
    check(
        kitty(31),
        &[
            ("a", "\x1b[97;;97u"),
            ("A", "\x1b[97:65;2;65u"),
            ("ctrl-a", "\x1b[97;5u"),
            ("enter", "\x1b[13u"),
            ("kp_1", "\x1b[57400;;49u"),
            ("kp_enter", "\x1b[57414u"),
        ],
    );
    // Text is only reported together with all keys, and a press never says that it is one.
    check(kitty(1 | 2 | 16), &[("a", "a"), ("ctrl-a", "\x1b[97;5u")]);
    // Kitty's protocol wins over the other.
    check(InputModes { modify_other_keys: 2, ..kitty(1) }, &[("ctrl-a", "\x1b[97;5u")]);
}

#[test]
fn every_spelling_of_a_key() {
    let table: &[(&[&str], KeyPress)] = &[
        (
            &["ctrl-c", "C-c", "ctrl_c", "Ctrl+C", "control-c", "^c", "^C", "c-c", "\u{3}"],
            KeyPress::new(Key::Char('c'), Mods::CTRL),
        ),
        (&["shift-enter", "S-Enter", "shift_return"], KeyPress::new(Key::Enter, Mods::SHIFT)),
        (
            &["alt-x", "M-x", "meta-x", "A-x", "opt-x", "option_x"],
            KeyPress::new(Key::Char('x'), Mods::ALT),
        ),
        (
            &["alt-X", "alt-shift-x", "M-S-x"],
            KeyPress::new(Key::Char('x'), Mods::ALT | Mods::SHIFT),
        ),
        (&["page_up", "pageup", "pgup", "PageUp", "page-up", "PPage"], Key::PageUp.into()),
        (&["shift_tab", "backtab", "S-Tab"], KeyPress::new(Key::Tab, Mods::SHIFT)),
        (&["ctrl-space", "C-Space", "ctrl_space", "^ "], KeyPress::new(Key::Char(' '), Mods::CTRL)),
        (&["ctrl--", "ctrl-minus", "C--"], KeyPress::new(Key::Char('-'), Mods::CTRL)),
        (&["ctrl-+", "ctrl++", "ctrl-plus"], KeyPress::new(Key::Char('+'), Mods::CTRL)),
        (&["ctrl-\\", "ctrl_backslash"], KeyPress::new(Key::Char('\\'), Mods::CTRL)),
        (&["ctrl-alt-del", "C-M-DC"], KeyPress::new(Key::Delete, Mods::CTRL | Mods::ALT)),
        (&["cmd-k", "win-k", "super+k"], KeyPress::new(Key::Char('k'), Mods::SUPER)),
        (&["-"], Key::Char('-').into()),
        (&["+", "plus"], Key::Char('+').into()),
        (&["^"], Key::Char('^').into()),
        (&["A", "shift-a"], KeyPress::new(Key::Char('A'), Mods::NONE)),
        (&["É"], KeyPress::new(Key::Char('é'), Mods::SHIFT)),
        (&["esc", "escape", "Escape", "\u{1b}"], Key::Escape.into()),
        (&["\r", "\n", "enter"], Key::Enter.into()),
        (&["kp_5", "kp5", "KP-5"], Key::Keypad(Keypad::Digit(5)).into()),
        (&["f24", "F24"], Key::F(24).into()),
    ];
    for (names, expected) in table {
        for name in *names {
            assert_eq!(press(name), *expected, "{name:?}");
        }
    }
}

#[test]
fn every_key_of_ptywright_is_known() {
    let mut names: Vec<String> = "enter escape tab shift_tab backspace delete space up down left \
        right home end page_up page_down insert"
        .split_whitespace()
        .map(String::from)
        .collect();
    names.extend(('a'..='z').map(|c| format!("ctrl_{c}")));
    names.extend((1..=12).map(|n| format!("f{n}")));
    for name in names {
        assert!(!encode_key(&press(&name), &PLAIN).is_empty(), "{name}");
    }
}

#[test]
fn wrong_names_say_what_is_near() {
    let check = |name: &str, message: &str| {
        assert_eq!(name.parse::<KeyPress>().unwrap_err().to_string(), message);
    };
    check("pgupp", r#"unknown key "pgupp" (did you mean "pgup"?)"#);
    check("ctrl-entr", r#"unknown key "ctrl-entr" (did you mean "ctrl-enter"?)"#);
    check("escpae", r#"unknown key "escpae" (did you mean "escape"?)"#);
    check("f25", r#"unknown key "f25" (did you mean "f2"?)"#);
    check("hello world", r#"unknown key "hello world""#);
    check("", "a key name is empty");
    check("ctrl-", r#"cannot read key "ctrl-": it names modifiers but no key"#);
    check("\u{9b}", r#"cannot read key "\u{9b}": the control character U+009B is no key"#);
    let long = "x".repeat(100_000);
    let error = long.parse::<KeyPress>().unwrap_err();
    assert!(matches!(&error, KeyError::Unknown { nearest: None, .. }));
    assert!(error.to_string().len() < 80);
}

#[test]
fn names_are_unique_and_readable() {
    let names: Vec<&str> = Key::names().collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len());
    for name in names {
        assert_eq!(press(name).to_string(), name);
        assert!(!encode_key(&press(name), &PLAIN).is_empty(), "{name}");
    }
}

#[test]
fn keys_that_do_not_exist_send_nothing() {
    for key in [Key::F(0), Key::F(25), Key::F(255), Key::Keypad(Keypad::Digit(10))] {
        for modes in [PLAIN, kitty(1), other_keys(2)] {
            assert_eq!(encode_key(&key.into(), &modes), b"", "{key:?}");
        }
    }
}

#[test]
fn plain_paste_sends_returns() {
    assert_eq!(encode_paste("a\r\nb\nc\rd", &PLAIN), b"a\rb\rc\rd");
}

#[test]
fn bracketed_paste_cannot_be_left() {
    let modes = InputModes { bracketed_paste: true, ..PLAIN };
    let check = |text: &str, kept: &str| {
        let expected = format!("\x1b[200~{kept}\x1b[201~");
        assert_eq!(String::from_utf8(encode_paste(text, &modes)).unwrap(), expected, "{text:?}");
    };
    check("a\nb", "a\nb");
    check("", "");
    check("x\x1b[201~rm -rf\r", "xrm -rf\r");
    check("x\u{9b}201~y", "xy");
    check("\x1b[201~\x1b[201~", "");
    // Taking the inner one out must not leave an outer one.
    check("\x1b[20\x1b[201~1~", "");
    check("\x1b\u{9b}201~[201~", "");
    // What a parser reads as 201.
    check("\x1b[0201~", "");
    check("\x1b[201;5~", "");
    check("\x1b[20\x001~", "");
    check("\x1b\x07[201~", "");
    // Not the marker: the text stays as it is.
    check("[201~ \x1b[31m \x1b[200~ 201~", "[201~ \x1b[31m \x1b[200~ 201~");
    check("\x1b[2010~", "\x1b[2010~");
    check("~~~201~", "~~~201~");
}

/// The other half: what the program asks for reaches the encoder.
#[test]
fn a_screen_tells_the_modes_its_program_asked_for() {
    let check = |asked: &str, key: &str, expected: &str| {
        let mut screen = Screen::new(Size::new(80, 24).unwrap());
        screen.feed(asked.as_bytes());
        let bytes = encode_key(&press(key), &screen.input_modes());
        assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{key} after {asked:?}");
    };
    check("\x1b[?1h", "up", "\x1bOA");
    check("\x1b[?1h\x1b[?1l", "up", "\x1b[A");
    check("\x1b=", "kp_1", "\x1bOq");
    check("\x1b=\x1b>", "kp_1", "1");
    check("\x1b[?66h", "kp_1", "\x1bOq");
    check("\x1b[?67h", "backspace", "\x08");
    check("\x1b[>4;1m", "shift-enter", "\x1b[27;2;13~");
    check("\x1b[>4;2m", "ctrl-a", "\x1b[27;5;97~");
    check("\x1b[>4;2m\x1b[>4m", "ctrl-a", "\x01");
    check("\x1b[>4;2m\x1b[>4;0m", "ctrl-a", "\x01");
    check("\x1b[>1u", "shift-enter", "\x1b[13;2u");
    check("\x1b[>1u\x1b[<u", "shift-enter", "\r");
    check("\x1b[=8u", "a", "\x1b[97u");
    check("\x1b[=1;2u\x1b[=8;2u\x1b[=8;3u", "a", "a");
    // Each screen has its own keyboard stack.
    check("\x1b[>1u\x1b[?1049h", "escape", "\x1b");
    check("\x1b[>1u\x1b[?1049h\x1b[?1049l", "escape", "\x1b[27u");
    check("\x1b[?1h\x1b=\x1b[>1u\x1b[>4;2m\x1bc", "ctrl-up", "\x1b[1;5A");
    check("\x1b[>1u\x1b[>4;2m\x1bc", "ctrl-a", "\x01");
}

#[test]
fn a_screen_tells_the_mouse_focus_and_paste_modes() {
    let check = |asked: &str, expected: InputModes| {
        let mut screen = Screen::new(Size::new(80, 24).unwrap());
        screen.feed(asked.as_bytes());
        let told = screen.input_modes();
        // Whether alternate scroll is on from the start is the screen's choice.
        let told = InputModes { alternate_scroll: expected.alternate_scroll, ..told };
        assert_eq!(told, expected, "after {asked:?}");
    };
    check("", PLAIN);
    check("\x1b[?9h", mouse(MouseMode::X10, MouseEncoding::Legacy));
    check("\x1b[?1000h", mouse(MouseMode::Normal, MouseEncoding::Legacy));
    check("\x1b[?1000;1005h", mouse(MouseMode::Normal, MouseEncoding::Utf8));
    check("\x1b[?1002;1006h", mouse(MouseMode::Button, MouseEncoding::Sgr));
    check("\x1b[?1003;1016h", mouse(MouseMode::Any, MouseEncoding::SgrPixels));
    check("\x1b[?1003h\x1b[?1003l", PLAIN);
    check("\x1b[?1006h\x1b[?1006l", PLAIN);
    check("\x1b[?2004h", InputModes { bracketed_paste: true, ..PLAIN });
    check("\x1b[?1004h", InputModes { focus: true, ..PLAIN });
    check("\x1b[?2004;1004;1003;1006h\x1bc", PLAIN);
}

fn any_key() -> impl Strategy<Value = Key> {
    let named: Vec<Key> = Key::names().map(|name| press(name).key()).collect();
    prop_oneof![any::<char>().prop_map(Key::Char), proptest::sample::select(named)]
}

fn any_mods() -> impl Strategy<Value = Mods> {
    proptest::collection::vec(
        proptest::sample::select(vec![
            Mods::SHIFT,
            Mods::ALT,
            Mods::CTRL,
            Mods::SUPER,
            Mods::HYPER,
        ]),
        0..4,
    )
    .prop_map(|list| list.into_iter().fold(Mods::NONE, |all, one| all | one))
}

fn any_modes() -> impl Strategy<Value = InputModes> {
    (any::<[bool; 4]>(), 0u8..32, 0u8..3).prop_map(
        |([app_cursor, app_keypad, bracketed_paste, backarrow], kitty_flags, modify_other_keys)| {
            InputModes {
                app_cursor,
                app_keypad,
                bracketed_paste,
                backarrow,
                kitty_flags,
                modify_other_keys,
                ..PLAIN
            }
        },
    )
}

/// Whether the bytes are text without controls, one control (perhaps after ESC), or one whole
/// CSI or SS3 sequence (perhaps after ESC): nothing else may reach a program as a key.
fn is_well_formed(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let body = match text.strip_prefix('\x1b') {
        Some(rest) if !rest.is_empty() => rest,
        _ => text,
    };
    let one_char = body.chars().count() == 1;
    let introduced = body.strip_prefix('\x1b').unwrap_or(body);
    let sequence = |rest: &str, finals: &str| {
        rest.chars().last().is_some_and(|c| finals.contains(c))
            && rest[..rest.len() - 1].chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':'))
    };
    one_char
        || introduced.strip_prefix('[').is_some_and(|rest| sequence(rest, "~uABCDEFHPQRSZ"))
        || introduced
            .strip_prefix('O')
            .is_some_and(|rest| sequence(rest, "ABCDEFHPQRSMXjklmnopqrstuvwxy"))
}

proptest! {
    #[test]
    fn a_printed_key_reads_back(key in any_key(), mods in any_mods()) {
        let press = KeyPress::new(key, mods);
        let name = press.to_string();
        prop_assert_eq!(name.parse::<KeyPress>(), Ok(press), "{}", name);
    }

    #[test]
    fn reading_never_panics(name in "\\PC{0,12}|(ctrl|alt|C|M|\\^|[-_+]|f|kp|[a-z0-9]){0,5}") {
        let _ = name.parse::<KeyPress>();
    }

    #[test]
    fn an_encoding_is_one_key_and_nothing_more(
        key in any_key(), mods in any_mods(), modes in any_modes(),
    ) {
        let press = KeyPress::new(key, mods);
        let bytes = encode_key(&press, &modes);
        prop_assert!(is_well_formed(&bytes), "{press}: {:?}", String::from_utf8_lossy(&bytes));
    }

    /// With disambiguation no key that types nothing sends a bare control, except the three that
    /// the protocol keeps.
    #[test]
    fn disambiguated_keys_are_text_or_sequences(
        key in any_key(), mods in any_mods(), flags in 0u8..32, modes in any_modes(),
    ) {
        let press = KeyPress::new(key, mods);
        let modes = InputModes { kitty_flags: flags | 1, ..modes };
        let bytes = encode_key(&press, &modes);
        let kept = mods.is_empty() && matches!(key, Key::Enter | Key::Tab | Key::Backspace)
            || matches!(key, Key::Char('\r' | '\n' | '\t' | '\u{7f}'));
        prop_assert!(
            kept || bytes.starts_with(b"\x1b[") || !bytes.iter().any(u8::is_ascii_control),
            "{press}: {bytes:?}",
        );
    }

    #[test]
    fn a_bracketed_paste_ends_once(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("\x1b"), Just("["), Just("\u{9b}"), Just("201~"), Just("20"), Just("1~"),
                Just("\x1b[201~"), Just("0"), Just(";"), Just("\x07"), Just("text\n"), Just("é"),
            ],
            0..24,
        ),
    ) {
        let modes = InputModes { bracketed_paste: true, ..PLAIN };
        let bytes = encode_paste(&parts.concat(), &modes);
        let inner = &bytes[6..bytes.len() - 6];
        let ends = Ends::count(inner);
        prop_assert_eq!(ends, 0, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

/// Counts what vte, an independent parser, takes for the end of a paste.
#[derive(Default)]
struct Ends(usize);

impl Ends {
    fn count(bytes: &[u8]) -> usize {
        let mut ends = Self::default();
        vte::Parser::new().advance(&mut ends, bytes);
        ends.0
    }
}

impl vte::Perform for Ends {
    fn csi_dispatch(&mut self, params: &vte::Params, inter: &[u8], _: bool, action: char) {
        let first = params.iter().next().and_then(|p| p.first().copied());
        if action == '~' && first == Some(201) && inter.is_empty() {
            self.0 += 1;
        }
    }
}
