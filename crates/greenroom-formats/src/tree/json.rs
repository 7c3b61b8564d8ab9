//! JSON that remembers where each part stands.
//!
//! The grammar is `serde_json`'s; a part's offset is that of the slice it was read from. Each level
//! reads its parts again, which the cap on depth makes harmless.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::position::At;
use super::{Kind, Member, Node, too_deep, twice};

pub(super) fn read(text: &str, depth_max: usize) -> Result<Node<'_>, At> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
        // Read in earnest it says better what is wrong.
        let error = serde_json::from_str::<Value>(text).err().unwrap_or(error);
        At::new(offset(text, &error), words(&error))
    })?;
    Reading { text, depth_max }.node(raw, 0)
}

struct Reading<'a> {
    text: &'a str,
    depth_max: usize,
}

impl<'a> Reading<'a> {
    fn node(&self, raw: &'a RawValue, depth: usize) -> Result<Node<'a>, At> {
        let source = raw.get();
        let at = self.place(source);
        if depth > self.depth_max {
            return Err(too_deep(at, self.depth_max));
        }
        let fault = |error: serde_json::Error| At::new(at, words(&error));
        let kind = match source.as_bytes().first() {
            Some(b'{') => {
                let Members(parts) = serde_json::from_str(source).map_err(fault)?;
                Kind::Map(self.members(parts, depth)?)
            }
            Some(b'[') => {
                let parts: Vec<&RawValue> = serde_json::from_str(source).map_err(fault)?;
                let items = parts.into_iter().map(|part| self.node(part, depth + 1));
                Kind::List(items.collect::<Result<_, _>>()?)
            }
            _ => Kind::Plain(serde_json::from_str(source).map_err(fault)?),
        };
        Ok(Node { at, kind })
    }

    fn members(
        &self,
        parts: Vec<(Name<'a>, &'a RawValue)>,
        depth: usize,
    ) -> Result<Vec<Member<'a>>, At> {
        let mut members: Vec<Member<'a>> = Vec::new();
        let mut seen = HashSet::new();
        for (Name(name), raw) in parts {
            let at = match &name {
                // The quote before it.
                Cow::Borrowed(name) => self.place(name).saturating_sub(1),
                Cow::Owned(_) => self.place(raw.get()),
            };
            if !seen.insert(name.clone()) {
                return Err(twice(at, &name));
            }
            members.push(Member { at, name, value: self.node(raw, depth + 1)? });
        }
        Ok(members)
    }

    fn place(&self, part: &str) -> usize {
        let within = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        within.unwrap_or(0).min(self.text.len())
    }
}

/// Borrowed where it is written without escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A map as it stands: what is given twice is still there twice.
struct Members<'a>(Vec<(Name<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = map.next_entry()? {
                    parts.push(part);
                }
                Ok(Members(parts))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// The byte that an error of `serde_json` names by line and column.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let before: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    // It counts the bytes read, so the last of them is the one that is wrong.
    (before + error.column().saturating_sub(1)).min(text.len())
}

/// Its sentence without the position, which we tell our own way.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
