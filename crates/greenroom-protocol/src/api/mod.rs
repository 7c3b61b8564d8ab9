//! Params and results of every method, by group, plus the objects they share.
//!
//! The types read unknown fields over, so that a client understands a newer host, and refuse wrong
//! types; what a host is sent is looked through by [`crate::members`] first. Outbound optional
//! fields are left out when empty. Absent on purpose: behaviour. The daemon gives these types their
//! meaning.

pub mod ask;
pub mod control;
pub mod event;
pub mod fence;
pub mod input;
pub mod matcher;
pub mod notice;
pub mod plugin;
pub mod redact;
pub mod run;
pub mod screen;
pub mod server;
pub mod session;
pub mod stream;
pub mod wait;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A result with nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// Bytes as base64 text (standard alphabet, padding optional when read).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

const LENIENT: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    base64::engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&LENIENT.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Base64, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        LENIENT
            .decode(text.as_bytes())
            .map(Base64)
            .map_err(|error| de::Error::custom(format!("not base64: {error}")))
    }
}

impl JsonSchema for Base64 {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Base64".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "contentEncoding": "base64" })
    }
}

/// One value or a list of them, both read the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// `"a"`
    One(T),
    /// `["a", "b"]`
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// All values.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// An enum whose values are words, on the wire and for people: each is stated once.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $value:ident $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $word)] $value,)*
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// As on the wire.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }
        }
    };
}
pub(crate) use words;

/// For `skip_serializing_if`: a flag that is off says nothing.
pub fn is_false(flag: &bool) -> bool {
    !flag
}

/// For `skip_serializing_if`: nothing to count says nothing.
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// For `default`: a flag that is on unless said otherwise.
pub(crate) fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_with_and_without_padding() {
        for text in ["\"aGk=\"", "\"aGk\""] {
            assert_eq!(serde_json::from_str::<Base64>(text).unwrap().0, b"hi");
        }
        assert!(serde_json::from_str::<Base64>("\"a*b\"").is_err());
        assert_eq!(serde_json::to_string(&Base64(b"hi".to_vec())).unwrap(), "\"aGk=\"");
    }
}
