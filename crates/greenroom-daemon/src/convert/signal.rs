//! Signals by name and number.

use greenroom_protocol::api::session::SignalName;
use greenroom_protocol::{Fault, FaultKind};

/// Those of Linux that a person would send, in the order of their numbers, from 1 on; these differ
/// elsewhere.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The last of the real-time signals.
const NUMBER_MAX: i32 = 64;

/// `SIGKILL`, or `signal 42` for one without a name.
pub(crate) fn full_name(number: i32) -> String {
    match (1..).zip(NAMES).find(|(known, _)| *known == number) {
        Some((_, name)) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

pub(crate) fn number(signal: &SignalName) -> Result<i32, Fault> {
    let number = match signal {
        SignalName::Number(number) => Some(*number).filter(|n| (1..=NUMBER_MAX).contains(n)),
        SignalName::Name(name) => {
            let canonical = signal.canonical().unwrap_or_default();
            let named = (1..).zip(NAMES).find(|(_, known)| *known == canonical);
            let numbered = name.trim().parse().ok().filter(|n| (1..=NUMBER_MAX).contains(n));
            named.map(|(number, _)| number).or(numbered)
        }
    };
    number.ok_or_else(|| {
        Fault::new(
            FaultKind::InvalidParams,
            format!("invalid params: there is no signal `{signal}`"),
        )
        .hint("such as term, hup, int, quit, kill, usr1, usr2, or a number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_form_and_numbers() {
        for (text, expected) in
            [("term", 15), ("SIGKILL", 9), ("user1", 10), ("12", 12), ("Hup", 1)]
        {
            assert_eq!(number(&SignalName::Name(text.to_owned())).unwrap(), expected, "{text}");
        }
        assert_eq!(number(&SignalName::Number(64)).unwrap(), 64);
        for wrong in
            [SignalName::Number(0), SignalName::Number(65), SignalName::Name("nope".into())]
        {
            assert!(number(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(full_name(9), "SIGKILL");
        assert_eq!(full_name(42), "signal 42");
        assert_eq!(full_name(31), "SIGSYS");
    }
}
