//! What a sequence means for skipping: a whitelist.
//!
//! In: bytes from an ESC, SO or SI on. Out: ignore it, apply it, or stop. Ignored sequences touch
//! only cells and the column; applied ones set something that outlives the text around them;
//! everything else is a barrier. Unknown, malformed and unfinished stop.

use super::rules::{Rule, Rules};

/// What a sequence means for skipping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Touches only cells and the column.
    Ignore,
    /// SGR.
    Sgr,
    /// Sets something that must be set.
    Apply,
    Barrier,
}

/// The class of what begins with ESC, SO or SI, and its length.
#[inline]
pub(super) fn classify(bytes: &[u8], rules: Rules) -> (Class, usize) {
    match bytes {
        [0x0e | 0x0f, ..] if rules.hold(Rule::ApplyShift) => (Class::Apply, 1),
        [0x0e | 0x0f, ..] => (Class::Ignore, 1),
        [0x1b, b'[', ..] => match sequence_len(bytes) {
            Some(len) => (classify_csi(&bytes[2..len], rules), len),
            None => malformed(bytes, rules),
        },
        [0x1b, b']', ..] => classify_osc(bytes, rules),
        // Designations of the two charsets there are.
        [0x1b, b'(' | b')' | b'*' | b'+', b'0' | b'B', ..] => {
            (if rules.hold(Rule::ApplyCharset) { Class::Apply } else { Class::Ignore }, 3)
        }
        // Keypad modes.
        [0x1b, b'=' | b'>', ..] => (Class::Apply, 2),
        _ => (Class::Barrier, 1),
    }
}

fn malformed(bytes: &[u8], rules: Rules) -> (Class, usize) {
    if rules.hold(Rule::MalformedStops) {
        (Class::Barrier, 1)
    } else {
        (Class::Ignore, bytes.len().min(2))
    }
}

/// The length of a well-formed CSI sequence: parameters, intermediates, final byte.
#[inline]
pub(super) fn sequence_len(bytes: &[u8]) -> Option<usize> {
    if bytes.get(1) != Some(&b'[') {
        return None;
    }
    let mut at = 2;
    while (0x30..=0x3f).contains(bytes.get(at)?) {
        at += 1;
    }
    while (0x20..=0x2f).contains(bytes.get(at)?) {
        at += 1;
    }
    (0x40..=0x7e).contains(&bytes[at]).then_some(at + 1)
}

/// `body`: everything after `ESC [`.
#[inline]
fn classify_csi(body: &[u8], rules: Rules) -> Class {
    let Some((&last, params)) = body.split_last() else { return Class::Barrier };
    if last == b'm' && params.first().is_none_or(|b| (b'0'..=b';').contains(b)) {
        // Intermediates or a private marker further on make it something else.
        return if is_plain(params) { Class::Sgr } else { Class::Barrier };
    }
    match params.first() {
        Some(&prefix @ b'<'..=b'?') => classify_private(prefix, &params[1..], last, rules),
        _ if is_plain(params) => classify_plain(params, last, rules),
        // Cursor style and mode reports.
        _ => match (params.split_last(), last) {
            (Some((b' ', number)), b'q') | (Some((b'$', number)), b'p') if is_plain(number) => {
                Class::Apply
            }
            _ => Class::Barrier,
        },
    }
}

fn classify_plain(params: &[u8], last: u8, rules: Rules) -> Class {
    let barrier_unless = |rule| if rules.hold(rule) { Class::Barrier } else { Class::Ignore };
    match last {
        b'K' | b'X' | b'@' | b'P' | b'G' | b'`' | b'C' | b'a' | b'D' | b'I' | b'Z' | b'b' => {
            Class::Ignore
        }
        b'h' | b'l' if matches!(params, b"4" | b"20") => applied_mode(rules),
        b'c' if matches!(params, b"" | b"0") => Class::Apply,
        b'n' if params == b"5" => Class::Apply,
        b'g' if params == b"3" => Class::Apply,
        b't' if matches!(
            params.split(|&b| b == b';').next(),
            Some(b"14" | b"16" | b"18" | b"22" | b"23")
        ) =>
        {
            Class::Apply
        }
        b'H' | b'f' => barrier_unless(Rule::CupStops),
        b'A' | b'B' | b'd' | b'e' | b'E' | b'F' => barrier_unless(Rule::VerticalStops),
        b'r' => barrier_unless(Rule::RegionStops),
        b's' | b'u' => barrier_unless(Rule::SaveStops),
        b'n' if params == b"6" && !rules.hold(Rule::ReportStops) => Class::Apply,
        b'g' => barrier_unless(Rule::TabStops),
        _ => Class::Barrier,
    }
}

fn applied_mode(rules: Rules) -> Class {
    if rules.hold(Rule::ApplyModes) { Class::Apply } else { Class::Ignore }
}

fn classify_private(prefix: u8, params: &[u8], last: u8, rules: Rules) -> Class {
    match (prefix, last) {
        (b'?', b'h' | b'l') if known_modes(params) => applied_mode(rules),
        (b'?', b'h' | b'l') if params == b"1049" && !rules.hold(Rule::AlternateStops) => {
            Class::Apply
        }
        (b'?', b'p') => match params.split_last() {
            Some((b'$', number)) if is_plain(number) => Class::Apply,
            _ => Class::Barrier,
        },
        (b'?' | b'>' | b'<' | b'=', b'u')
        | (b'>' | b'?', b'm')
        | (b'>', b'q')
        | (b'>' | b'=', b'c')
            if is_plain(params) =>
        {
            Class::Apply
        }
        _ => Class::Barrier,
    }
}

/// Modes that touch neither the grid nor the cursor's place.
const HARMLESS: [&[u8]; 15] = [
    b"1", b"7", b"12", b"25", b"1000", b"1001", b"1002", b"1003", b"1004", b"1005", b"1006",
    b"1007", b"1042", b"2004", b"2026",
];

fn known_modes(params: &[u8]) -> bool {
    params.split(|&b| b == b';').all(|mode| HARMLESS.contains(&mode))
}

#[inline]
pub(super) fn is_plain(params: &[u8]) -> bool {
    params.iter().all(|b| (b'0'..=b';').contains(b))
}

/// An OSC string ended by BEL or ST, without controls inside.
fn classify_osc(bytes: &[u8], rules: Rules) -> (Class, usize) {
    let apply = if rules.hold(Rule::ApplyOsc) { Class::Apply } else { Class::Ignore };
    let mut at = 2;
    loop {
        let Some(control) = bytes[at..].iter().position(|&b| b < 0x20) else {
            return (Class::Barrier, 1);
        };
        at += control;
        match &bytes[at..] {
            [0x07, ..] => return (apply, at + 1),
            [0x1b, b'\\', ..] => return (apply, at + 2),
            [b'\n', ..] if !rules.hold(Rule::OscLfStops) => at += 1,
            _ => return (Class::Barrier, 1),
        }
    }
}
