//! What the rules find in a text that is shown to them: for people who want to know before it
//! matters.

use std::sync::Arc;

use crate::egress::redactor::{Redactor, Shield};
use crate::egress::{Literals, Rules};
use crate::id::Seq;

/// Something that would be masked. It does not say what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spotted {
    pub rule: &'static str,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Characters masked.
    pub length: usize,
    /// The line as a reader would see it, shortened around the finding.
    pub preview: String,
}

/// Characters shown before a finding and after its start.
const AROUND: usize = 30;

/// Findings that are told; the text is masked all the same.
const FINDINGS_MAX: usize = 10_000;

/// Looks at a whole text. Answers what is found and the text as it would be seen.
pub fn spot(rules: Arc<Rules>, values: Literals, text: &[u8]) -> (Vec<Spotted>, Vec<u8>) {
    let shield = Arc::new(Shield::new(rules, values));
    let mut redactor = Redactor::new(shield.clone(), Seq(0)).telling();
    let mut masked = Vec::with_capacity(text.len());
    redactor.feed(text, &mut masked);
    redactor.finish(&mut masked);
    let mut told = redactor.told().to_vec();
    told.sort_by_key(|finding| (finding.from.0, finding.to.0));
    let mut spotted = Vec::new();
    let mut place = Place { line: 1, line_start: 0, at: 0 };
    for finding in told.into_iter().take(FINDINGS_MAX) {
        let (from, to) = (finding.from.0 as usize, finding.to.0 as usize);
        place.go_to(text, from);
        let before = String::from_utf8_lossy(&masked[place.line_start..from]);
        let after = String::from_utf8_lossy(&masked[from..]);
        let skip = before.chars().count().saturating_sub(AROUND);
        let shown = before
            .chars()
            .skip(skip)
            .chain(after.chars().take_while(|c| *c != '\n').take(2 * AROUND));
        spotted.push(Spotted {
            rule: shield.rules().name(finding.rule),
            line: place.line,
            column: before.chars().count() + 1,
            length: String::from_utf8_lossy(&text[from..to]).chars().count(),
            preview: shown.filter(|c| !c.is_control()).collect(),
        });
    }
    (spotted, masked)
}

struct Place {
    line: usize,
    line_start: usize,
    at: usize,
}

impl Place {
    fn go_to(&mut self, text: &[u8], to: usize) {
        for (at, byte) in text.iter().enumerate().take(to).skip(self.at) {
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = at + 1;
            }
        }
        self.at = self.at.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_where_and_not_what() {
        let text = b"one\nk = sk-ant-api03-0123456789abcdef\ntwo DB_PASSWORD=hunter2hunter2\n";
        let (found, masked) = spot(Rules::built_in(), Literals::default(), text);
        assert_eq!(masked.len(), text.len());
        let places: Vec<_> = found.iter().map(|f| (f.rule, f.line, f.column, f.length)).collect();
        assert_eq!(places, [("anthropic", 2, 12, 22), ("assignment", 3, 17, 14)]);
        assert!(found.iter().all(
            |finding| !finding.preview.contains("0123") && !finding.preview.contains("hunter")
        ));
        assert_eq!(found[1].preview, "two DB_PASSWORD=**************");
    }
}
