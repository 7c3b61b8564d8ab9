//! L1 and L2: what a secret looks like when nobody told us its value.
//!
//! Every rule is a *trigger*, which is public and stays visible (`ghp_`, `password: "`), and a
//! *body*, which is masked. A body is decided within [`HOLD_MAX`] bytes; once it is a secret, all
//! of it is masked as it comes. So little has to be held back, and nothing before the body. In:
//! text. Out: where a body begins and how far it goes. Deliberately absent: the stream, and whose
//! text it is.

mod shapes;
mod table;
mod values;

use std::sync::{Arc, OnceLock};

use crate::egress::charset::{ALNUM, Charset, HEX};
use crate::egress::finder::{Heads, head};
use table::ROWS;

/// Most text held back: a body that is not decided by then is no secret.
pub const HOLD_MAX: usize = 64;

/// No trigger is longer; with the body's undecided part it fits what a scan looks back.
pub(crate) const TRIGGER_MAX: usize = 160;

/// How a trigger is checked and what its body is.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Prefix { body: Charset, min: usize, rest: Charset },
    Form(Form),
}

/// Looks at a text in which a trigger stands at the first place and ends before the second. With
/// `true` the text is all there will be.
type Form = fn(&[u8], usize, usize, bool) -> Look;

struct Trigger {
    text: &'static str,
    /// Letters of the trigger match in either case.
    any_case: bool,
    rule: u16,
}

#[derive(Default)]
pub struct Rules {
    names: Vec<&'static str>,
    shapes: Vec<Shape>,
    triggers: Vec<Trigger>,
    /// Index into `triggers` by the first three bytes.
    by_head: Vec<(u32, u16)>,
    heads: Heads,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rules({} rules)", self.names.len())
    }
}

/// What stands at a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    /// A body that may become a secret of `whole` characters or more.
    Undecided {
        from: usize,
        whole: usize,
    },
    /// Mask `from..to`; a body that reached the end of the text goes on with `open`.
    Secret {
        from: usize,
        to: usize,
        open: Open,
    },
}

/// How an open body goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// It does not.
    Closed,
    Run(Charset),
    /// A private key: lines of base64, up to a line of dashes.
    Pem,
}

impl Open {
    /// How much of the start of `text` is still body. `before` is the byte in front of it.
    pub(crate) fn extent(self, before: u8, text: &[u8]) -> usize {
        match self {
            Open::Closed => 0,
            Open::Run(charset) => charset.run(text),
            Open::Pem => shapes::pem_extent(before, text),
        }
    }
}

impl Rules {
    /// The rules every session has.
    pub fn built_in() -> Arc<Rules> {
        static BUILT_IN: OnceLock<Arc<Rules>> = OnceLock::new();
        BUILT_IN.get_or_init(|| Arc::new(Rules::compile(&[]))).clone()
    }

    /// The built-in rules without those named; `Err` has the names that no rule has.
    pub fn without(names: &[String]) -> Result<Arc<Rules>, Vec<String>> {
        let all = Rules::built_in();
        let unknown: Vec<String> =
            names.iter().filter(|name| !all.names.contains(&name.as_str())).cloned().collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        Ok(if names.is_empty() { all } else { Arc::new(Rules::compile(names)) })
    }

