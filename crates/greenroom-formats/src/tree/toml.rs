//! TOML that remembers where each part stands.
//!
//! The grammar, and refusing a key that is given twice, are the `toml` crate's, which also caps how
//! deep keys and brackets go before it builds anything. Dates have no place in the other syntaxes:
//! refused.

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::position::At;
use super::{Kind, Member, Node, too_deep};

pub(super) fn read(text: &str, depth_max: usize) -> Result<Node<'_>, At> {
    let table = DeTable::parse(text).map_err(|error| {
        // One line of it.
        let words = error.message().replace('\n', ", ");
        At::new(error.span().map_or(0, |span| span.start), words)
    })?;
    node(DeValue::Table(table.into_inner()), 0, 0, depth_max)
}

fn node<'a>(value: DeValue<'a>, at: usize, depth: usize, depth_max: usize) -> Result<Node<'a>, At> {
    if depth > depth_max {
        return Err(too_deep(at, depth_max));
    }
    let inner = |value: Spanned<DeValue<'a>>| {
        let at = value.span().start;
        node(value.into_inner(), at, depth + 1, depth_max)
    };
    let plain = match value {
        DeValue::Table(table) => {
            let mut members = Vec::with_capacity(table.len());
            for (key, value) in table {
                let at = key.span().start;
                members.push(Member { at, name: key.into_inner(), value: inner(value)? });
            }
            // The map is sorted; problems are told in the order of the file.
            members.sort_by_key(|member: &Member<'_>| member.at);
            return Ok(Node { at, kind: Kind::Map(members) });
        }
        DeValue::Array(items) => {
            let items = items.into_iter().map(inner).collect::<Result<_, _>>()?;
            return Ok(Node { at, kind: Kind::List(items) });
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

fn whole(number: &DeInteger<'_>) -> Option<Value> {
    let read = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
    Some(Value::Number(read.into()))
}

fn real(number: &DeFloat<'_>) -> Option<Value> {
    Number::from_f64(number.as_str().parse().ok()?).map(Value::Number)
}
