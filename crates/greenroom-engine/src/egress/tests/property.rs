//! Random text, secrets, escape sequences, cuts.

use proptest::prelude::*;

use super::*;
use crate::egress::redactor::LOOK_BACK;
use crate::transcript::plain;

/// A secret in the text, and what of it must never be seen.
#[derive(Clone, Debug)]
struct Secret {
    whole: String,
    hidden: String,
}

fn given(value: &str) -> Secret {
    Secret { whole: value.to_owned(), hidden: value.to_owned() }
}

/// Values the session was given: letters that overlap themselves, spaces, other scripts.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{6,12}",
        "[a-zA-Z0-9_+/=-]{8,40}",
        "[a-z]{3}é漢[a-z0-9]{4}",
        "[a-z0-9]{60,150}",
    ]
    .prop_filter(
        "a long value of few letters is looked for as a whole only",
        |value: &String| {
            value.len() < 48 || value.bytes().collect::<std::collections::HashSet<_>>().len() > 8
        },
    )
}

fn built_in() -> impl Strategy<Value = Secret> {
    let prefixed = |prefix: &'static str, body: &'static str| {
        body.prop_map(move |body: String| Secret { whole: format!("{prefix}{body}"), hidden: body })
    };
    prop_oneof![
        prefixed("ghp_", "[A-Za-z0-9]{36}"),
        prefixed("sk-ant-", "api03-[A-Za-z0-9_-]{40}"),
        prefixed("AKIA", "[A-Z0-9]{16}"),
        prefixed("glpat-", "[A-Za-z0-9_-]{20}"),
        prefixed("xoxb-", "[0-9]{10}-[a-zA-Z0-9]{20}"),
        prefixed("DB_PASSWORD=", "[a-zA-Z0-9]{12,30}"),
        prefixed("Authorization: Bearer ", "[A-Za-z0-9._-]{26,60}"),
        prefixed("eyJhbGciOiJIUzI1NiJ9.eyJ", "[A-Za-z0-9_-]{30}\\.[A-Za-z0-9_-]{43}"),
        prefixed("\"api_key\": \"", "[a-z]{4}[0-9]{2}[a-zA-Z0-9]{10}"),
        prefixed("https://u:", "[a-z0-9]{8}")
            .prop_map(|secret| Secret { whole: secret.whole + "@h", ..secret }),
    ]
}

fn quiet() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("\x1b[31m"),
        Just("\x1b[0m"),
        Just("\x1b[38;2;1;22;133m"),
        Just("\x1b[K"),
        Just("\x1b]8;;http://x.y/z\x1b\\"),
        Just("\x1b]0;title\x07"),
        Just("\x07"),
        Just("\x1b[?25h"),
        Just("\x1b(B"),
    ]
}

fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ .:/,;a-z]{0,30}",
        1 => Just("\r\n".to_owned()),
        1 => Just("\x1b[3;4H".to_owned()),
        1 => Just("\x1b[2J".to_owned()),
        1 => "[é漢 ]{0,6}",
        1 => quiet().prop_map(str::to_owned),
    ]
}

