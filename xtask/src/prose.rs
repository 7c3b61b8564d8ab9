//! Prose that can be read: comments and documents at most 100 columns wide, no riddles.
//!
//! In: comments of our sources and the documents. Out: lines that are too wide, and sentences that
//! hide who does what. Deliberately absent: tables and code, which may be wide; `docs/api.md`,
//! which is made of comments and of `xtask/src/api_docs.md`.

use anyhow::Result;

use crate::documents::prose;
use crate::tree::Tree;

/// What rustfmt allows for code.
const WIDTH: usize = 100;

/// Written by `make docs`, from texts that are looked at themselves.
const GENERATED: &str = "docs/api.md";

/// Beginnings of sentences that leave out who acts. Name them: the caller, the plugin, the reader.
const NOBODY: &[&str] = &["Whoever ", "Whatever ", "Whichever "];

/// The same where a second word makes the riddle.
const NO_NOUN: [&[&str]; 2] = [&["One ", "Those "], &["that ", "who ", "which "]];

/// Before a single word they make a comment that says no more than the name below it.
const ARTICLES: &[&str] = &["A", "An", "The", "Its", "Their", "One", "Some"];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in tree.with_suffix(".rs") {
        let Some(text) = tree.text(path)? else { continue };
        for comment in comments(&text) {
            let place = format!("{path}:{}", comment.line);
            faults.extend(comment.too_wide(path));
            faults.extend(riddle(&comment.text()).map(|why| format!("{place}: {why}")));
        }
    }
    for path in tree.with_suffix(".md").filter(|path| *path != GENERATED) {
        let Some(text) = tree.text(path)? else { continue };
        let lines = prose(&text).filter(|(_, line)| !is_row(line));
        faults.extend(lines.filter_map(|(number, line)| wide(path, number, line)));
    }
    Ok(faults)
}

/// Lines of one comment, of one kind and one indentation.
struct Comment<'a> {
    line: usize,
    indent: usize,
    marker: &'a str,
    /// Without the marker.
    lines: Vec<&'a str>,
}

impl Comment<'_> {
    /// Its prose, without tables and code, as one line.
    fn text(&self) -> String {
        let text = self.lines.join("\n");
        let lines = prose(&text).filter(|(_, line)| !is_row(line)).map(|(_, line)| line.trim());
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn too_wide(&self, path: &str) -> Vec<String> {
        let text = self.lines.join("\n");
        let before = " ".repeat(self.indent + self.marker.len());
        let lines = prose(&text).filter(|(_, line)| !is_row(line));
        let wide = |(number, line)| wide(path, self.line + number - 1, &format!("{before}{line}"));
        lines.filter_map(wide).collect()
    }
}

/// The comments of a source file that stand on lines of their own. Texts inside of strings are
/// none.
fn comments(text: &str) -> Vec<Comment<'_>> {
    let mut found: Vec<Comment<'_>> = Vec::new();
    let mut literal = Literal::No;
    let mut goes_on = false;
    for (line, whole) in (1..).zip(text.lines()) {
        let inside = literal != Literal::No;
        literal = literal.after(whole);
        let bare = whole.trim_start();
        if inside || !bare.starts_with("//") {
            goes_on = false;
            continue;
        }
        let indent = whole.len() - bare.len();
        let marker = ["//!", "///", "//"].into_iter().find(|marker| bare.starts_with(marker));
        let marker = marker.unwrap_or("//");
        let words = &bare[marker.len()..];
        match found.last_mut() {
            Some(last) if goes_on && (last.marker, last.indent) == (marker, indent) => {
                last.lines.push(words);
            }
            _ => found.push(Comment { line, indent, marker, lines: vec![words] }),
        }
        goes_on = true;
    }
    found
}

/// Where the scanner is with respect to a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    No,
    /// With escapes.
    Plain,
    /// Ends with a quote and this many `#`.
    Raw(usize),
}

impl Literal {
    /// Where it is at the end of a line.
    fn after(self, line: &str) -> Literal {
        let (mut state, mut rest) = (self, line);
        while !rest.is_empty() {
            (state, rest) = state.step(rest);
        }
        state
    }

