//! YAML that remembers where each part stands, as far as JSON can say the same.
//!
//! The parser's events make the tree without recursion. Refused, each at its place: aliases and
//! anchors (a few lines of them can mean gigabytes), tags (they choose types), a second document,
//! keys that are not texts, a key given twice. Plain words are read by the core schema of YAML 1.2:
//! `no` and `on` are words.

use std::borrow::Cow;
use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Number, Value};

use super::position::At;
use super::{Kind, Member, Node, too_deep, twice};

pub(super) fn read(text: &str, depth_max: usize) -> Result<Node<'_>, At> {
    let mut building = Building { open: Vec::new(), root: None, depth_max };
    let mut offsets = Offsets { text, chars: 0, bytes: 0 };
    let mut documents = 0;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| fault(&error, &mut offsets))?;
        let at = offsets.byte(span.start.index());
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(At::new(at, "a second document begins here: one is read"));
                }
            }
            Event::Alias(_) => return Err(At::new(at, "aliases (*name) are not read here")),
            Event::Scalar(text, style, anchor, tag) => {
                plain_only(at, anchor, tag.is_some())?;
                building.scalar(at, text, style)?;
            }
            Event::SequenceStart(anchor, tag) => {
                plain_only(at, anchor, tag.is_some())?;
                building.open(Open::List { at, items: Vec::new() })?;
            }
            Event::MappingStart(anchor, tag) => {
                plain_only(at, anchor, tag.is_some())?;
                let seen = HashSet::new();
                building.open(Open::Map { at, members: Vec::new(), seen, key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => building.close()?,
            Event::StreamEnd => break,
            Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
        }
    }
    Ok(building.root.unwrap_or(Node { at: 0, kind: Kind::Plain(Value::Null) }))
}

fn plain_only(at: usize, anchor: usize, tagged: bool) -> Result<(), At> {
    match (anchor, tagged) {
        (0, false) => Ok(()),
        (0, true) => Err(At::new(at, "tags (!name) are not read here")),
        _ => Err(At::new(at, "anchors (&name) are not read here")),
    }
}

/// A list or map whose end has not come.
enum Open<'a> {
    List {
        at: usize,
        items: Vec<Node<'a>>,
    },
    Map {
        at: usize,
        members: Vec<Member<'a>>,
        seen: HashSet<Cow<'a, str>>,
        key: Option<(usize, Cow<'a, str>)>,
    },
}

impl Open<'_> {
    fn at(&self) -> usize {
        match self {
            Open::List { at, .. } | Open::Map { at, .. } => *at,
        }
    }
}

struct Building<'a> {
    open: Vec<Open<'a>>,
    root: Option<Node<'a>>,
    depth_max: usize,
}

impl<'a> Building<'a> {
    fn scalar(&mut self, at: usize, text: Cow<'a, str>, style: ScalarStyle) -> Result<(), At> {
        if let Some(Open::Map { seen, key: key @ None, .. }) = self.open.last_mut() {
            if text == "<<" && style == ScalarStyle::Plain {
                return Err(At::new(at, "merge keys (<<) are not read here"));
            }
            if !seen.insert(text.clone()) {
                return Err(twice(at, &text));
            }
            *key = Some((at, text));
            return Ok(());
        }
        let value = match style {
            ScalarStyle::Plain => word(&text).map_err(|why| At::new(at, why))?,
            _ => Value::String(text.into_owned()),
        };
        self.put(Node { at, kind: Kind::Plain(value) })
    }

    fn open(&mut self, open: Open<'a>) -> Result<(), At> {
        if self.open.len() > self.depth_max {
            return Err(too_deep(open.at(), self.depth_max));
        }
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(At::new(open.at(), "a key must be a text"));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), At> {
        match self.open.pop() {
            Some(Open::List { at, items }) => self.put(Node { at, kind: Kind::List(items) }),
            Some(Open::Map { at, members, .. }) => self.put(Node { at, kind: Kind::Map(members) }),
            None => Ok(()),
        }
    }

    fn put(&mut self, node: Node<'a>) -> Result<(), At> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { members, key, .. }) => match key.take() {
                Some((at, name)) => members.push(Member { at, name, value: node }),
                None => return Err(At::new(node.at, "a key must be a text")),
            },
        }
        Ok(())
    }
}

/// A word without quotes, by the core schema.
fn word(text: &str) -> Result<Value, &'static str> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text if is_number(text) => number(text)?,
        text => Value::String(text.to_owned()),
    })
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(hex) = text.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let mantissa = match mantissa.split_once('.') {
        Some((whole, "")) => digits(whole),
        Some(("", part)) => digits(part),
        Some((whole, part)) => digits(whole) && digits(part),
        None => digits(mantissa),
    };
    let exponent = exponent.map(|text| text.strip_prefix(['-', '+']).unwrap_or(text));
    mantissa && exponent.is_none_or(digits)
}

fn number(text: &str) -> Result<Value, &'static str> {
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok();
    let whole = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
        (Some(hex), _) => radix(hex, 16),
        (_, Some(octal)) => radix(octal, 8),
        _ => text.parse().ok(),
    };
    let real = || text.parse::<f64>().ok().and_then(Number::from_f64);
    match whole {
        Some(whole) => Ok(Value::Number(whole.into())),
        None if text.contains(['.', 'e', 'E']) => {
            real().map(Value::Number).ok_or("only finite numbers are read here")
        }
        None => Err("this number is larger than any that is read here"),
    }
}

/// The parser counts characters, we count bytes. Events come nearly in order, so this walks along.
struct Offsets<'a> {
    text: &'a str,
    chars: usize,
    bytes: usize,
}

impl Offsets<'_> {
    fn byte(&mut self, index: usize) -> usize {
        while self.chars > index {
            self.chars -= 1;
            self.bytes = self.text.floor_char_boundary(self.bytes.saturating_sub(1));
        }
        for character in self.text[self.bytes..].chars() {
            if self.chars >= index {
                break;
            }
            self.chars += 1;
            self.bytes += character.len_utf8();
        }
        self.bytes
    }
}

fn fault(error: &ScanError, offsets: &mut Offsets<'_>) -> At {
    At::new(offsets.byte(error.marker().index()), error.info())
}
