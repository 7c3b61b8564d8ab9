//! Words of the command line into values.
//!
//! In: one argument. Out: its value, or what is wanted instead.

use std::time::Duration;

use greenroom_protocol::api::screen::Size;
use greenroom_protocol::api::session::SessionState;

use crate::commands::wait::Until;

pub fn parse_size(text: &str) -> Result<Size, String> {
    const RANGE: std::ops::RangeInclusive<u16> = 1..=1000;
    Size::parse(text)
        .filter(|size| RANGE.contains(&size.cols) && RANGE.contains(&size.rows))
        .ok_or_else(|| "columns and rows are wanted, 1 to 1000 each, such as 120x40".to_owned())
}

pub fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("K=V is wanted")?;
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err("a name is wanted before the =".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads `500ms`, `30s`, `1.5m`, `2h`, `1d`; a bare number counts seconds.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wanted = || "a time is wanted, such as 500ms, 30s, 2m or 1h".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wanted()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wanted())? * factor;
    Duration::try_from_secs_f64(seconds).map_err(|_| wanted())
}

pub fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    speed
        .filter(|speed| (0.0..=10_000.0).contains(speed))
        .ok_or_else(|| "a factor is wanted, such as 2 or 0.5".to_owned())
}

/// How long the screen must rest when `stable` has no number.
const STABLE_MS: u64 = 500;

pub fn parse_until(text: &str) -> Result<Until, String> {
    let (word, value) = match text.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (text, None),
    };
    match (word, value) {
        ("exit", None) => Ok(Until::Exit),
        ("success", None) => Ok(Until::Success),
        ("stable", None) => Ok(Until::Stable(STABLE_MS)),
        ("stable", Some(ms)) => {
            let plain = ms.parse::<u64>().ok();
            let ms = plain.or_else(|| {
                parse_time(ms).ok().and_then(|time| u64::try_from(time.as_millis()).ok())
            });
            ms.map(Until::Stable)
                .ok_or_else(|| "stable takes milliseconds, such as stable=300".to_owned())
        }
        ("text", Some(pattern)) if !pattern.is_empty() => Ok(Until::Text(pattern.to_owned())),
        ("state", Some(name)) if !name.is_empty() => SessionState::named(name).map(Until::State),
        _ => Err("exit, success, stable[=MS], text=REGEX or state=NAME is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(
                parse_time(text).ok().map(|time| time.as_millis()),
                ms.map(u128::from),
                "{text}"
            );
        };
        check("30s", Some(30_000));
        check("2", Some(2_000));
        check("250ms", Some(250));
        check("1.5m", Some(90_000));
        check("", None);
        check("s", None);
        check("5 s", None);
        check("-1s", None);
        check("1y", None);
    }

    #[test]
    fn conditions() {
        assert_eq!(parse_until("exit").unwrap(), Until::Exit);
        assert_eq!(parse_until("success").unwrap(), Until::Success);
        assert_eq!(parse_until("state=lost").unwrap(), Until::State(SessionState::Lost));
        let nonsense = parse_until("state=nonsense").unwrap_err();
        assert!(nonsense.ends_with("starting, running, exited, failed, lost"), "{nonsense}");
        assert!(parse_until("state=Runing").unwrap_err().ends_with("did you mean running?"));
        assert_eq!(parse_until("stable=300").unwrap(), Until::Stable(300));
        assert_eq!(parse_until("stable=2s").unwrap(), Until::Stable(2000));
        assert_eq!(parse_until("text=a=b").unwrap(), Until::Text("a=b".into()));
        assert!(
            parse_until("text=").is_err()
                && parse_until("exit=1").is_err()
                && parse_until("idle").is_err()
        );
    }
}
