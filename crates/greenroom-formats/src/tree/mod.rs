//! A text as a tree that remembers where each part stands: JSON, TOML and YAML in one form.
//!
//! In: text that a person wrote. Out: [`Node`]s with byte offsets, or the first fault of syntax;
//! from there [`walk`] finds what does not fit a schema and [`Positions`] tells it by line and
//! column. All three syntaxes give the same tree for the same content, refuse a key that is given
//! twice, and stop at a depth. Of YAML only what JSON can say is read: no aliases, no tags, one
//! document.
//!
//! Absent on purpose: reading files, and any idea of what the keys mean.

use std::borrow::Cow;

use serde_json::Value;

mod json;
mod position;
mod toml;
pub mod walk;
mod yaml;

#[cfg(test)]
mod tests;

pub use position::{At, FileError, Positions, Problem};

/// In which syntax a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    /// TOML 1.1.
    Toml,
    /// YAML 1.2, core schema.
    Yaml,
}

impl Syntax {
    /// By the end of a file's name.
    pub fn of(file: &str) -> Option<Syntax> {
        let (_, end) = file.rsplit_once('.')?;
        match end.to_ascii_lowercase().as_str() {
            "json" => Some(Syntax::Json),
            "toml" => Some(Syntax::Toml),
            "yaml" | "yml" => Some(Syntax::Yaml),
            _ => None,
        }
    }
}

/// A part of a text.
#[derive(Debug)]
pub struct Node<'a> {
    /// Offset of its first byte.
    pub at: usize,
    pub kind: Kind<'a>,
}

/// What a part is.
#[derive(Debug)]
pub enum Kind<'a> {
    /// `null`, a truth value, a number or a text.
    Plain(Value),
    /// Parts in order.
    List(Vec<Node<'a>>),
    /// Parts by name.
    Map(Vec<Member<'a>>),
}

/// A named part.
#[derive(Debug)]
pub struct Member<'a> {
    /// Offset of its name.
    pub at: usize,
    pub name: Cow<'a, str>,
    pub value: Node<'a>,
}

/// One step into a tree.
#[derive(Clone, Copy, Debug)]
pub enum Step<'s> {
    /// Into a map.
    Key(&'s str),
    /// Into a list.
    Index(usize),
}

/// Reads a text. `depth_max` is how many brackets may stand in brackets.
pub fn read(syntax: Syntax, text: &str, depth_max: usize) -> Result<Node<'_>, At> {
    // An editor on Windows may have put this before the first letter.
    let whole = text.strip_prefix('\u{feff}').unwrap_or(text);
    let skipped = text.len() - whole.len();
    let read = match syntax {
        Syntax::Json => json::read(whole, depth_max),
        Syntax::Toml => toml::read(whole, depth_max),
        Syntax::Yaml => yaml::read(whole, depth_max),
    };
    match read {
        Ok(mut root) => {
            root.shift(skipped);
            Ok(root)
        }
        Err(problem) => Err(At::new(problem.at + skipped, problem.text)),
    }
}

impl<'a> Node<'a> {
    /// Without offsets.
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Plain(value) => value.clone(),
            Kind::List(items) => items.iter().map(Node::value).collect(),
            Kind::Map(members) => members
                .iter()
                .map(|member| (member.name.clone().into_owned(), member.value.value()))
                .collect(),
        }
    }

    /// The member of this name, if this is a map that has it.
    pub fn get(&self, name: &str) -> Option<&Node<'a>> {
        self.member(name).map(|member| &member.value)
    }

    /// The same with the place of the name.
    pub fn member(&self, name: &str) -> Option<&Member<'a>> {
        match &self.kind {
            Kind::Map(members) => members.iter().find(|member| member.name == name),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Plain(value) => value.as_str(),
            _ => None,
        }
    }

    /// The offset of the part a path leads to, or of the last part on the way that exists.
    pub fn find(&self, path: &[Step<'_>]) -> usize {
        let mut node = self;
        for step in path {
            let next = match (step, &node.kind) {
                (Step::Key(key), Kind::Map(_)) => node.get(key),
                (Step::Index(index), Kind::List(items)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.at
    }

    fn shift(&mut self, by: usize) {
        if by == 0 {
            return;
        }
        self.at += by;
        match &mut self.kind {
            Kind::Plain(_) => {}
            Kind::List(items) => items.iter_mut().for_each(|item| item.shift(by)),
            Kind::Map(members) => members.iter_mut().for_each(|member| {
                member.at += by;
                member.value.shift(by);
            }),
        }
    }
}

fn too_deep(at: usize, depth_max: usize) -> At {
    At::new(at, format!("nested deeper than {depth_max} levels"))
}

fn twice(at: usize, name: &str) -> At {
    At::new(at, format!("the key {name:?} is given twice"))
}

/// `, did you mean "y"?` or nothing.
pub(crate) fn meant<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    greenroom_protocol::nearest(wrong, known)
        .map(|known| format!(", did you mean {known:?}?"))
        .unwrap_or_default()
}