    fn compile(without: &[String]) -> Rules {
        let mut rules = Rules::default();
        let mut add = |name: &'static str, shape, texts: &[&'static str], any_case| {
            if !without.iter().any(|off| off == name) {
                rules.add(name, shape, texts, any_case);
            }
        };
        for row in ROWS {
            let shape = Shape::Prefix { body: row.body, min: row.min, rest: row.rest };
            add(row.name, shape, row.prefixes, false);
        }
        add("jwt", Shape::Form(shapes::jwt), &[".eyJ"], false);
        add("private-key", Shape::Form(shapes::pem), &["-----BEGIN "], false);
        add("url-password", Shape::Form(shapes::url), &["://"], false);
        add("telegram", Shape::Form(shapes::telegram), &[":AA"], false);
        add("authorization", Shape::Form(values::authorization), &["authorization"], true);
        add("bearer", Shape::Form(values::credentials), &["bearer ", "bearer%20"], true);
        add("assignment", Shape::Form(values::key), table::KEYWORDS, true);
        rules.by_head.sort_unstable();
        rules
    }

    fn add(&mut self, name: &'static str, shape: Shape, texts: &[&'static str], any_case: bool) {
        let rule = u16::try_from(self.names.len()).expect("fewer than 65536 rules");
        self.names.push(name);
        self.shapes.push(shape);
        for text in texts {
            let number = u16::try_from(self.triggers.len()).expect("fewer than 65536 triggers");
            self.triggers.push(Trigger { text, any_case, rule });
            for variant in cases(text, any_case) {
                self.by_head.push((variant, number));
                self.heads.add(variant);
            }
        }
    }

    /// The name of a rule, by the number a finding has.
    pub fn name(&self, rule: u16) -> &'static str {
        self.names.get(usize::from(rule)).copied().unwrap_or("value")
    }

    /// Every rule's name, in order.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Tells `found` of everything a trigger at `at` says. With `ended` the text is all there will
    /// be.
    pub(crate) fn look(
        &self,
        text: &[u8],
        at: usize,
        ended: bool,
        mut found: impl FnMut(u16, Look),
    ) {
        let Some(key) = head(&text[at..]) else { return };
        let first = self.by_head.partition_point(|(head, _)| *head < key);
        for (_, number) in self.by_head[first..].iter().take_while(|(head, _)| *head == key) {
            let trigger = &self.triggers[usize::from(*number)];
            let Some(there) = text[at..].get(..trigger.text.len()) else { continue };
            let same = if trigger.any_case {
                there.eq_ignore_ascii_case(trigger.text.as_bytes())
            } else {
                there == trigger.text.as_bytes()
            };
            if same {
                let end = at + trigger.text.len();
                let look = self.shapes[usize::from(trigger.rule)].look(text, at, end, ended);
                if look != Look::Nothing {
                    found(trigger.rule, look);
                }
            }
        }
    }
}

impl Shape {
    fn look(self, text: &[u8], at: usize, end: usize, ended: bool) -> Look {
        match self {
            Shape::Prefix { body, min, rest } => {
                // In the middle of base64 anything is found: the word must begin here.
                if !begins_word(text, at) {
                    return Look::Nothing;
                }
                run_of(text, end, body, min, rest, ended)
            }
            Shape::Form(look) => look(text, at, end, ended),
        }
    }
}

/// A body of at least `min` characters.
fn run_of(text: &[u8], from: usize, body: Charset, min: usize, rest: Charset, ended: bool) -> Look {
    let run = body.run(&text[from..]);
    if run >= min {
        let to = from + min + rest.run(&text[from + min..]);
        return Look::Secret { from, to, open: Open::Run(rest) };
    }
    if from + run == text.len() && !ended && run > 0 {
        return Look::Undecided { from, whole: min };
    }
    Look::Nothing
}

/// Whether a word may begin at `at`. Text that shows control characters as letters (`\n`, `%3D`,
/// `[31m`) has letters in front that are none.
fn begins_word(text: &[u8], at: usize) -> bool {
    let back = |n: usize| at.checked_sub(n).map_or(0, |at| text[at]);
    let before = back(1);
    if !ALNUM.has(before) {
        return true;
    }
    let escaped = back(2) == b'\\' && b"nrtbfv0".contains(&before);
    let percent = back(3) == b'%' && HEX.has(back(2)) && HEX.has(before);
    let colour = before == b'm' && (back(2).is_ascii_digit() || back(2) == b'[');
    escaped || percent || colour
}

/// The first three bytes in the cases people write.
fn cases(text: &str, any_case: bool) -> Vec<u32> {
    let bytes = text.as_bytes();
    let key = |bytes: &[u8]| head(bytes).expect("a trigger has three bytes or more");
    if !any_case {
        return vec![key(bytes)];
    }
    let mut all: Vec<u32> = (0..8u8)
        .map(|bits| {
            let three: Vec<u8> = (0..3)
                .map(|n| match bits >> n & 1 {
                    1 => bytes[n].to_ascii_uppercase(),
                    _ => bytes[n].to_ascii_lowercase(),
                })
                .collect();
            key(&three)
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
