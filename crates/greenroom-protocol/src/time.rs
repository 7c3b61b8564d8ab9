//! Points in time as they appear on the wire: RFC 3339 in UTC with milliseconds.
//!
//! In: milliseconds since the Unix epoch, or a text of that form. Out: the text.
//! Absent on purpose: time zones, leap seconds, the clock itself.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since the Unix epoch. On the wire `"2026-11-15T21:13:00.123Z"`; a plain number of
/// milliseconds is accepted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// The last moment with a four-digit year; anything later is shown as this one.
const MAX_MS: u64 = 253_402_300_799_999;
const DAY_MS: u64 = 86_400_000;

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

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction]Z`.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let rest = text.get(19..)?.strip_suffix(['Z', 'z'])?;
        let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        if marks.iter().any(|&(at, mark)| bytes[at] != mark)
            || !matches!(bytes[10], b'T' | b't' | b' ')
        {
            return None;
        }
        let field = |from: usize, to: usize| -> Option<u64> {
            let digits = text.get(from..to)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
        let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
        let in_range = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !in_range || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let ms = match rest.strip_prefix('.') {
            None if rest.is_empty() => 0,
            Some(fraction)
                if !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit()) =>
            {
                fraction
                    .bytes()
                    .chain(*b"00")
                    .take(3)
                    .fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0'))
            }
            _ => return None,
        };
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        Some(Timestamp(seconds * 1000 + ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.min(MAX_MS);
        let (year, month, day) = civil_from_days(ms / DAY_MS);
        let in_day = ms % DAY_MS;
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, counted in years that begin in
/// March so that the leap day is the last of its year. `year` is at least 1970.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
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
            (MAX_MS, "9999-12-31T23:59:59.999Z"),
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
        fn text_and_back(ms in 0..=MAX_MS) {
            prop_assert_eq!(Timestamp::parse(&Timestamp(ms).to_string()), Some(Timestamp(ms)));
        }
        #[test]
        fn parse_never_panics(text in ".{0,30}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
