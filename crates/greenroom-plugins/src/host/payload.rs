//! What a hook tells a plugin.
//!
//! Text of a session gets in only as [`Filtered`]: the compiler sees to it that no plugin is told
//! what no filter saw. Everything else is a fact: a number, a flag, a word of ours.

use greenroom_engine::egress::Filtered;
use serde_json::{Map, Value};

/// The fields of one event, in the order they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload {
    fields: Map<String, Value>,
    confined: bool,
}

/// A value that cannot be a session's text.
#[derive(Clone, Debug)]
pub struct Scalar(Value);

macro_rules! scalars {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Scalar {
            fn from(value: $kind) -> Scalar {
                Scalar(value.into())
            }
        })*
    };
}

scalars!(bool, i32, u32, u64, &'static str);

impl<T: Into<Scalar>> From<Option<T>> for Scalar {
    fn from(value: Option<T>) -> Scalar {
        value.map_or(Scalar(Value::Null), Into::into)
    }
}

impl Payload {
    pub fn new() -> Payload {
        Payload::default()
    }

    /// About a session that a sandbox will be around.
    #[must_use]
    pub fn confined(mut self, confined: bool) -> Payload {
        self.confined = confined;
        self
    }

    pub(super) fn is_confined(&self) -> bool {
        self.confined
    }

    #[must_use]
    pub fn fact(mut self, name: &str, fact: impl Into<Scalar>) -> Payload {
        self.fields.insert(name.to_owned(), fact.into().0);
        self
    }

    #[must_use]
    pub fn text(mut self, name: &str, text: Filtered<String>) -> Payload {
        self.fields.insert(name.to_owned(), text.into_inner().into());
        self
    }

    /// Null where there is none.
    #[must_use]
    pub fn maybe(self, name: &str, text: Option<Filtered<String>>) -> Payload {
        match text {
            Some(text) => self.text(name, text),
            None => self.fact(name, Scalar(Value::Null)),
        }
    }

    #[must_use]
    pub fn texts(
        mut self,
        name: &str,
        texts: impl IntoIterator<Item = Filtered<String>>,
    ) -> Payload {
        let texts: Vec<Value> = texts.into_iter().map(|text| text.into_inner().into()).collect();
        self.fields.insert(name.to_owned(), texts.into());
        self
    }

    /// Any JSON, with `clean` over each of its texts and names.
    #[must_use]
    pub fn json(
        mut self,
        name: &str,
        value: Value,
        clean: &dyn Fn(String) -> Filtered<String>,
    ) -> Payload {
        self.fields.insert(name.to_owned(), cleaned(value, clean));
        self
    }

    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }
}

/// Recursion ends with the depth of JSON that the edge lets in.
fn cleaned(value: Value, clean: &dyn Fn(String) -> Filtered<String>) -> Value {
    match value {
        Value::String(text) => clean(text).into_inner().into(),
        Value::Array(items) => items.into_iter().map(|item| cleaned(item, clean)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (clean(name).into_inner(), cleaned(value, clean)))
            .collect(),
        plain => plain,
    }
}
