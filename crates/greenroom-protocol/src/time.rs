//! Points in time as they appear on the wire: RFC 3339 in UTC with milliseconds.
//!
//! In: milliseconds since the Unix epoch, or a text of that form. Out: the text.
//! Absent on purpose: time zones, leap seconds, the clock itself.

use std::fmt;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch. On the wire `"2026-11-15T21:13:00.123Z"`; a plain number of
/// milliseconds is accepted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// The last moment with a four-digit year; anything later is shown as this one.
const MAX_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    /// From the system clock; a clock before 1970 counts as 1970.
    pub fn from_system(time: std::time::SystemTime) -> Timestamp {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> u64 {
        self.0
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction]Z`, from 1970 on.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let time =
            DateTime::parse_from_rfc3339(text).ok().filter(|_| text.ends_with(['Z', 'z']))?;
        u64::try_from(time.timestamp_millis()).ok().map(Timestamp)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = i64::try_from(self.0).unwrap_or(MAX_MS).min(MAX_MS);
        let time = DateTime::from_timestamp_millis(ms).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time in UTC, or milliseconds since 1970")
            }
            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Timestamp, E> {
                Ok(Timestamp(ms))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (MAX_MS as u64, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(ms)));
        }
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn fractions_of_any_length() {
        assert_eq!(Timestamp::parse("1970-01-01T00:00:01Z"), Some(Timestamp(1000)));
        assert_eq!(Timestamp::parse("1970-01-01T00:00:01.5Z"), Some(Timestamp(1500)));
        assert_eq!(Timestamp::parse("1970-01-01T00:00:01.123456Z"), Some(Timestamp(1123)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "now",
            "1970-01-01",
            "1970-13-01T00:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:0éZ",
            "+970-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back(ms in 0..=MAX_MS as u64) {
            prop_assert_eq!(Timestamp::parse(&Timestamp(ms).to_string()), Some(Timestamp(ms)));
        }
        #[test]
        fn parse_never_panics(text in ".{0,30}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