    /// Past the next thing that matters, or past one character.
    fn step(self, rest: &str) -> (Literal, &str) {
        let hashes = |text: &str| text.len() - text.trim_start_matches('#').len();
        let next = |text: &str| text.chars().next().map_or(0, char::len_utf8);
        match self {
            Literal::No if rest.starts_with("//") => (self, ""),
            Literal::No if rest.starts_with("r\"") || rest.starts_with("r#") => {
                let count = hashes(&rest[1..]);
                match rest[1 + count..].strip_prefix('"') {
                    Some(after) => (Literal::Raw(count), after),
                    None => (self, &rest[1..]),
                }
            }
            Literal::No if rest.starts_with('"') => (Literal::Plain, &rest[1..]),
            Literal::No if rest.starts_with("'\"'") => (self, &rest[3..]),
            Literal::No if rest.starts_with("'\\") => {
                (self, rest[2..].split_at(next(&rest[2..])).1)
            }
            Literal::Plain if rest.starts_with('\\') => {
                (self, rest[1..].split_at(next(&rest[1..])).1)
            }
            Literal::Plain if rest.starts_with('"') => (Literal::No, &rest[1..]),
            Literal::Raw(count) if rest.starts_with('"') && hashes(&rest[1..]) >= count => {
                (Literal::No, &rest[1 + count..])
            }
            _ => (self, &rest[next(rest)..]),
        }
    }
}

/// What is wrong with the words of a comment, if anything.
fn riddle(text: &str) -> Option<String> {
    if text.starts_with("Of ") {
        return Some("begins with \"Of\": say what it is of that".to_owned());
    }
    let words: Vec<&str> = text.trim_end_matches('.').split(' ').collect();
    if let [article, noun] = words[..]
        && ARTICLES.contains(&article)
        && text.ends_with('.')
    {
        return Some(format!("\"{article} {noun}.\" says no more than the name below it"));
    }
    sentences(text).find_map(|sentence| {
        let [firsts, seconds] = NO_NOUN;
        let vague = firsts.iter().find_map(|first| {
            let rest = sentence.strip_prefix(first)?;
            seconds.iter().any(|second| rest.starts_with(second)).then_some(*first)
        });
        let nobody = NOBODY.iter().copied().find(|word| sentence.starts_with(word));
        let word = nobody.or(vague)?.trim_end();
        Some(format!("a sentence begins with \"{word}\": name who or what it is about"))
    })
}

/// The sentences of a text; the end of one is a stop with a blank behind it.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let stops = [". ", "! ", "? ", ": ", "; "];
    let starts = text
        .char_indices()
        .map(|(at, _)| at)
        .filter(move |at| *at == 0 || stops.iter().any(|stop| text[..*at].ends_with(stop)));
    starts.map(|at| &text[at..])
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn wide(path: &str, number: usize, line: &str) -> Option<String> {
    let width = line.trim_end().chars().count();
    (width > WIDTH).then(|| format!("{path}:{number}: {width} columns, at most {WIDTH}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    #[test]
    fn riddles_are_found_and_sentences_with_a_subject_are_not() {
        for text in [
            "A level.",
            "Its name.",
            "Of the program.",
            "Whoever asked may be gone.",
            "It ends. Whatever is left is killed.",
            "Prepared: whoever asks. One that is gone is left out.",
            "Those who are missed come too.",
        ] {
            assert!(riddle(text).is_some(), "{text}");
        }
        for text in [
            "The level of the sandbox.",
            "Out of the program.",
            "Tells whoever asked.",
            "One edit per line, that is all.",
            "The session.create method",
            "Closed.",
        ] {
            assert_eq!(riddle(text), None, "{text}");
        }
    }

    #[test]
    fn comments_are_wide_where_prose_is_and_not_where_tables_code_or_strings_are() {
        let wide = "x ".repeat(55);
        let text = format!(
            "//! | {wide} |\n//! ```\n//! {wide}\n//! ```\n//! {wide}\nfn a() {{\n    // Whoever\n    \
             // asks {wide}\n    let s = \"\\\"\n// {wide}\n\"; let c = '\"';\n    let r = r#\"\n// {wide}\n\"#;\n}}\n"
        );
        let (_dir, tree) = fake(&[("crates/a/src/lib.rs", &text)]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "crates/a/src/lib.rs:5: 113 columns, at most 100",
                "crates/a/src/lib.rs:8: 121 columns, at most 100",
                "crates/a/src/lib.rs:7: a sentence begins with \"Whoever\": name who or what it is about",
            ]
        );
    }

    #[test]
    fn documents_are_wide_only_in_tables_and_code() {
        let wide = "x".repeat(101);
        let page = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n<!-- sh\n{wide}\n-->\n");
        let (_dir, tree) = fake(&[("docs/a.md", &page), (GENERATED, &page)]);
        assert_eq!(check(&tree).unwrap(), ["docs/a.md:1: 101 columns, at most 100"]);
    }
}
