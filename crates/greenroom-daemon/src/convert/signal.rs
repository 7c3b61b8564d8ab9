//! Signals by name and number.

use greenroom_protocol::api::session::SignalName;
use greenroom_protocol::{Fault, FaultKind};

/// Those of Linux that a person would send; numbers differ elsewhere.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// The last of the real-time signals.
const NUMBER_MAX: i32 = 64;

/// `SIGKILL`, or `signal 42` for one without a name.
pub fn full_name(number: i32) -> String {
    match SIGNALS.iter().find(|(_, known)| *known == number) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

pub fn number(signal: &SignalName) -> Result<i32, Fault> {
    let number = match signal {
        SignalName::Number(number) => Some(*number).filter(|n| (1..=NUMBER_MAX).contains(n)),
        SignalName::Name(name) => {
            let canonical = signal.canonical().unwrap_or_default();
            let named = SIGNALS.iter().find(|(known, _)| *known == canonical);
            let numbered = name.trim().parse().ok().filter(|n| (1..=NUMBER_MAX).contains(n));
            named.map(|(_, number)| *number).or(numbered)
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
    }

    #[test]
    fn the_table_is_in_order() {
        assert!((1..).zip(SIGNALS).all(|(expected, (_, number))| expected == *number));
    }
}
