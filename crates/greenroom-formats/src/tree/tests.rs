//! The three syntaxes agree, refuse the same things, and survive anything.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ALL: [Syntax; 3] = [Syntax::Json, Syntax::Toml, Syntax::Yaml];
const DEPTH: usize = 32;

fn value(syntax: Syntax, text: &str) -> Result<Value, At> {
    read(syntax, text, DEPTH).map(|node| node.value())
}

fn refused(syntax: Syntax, text: &str) -> (usize, String) {
    let problem = value(syntax, text).expect_err(text);
    (problem.at, problem.text)
}

#[test]
fn the_same_content_is_the_same_tree() {
    let expected = json!({"a": 1, "b": [true, "x"], "c": {"d": "1.10", "e": -2.5}});
    for (syntax, text) in [
        (Syntax::Json, r#"{"a": 1, "b": [true, "x"], "c": {"d": "1.10", "e": -2.5}}"#),
        (Syntax::Toml, "a = 1\nb = [true, \"x\"]\n[c]\nd = \"1.10\"\ne = -2.5\n"),
        (Syntax::Yaml, "a: 1\nb:\n  - true\n  - x\nc:\n  d: '1.10'\n  e: -2.5\n"),
        (Syntax::Yaml, "\u{feff}{a: 1, b: [true, x], c: {d: \"1.10\", e: -2.5}}"),
    ] {
        assert_eq!(value(syntax, text).unwrap(), expected, "{text}");
    }
}

#[test]
fn each_part_knows_where_it_stands() {
    for (syntax, text, path, place) in [
        (
            Syntax::Json,
            "{\"ä\": [1,\n  {\"b\": 22}]}",
            vec![Step::Key("ä"), Step::Index(1), Step::Key("b")],
            "22}]}",
        ),
        (
            Syntax::Toml,
            "\"é\" = 1\n[[a]]\nb = 22\n",
            vec![Step::Key("a"), Step::Index(0), Step::Key("b")],
            "22\n",
        ),
        (
            Syntax::Yaml,
            "é: ü\na:\n  - b: 22\n",
            vec![Step::Key("a"), Step::Index(0), Step::Key("b")],
            "22\n",
        ),
        (
            Syntax::Yaml,
            "\u{feff}a: [ü, {b: 22}]",
            vec![Step::Key("a"), Step::Index(1), Step::Key("b")],
            "22}]",
        ),
    ] {
        let at = read(syntax, text, DEPTH).unwrap().find(&path);
        assert_eq!(&text[at..], place, "{text}");
    }
}

#[test]
fn a_key_given_twice_is_refused_at_its_place() {
    for (syntax, text) in [
        (Syntax::Json, "{\"a\": 1,\n\"a\": 2}"),
        (Syntax::Toml, "a = 1\na = 2\n"),
        (Syntax::Yaml, "a: 1\na: 2\n"),
        (Syntax::Yaml, "a: 1\n\"a\": 2\n"),
    ] {
        let (at, _) = refused(syntax, text);
        let (line, _) = (text[..at].matches('\n').count() + 1, ());
        assert_eq!(line, 2, "{text}");
    }
}

#[test]
fn yaml_beyond_json_is_refused() {
    for (text, word) in [
        ("a: &x 1\nb: *x\n", "anchors"),
        ("a: *x\n", "anchor"),
        ("a: !!str 1\n", "tags"),
        ("a: !x {}\n", "tags"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("? [a]\n: 1\n", "key must be a text"),
        ("<<: {a: 1}\n", "merge"),
        ("a: 99999999999999999999\n", "larger"),
        ("a: .inf\n", "finite"),
        ("a: [1\n", ""),
    ] {
        let (_, why) = refused(Syntax::Yaml, text);
        assert!(why.contains(word), "{text}: {why}");
    }
    let words = "a: no\nb: on\nc: 0.1.0\nd: 1e3x\ne: '1'\nf: ~\ng: 0x1f\n";
    let read =
        json!({"a": "no", "b": "on", "c": "0.1.0", "d": "1e3x", "e": "1", "f": null, "g": 31});
    assert_eq!(value(Syntax::Yaml, words).unwrap(), read);
}

#[test]
fn depth_is_capped_before_anything_is_built() {
    for depth in [DEPTH + 2, 1_000, 100_000] {
        let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        refused(Syntax::Json, &lists);
        refused(Syntax::Yaml, &lists);
        refused(Syntax::Toml, &format!("a = {lists}"));
        refused(Syntax::Toml, &format!("{}a = 1", "a.".repeat(depth)));
        refused(Syntax::Toml, &format!("[{}a]\nb = 1", "a.".repeat(depth)));
        let maps = format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
        refused(Syntax::Yaml, &maps);
    }
    let fits = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    assert!(value(Syntax::Json, &fits).is_ok());
    assert!(value(Syntax::Yaml, &fits).is_ok());
}

/// Texts made of what the three syntaxes are made of.
fn crumbs() -> impl Strategy<Value = String> {
    let crumb = prop::sample::select(vec![
        "a", "b", "hooks", ":", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "\"", "'", "=", "#",
        "&x", "*x", "!t", "|", ">", "---", "...", "1", "0x", "1.", "é", "\t", "\r\n", ",", "?",
        "[[", "]]", "\\", "\u{feff}", "%", "<<", "\u{0}", "\u{85}", "`", "@",
    ]);
    prop::collection::vec(crumb, 0..60).prop_map(|crumbs| crumbs.concat())
}

/// A tree that every syntax can write, as JSON.
fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zé.\"]{1,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in crumbs()) {
        for syntax in ALL {
            match read(syntax, &text, DEPTH) {
                Ok(root) => drop(root.value()),
                Err(problem) => prop_assert!(problem.at <= text.len()),
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        for syntax in ALL {
            let _ = value(syntax, &text);
        }
    }

    #[test]
    fn what_json_says_every_syntax_can_say(tree in trees()) {
        let text = serde_json::to_string(&tree).unwrap();
        prop_assert_eq!(value(Syntax::Json, &text).unwrap(), tree.clone());
        let map = json!({"root": tree});
        let toml = ::toml::to_string(&map).unwrap();
        prop_assert_eq!(value(Syntax::Toml, &toml).unwrap(), map);
    }
}
