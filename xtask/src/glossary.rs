//! The glossary of ARCHITECTURE.md: few words, each with one meaning, and all of them in use.
//!
//! In: the section `Glossary`, where each word stands in bold before its meaning, and our sources.
//! Out: too many words, words that stand there twice, words that no source uses. A term of two
//! words is in use if both are.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::documents::MAP;
use crate::sizes::is_test_file;
use crate::tree::Tree;

const HEADING: &str = "## Glossary";
/// A newcomer can learn as many in an hour.
const MAX_WORDS: usize = 40;

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let map = if tree.has(MAP) { tree.text(MAP)?.unwrap_or_default() } else { String::new() };
    let words = words(&map);
    let mut faults = Vec::new();
    if words.is_empty() {
        faults.push(format!("{MAP}: no glossary"));
    }
    if words.len() > MAX_WORDS {
        faults.push(format!("{MAP}: {} words in the glossary, at most {MAX_WORDS}", words.len()));
    }
    let mut seen = BTreeSet::new();
    for word in words.iter().filter(|word| !seen.insert(word.as_str())) {
        faults.push(format!("{MAP}: {word} stands twice in the glossary"));
    }
    let used = used(tree)?;
    let unused = |term: &&&str| term.split(' ').any(|word| !used.contains(word));
    for word in seen.iter().filter(unused) {
        faults.push(format!("{MAP}: no source uses the word {word} of the glossary"));
    }
    Ok(faults)
}

/// The words in bold of the section.
fn words(map: &str) -> Vec<String> {
    let section = map.lines().skip_while(|line| *line != HEADING).skip(1);
    let lines: Vec<&str> = section.take_while(|line| !line.starts_with("## ")).collect();
    lines.join(" ").split("**").skip(1).step_by(2).map(str::to_lowercase).collect()
}

/// Every word that names something in our sources, in lower case: of `SessionHandle`, `session`
/// and `handle`.
fn used(tree: &Tree) -> Result<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    let ours = |path: &&str| path.contains("/src/") && !is_test_file(path);
    for path in tree.with_suffix(".rs").filter(ours) {
        let Some(text) = tree.text(path)? else { continue };
        for line in text.lines() {
            split(line.split("//").next().unwrap_or_default(), &mut used);
        }
    }
    Ok(used)
}

fn split(code: &str, words: &mut BTreeSet<String>) {
    let mut word = String::new();
    let mut before_lower = false;
    for c in code.chars().chain([' ']) {
        let begins = c.is_uppercase() && before_lower;
        if (begins || !c.is_alphabetic()) && !word.is_empty() {
            words.insert(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    const CODE: (&str, &str) =
        ("crates/a/src/b.rs", "struct SessionHandle;\nfn key_frame() {} // host\n");

    #[test]
    fn words_are_in_use_and_stand_once() {
        let map = "# M\n**other**\n## Glossary\n- **session**: x. **session handle**: y.\n\
                   - **Frame**: z **host**: z. **session**: again\n## Next\n**gone**\n";
        let (_dir, tree) = fake(&[CODE, (MAP, map)]);
        assert_eq!(
            check(&tree).unwrap(),
            [
                "ARCHITECTURE.md: session stands twice in the glossary",
                "ARCHITECTURE.md: no source uses the word host of the glossary",
            ]
        );
    }

    #[test]
    fn there_are_few() {
        let words: String = (0..41).map(|_| "**frame** ".to_owned()).collect();
        let (_dir, tree) = fake(&[CODE, (MAP, &format!("## Glossary\n{words}\n"))]);
        let faults = check(&tree).unwrap();
        assert_eq!(faults[0], "ARCHITECTURE.md: 41 words in the glossary, at most 40");
        let (_dir, tree) = fake(&[CODE]);
        assert_eq!(check(&tree).unwrap(), ["ARCHITECTURE.md: no glossary"]);
    }
}
