//! The session plugin `timeout`: how long a session may live, and how long without output.
//!
//! It only writes the limits into the spec; they are kept with the chain, count from the program's
//! start on the wall clock, and therefore survive the host. Deliberately absent: the clock itself
//! and the signals, which are the daemon's.

use std::time::Duration;

use crate::spec::{Description, Limits, Preparing, Refusal, SessionPlugin, SessionSpec};

/// A limit further away than this is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

pub const ABOUT: Description = Description {
    name: "timeout",
    summary: Some("how long a session may run"),
    asks: &["timeout_ms", "idle_timeout_ms"],
    order: 950,
    durable: false,
};

pub struct Timeout;

impl SessionPlugin for Timeout {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        Box::pin(std::future::ready(limit(spec)))
    }
}

fn limit(spec: &mut SessionSpec) -> Result<(), Refusal> {
    let (timeout, idle) = ("timeout", "idle timeout");
    spec.limits = Limits {
        timeout: checked(timeout, spec.ask.timeout_ms)?,
        idle_timeout: checked(idle, spec.ask.idle_timeout_ms)?,
    };
    for (name, limit) in [(timeout, spec.limits.timeout), (idle, spec.limits.idle_timeout)] {
        spec.done.extend(limit.map(|limit| format!("{name}: {} s", limit.as_secs_f64())));
    }
    Ok(())
}

fn checked(name: &str, asked_ms: Option<u64>) -> Result<Option<Duration>, Refusal> {
    let limit = asked_ms.map(Duration::from_millis);
    match limit.filter(|limit| limit.is_zero() || *limit > LONGEST) {
        None => Ok(limit),
        Some(limit) => {
            let days = LONGEST.as_secs() / 86400;
            Err(Refusal::new(format!(
                "cannot set the {name} to {} s: it must be more than 0 and at most {days} days",
                limit.as_secs_f64()
            ))
            .hint("the command line takes seconds (3600) or a unit (90m); JSON takes timeout_ms"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;

    #[tokio::test]
    async fn limits_pass_and_nonsense_does_not() {
        let mut good = spec(1);
        good.ask.timeout_ms = Some(1500);
        assert!(Timeout.wanted(&good));
        Timeout.dry_run(&mut good).await.unwrap();
        assert_eq!(good.limits.timeout, Some(Duration::from_millis(1500)));
        for bad in [0, 2 * LONGEST.as_millis() as u64] {
            let mut spec = spec(1);
            spec.ask.idle_timeout_ms = Some(bad);
            let refusal = Timeout.dry_run(&mut spec).await.unwrap_err();
            assert!(refusal.what.starts_with("cannot set the idle timeout to"), "{refusal}");
        }
        assert!(!Timeout.wanted(&spec(1)));
    }
}
