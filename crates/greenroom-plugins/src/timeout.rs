//! The session plugin `timeout`: how long a session may live, and how long without output.
//!
//! It only writes the limits into the spec; they are kept with the chain, count from the program's start on the wall
//! clock, and therefore survive the host. Deliberately absent: the clock itself and the signals, which are the daemon's.

use std::time::Duration;

use crate::spec::{
    Cleanup, CleanupError, Limits, PluginState, Refusal, SessionEnd, SessionPlugin, SessionSpec,
    Wait, order,
};

/// A limit further away than this is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

pub struct Timeout;

impl Timeout {
    fn apply(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        let asked = spec.ask.limits;
        for (name, limit) in [("timeout", asked.timeout), ("idle timeout", asked.idle_timeout)] {
            let Some(limit) = limit else { continue };
            if limit.is_zero() || limit > LONGEST {
                let days = LONGEST.as_secs() / 86400;
                return Err(Refusal::new(format!(
                    "cannot set the {name} to {} s: it must be more than 0 and at most {days} days",
                    limit.as_secs_f64()
                ))
                .hint(
                    "the command line takes seconds (3600) or a unit (90m); JSON takes timeout_ms",
                ));
            }
        }
        spec.limits = asked;
        Ok(())
    }
}

impl SessionPlugin for Timeout {
    fn name(&self) -> &str {
        "timeout"
    }

    fn order(&self) -> u16 {
        order::TIMEOUT
    }

    fn durable(&self) -> bool {
        false
    }

    fn wanted(&self, spec: &SessionSpec) -> bool {
        spec.ask.limits != Limits::default()
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        _: &'a mut PluginState,
    ) -> Wait<'a, Result<(), Refusal>> {
        Box::pin(async move { self.apply(spec) })
    }

    fn after_session<'a>(
        &'a self,
        _: &'a SessionEnd,
        _: &'a PluginState,
    ) -> Wait<'a, Result<Cleanup, CleanupError>> {
        Box::pin(async { Ok(Cleanup::Nothing) })
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Wait<'a, Result<(), Refusal>> {
        Box::pin(async move { self.apply(spec) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;

    #[tokio::test]
    async fn limits_pass_and_nonsense_does_not() {
        let mut good = spec(1);
        good.ask.limits.timeout = Some(Duration::from_millis(1500));
        assert!(Timeout.wanted(&good));
        Timeout.dry_run(&mut good).await.unwrap();
        assert_eq!(good.limits.timeout, Some(Duration::from_millis(1500)));
        for bad in [Duration::ZERO, LONGEST * 2] {
            let mut spec = spec(1);
            spec.ask.limits.idle_timeout = Some(bad);
            let refusal = Timeout.dry_run(&mut spec).await.unwrap_err();
            assert!(refusal.what.starts_with("cannot set the idle timeout to"), "{refusal}");
        }
        assert!(!Timeout.wanted(&spec(1)));
    }
}