/// With a sequence after some of the characters.
fn coloured(secret: &str, between: &[(usize, &'static str)]) -> String {
    let mut out = String::new();
    for (at, c) in secret.chars().enumerate() {
        for (place, sequence) in between {
            if *place == at && at > 0 {
                out.push_str(sequence);
            }
        }
        out.push(c);
    }
    out
}

#[derive(Clone, Debug)]
struct Case {
    values: Vec<String>,
    input: Vec<u8>,
    hidden: Vec<String>,
    cuts: Vec<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let values = prop::collection::vec(value(), 1..4);
    values
        .prop_flat_map(|values| {
            let of_values = prop::sample::select(values.clone()).prop_map(|value| given(&value));
            let secret = prop_oneof![of_values, built_in()];
            let between = prop::collection::vec((0usize..40, quiet()), 0..5);
            let parts = prop::collection::vec((noise(), secret, between), 1..5);
            (
                Just(values),
                parts,
                noise(),
                prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            )
        })
        .prop_map(|(values, parts, last, cuts)| {
            let mut input = String::new();
            let mut hidden = Vec::new();
            for (noise, secret, between) in parts {
                input.push_str(&noise);
                // Where a word ends before it: the rules want that.
                input.push(' ');
                input.push_str(&coloured(&secret.whole, &between));
                input.push_str(" \"");
                hidden.push(secret.hidden);
            }
            input.push_str(&last);
            let input = input.into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            cuts.sort_unstable();
            Case { values, input, hidden, cuts }
        })
}

/// No six characters of a secret in a row, in the text without sequences.
fn leaks(out: &[u8], hidden: &str) -> Option<String> {
    let shown = plain(out);
    let chars: Vec<char> = hidden.chars().collect();
    chars.windows(6).map(|six| six.iter().collect::<String>()).find(|six| shown.contains(six))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaks_and_cuts_do_not_matter(case in case()) {
        let values: Vec<&str> = case.values.iter().map(String::as_str).collect();
        let shield = shield(&values);
        let whole = Redactor::whole(shield.clone(), &case.input);
        prop_assert_eq!(whole.len(), case.input.len());
        for hidden in &case.hidden {
            prop_assert_eq!(leaks(&whole, hidden), None, "of {:?} in {:?}", hidden, String::from_utf8_lossy(&whole));
        }
        prop_assert_eq!(&in_pieces(&shield, &case.input, &case.cuts), &whole);
        let every: Vec<usize> = (1..case.input.len()).collect();
        prop_assert_eq!(&in_pieces(&shield, &case.input, &every), &whole);
        for (at, (before, after)) in case.input.iter().zip(&whole).enumerate() {
            prop_assert!(before == after || *after == b'*' || *after == 0, "at {}", at);
        }
    }

    /// Bytes that are no secret come out as they went in, whatever they are.
    #[test]
    fn clean_bytes_stay(bytes in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(0usize..300, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let shield = shield(&["a value that is not there"]);
        prop_assert_eq!(in_pieces(&shield, &bytes, &cuts), Redactor::whole(shield.clone(), &bytes));
        let has_clipboard = bytes.windows(2).any(|two| two == b"52");
        if !has_clipboard {
            prop_assert_eq!(Redactor::whole(shield, &bytes), bytes);
        }
    }

    /// A reader who begins anywhere and looks back sees the same.
    #[test]
    fn where_a_reader_begins_does_not_matter(cases in prop::collection::vec(case(), 1..3), from in any::<prop::sample::Index>()) {
        let values: Vec<&str> = cases.iter().flat_map(|case| &case.values).map(String::as_str).collect();
        let shield = shield(&values);
        let input: Vec<u8> = cases.iter().flat_map(|case| case.input.clone()).collect();
        let whole = Redactor::whole(shield.clone(), &input);
        let from = from.index(input.len() + 1);
        let back = from.saturating_sub(LOOK_BACK as usize);
        let mut redactor = Redactor::new(shield, Seq(back as u64));
        redactor.prime(&input[back..from]);
        let begins = redactor.at().0 as usize;
        let mut out = Vec::new();
        redactor.feed(&input[from..], &mut out);
        redactor.finish(&mut out);
        prop_assert_eq!(&out[..], &whole[begins..]);
    }
}

#[test]
fn long_bodies_look_the_same_from_everywhere() {
    let body: String = (0..90_000u32).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
    let input = format!("x API_TOKEN={body} end");
    let shield = shield(&[]);
    let whole = Redactor::whole(shield.clone(), input.as_bytes());
    for from in [5000, 20_000, 40_000, 60_000, 90_000] {
        let back = from - from.min(LOOK_BACK as usize);
        let mut redactor = Redactor::new(shield.clone(), Seq(back as u64));
        redactor.prime(&input.as_bytes()[back..from]);
        let mut out = Vec::new();
        redactor.feed(&input.as_bytes()[from..], &mut out);
        redactor.finish(&mut out);
        assert!(out == whole[from..], "from {from}");
    }
}
