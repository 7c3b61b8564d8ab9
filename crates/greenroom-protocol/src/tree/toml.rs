//! TOML that remembers where each part stands.
//!
//! The grammar, and refusing a key that is given twice, are the `toml` crate's, which also caps how deep
//! keys and brackets go before it builds anything. Dates have no place in the other syntaxes: refused.

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::position::At;
use super::{Kind, Member, Node, too_deep};

pub(super) fn read(text: &str, depth_max: usize) -> Result<Node<'_>, At> {
    let table = DeTable::parse(text).map_err(|error| {
        At::new(error.span().map_or(0, |span| span.start), words(error.message()))
    })?;
    Reading { depth_max }.table(table.into_inner(), 0, 0)
}

struct Reading {
    depth_max: usize,
}

impl Reading {
    fn table<'a>(&self, table: DeTable<'a>, at: usize, depth: usize) -> Result<Node<'a>, At> {
        let mut members = Vec::with_capacity(table.len());
        for (key, value) in table {
            let at = key.span().start;
            let value = self.value(value, depth + 1)?;
            members.push(Member { at, name: key.into_inner(), value });
        }
        // The map is sorted; problems are told in the order of the file.
        members.sort_by_key(|member: &Member<'_>| member.at);
        Ok(Node { at, kind: Kind::Map(members) })
    }

    fn value<'a>(&self, value: Spanned<DeValue<'a>>, depth: usize) -> Result<Node<'a>, At> {
        let at = value.span().start;
        if depth > self.depth_max {
            return Err(too_deep(at, self.depth_max));
        }
        let plain = match value.into_inner() {
            DeValue::Table(table) => return self.table(table, at, depth),
            DeValue::Array(items) => {
                let items = items.into_iter().map(|item| self.value(item, depth + 1));
                return Ok(Node { at, kind: Kind::List(items.collect::<Result<_, _>>()?) });
            }
            DeValue::String(text) => Value::String(text.into_owned()),
            DeValue::Boolean(flag) => Value::Bool(flag),
            DeValue::Integer(number) => whole(&number)
                .ok_or_else(|| At::new(at, "this number is larger than any that is read here"))?,
            DeValue::Float(number) => {
                real(&number).ok_or_else(|| At::new(at, "only finite numbers are read here"))?
            }
            DeValue::Datetime(_) => {
                return Err(At::new(at, "a date has no meaning here: put it in quotes"));
            }
        };
        Ok(Node { at, kind: Kind::Plain(plain) })
    }
}

fn whole(number: &DeInteger<'_>) -> Option<Value> {
    let read = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
    Some(Value::Number(read.into()))
}

fn real(number: &DeFloat<'_>) -> Option<Value> {
    Number::from_f64(number.as_str().parse().ok()?).map(Value::Number)
}

/// One line of it.
fn words(message: &str) -> String {
    message.replace('\n', ", ")
}
