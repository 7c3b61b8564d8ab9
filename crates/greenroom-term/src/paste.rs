//! Pasted text on its way to the program.
//!
//! In: text of any origin. Out: the bytes a terminal sends. Where the program asked for bracketed
//! paste the text is wrapped, and whatever inside it could pass for the closing bracket is taken
//! out, since everything after it would be run as typed keys. Otherwise newlines become CR, as
//! Enter sends it.
//!
//! Deliberately absent: other filtering. Control characters are the sender's text; only the end
//! marker breaks the frame.

use crate::input_modes::InputModes;

const START: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";
const END_PARAMETER: u64 = 201;

/// The bytes a terminal in these modes sends when this text is pasted.
pub fn encode_paste(text: &str, modes: &InputModes) -> Vec<u8> {
    if !modes.bracketed_paste {
        return text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
    }
    let mut bytes = Vec::with_capacity(text.len() + START.len() + END.len());
    bytes.extend_from_slice(START);
    bytes.extend_from_slice(without_end_markers(text).as_bytes());
    bytes.extend_from_slice(END);
    bytes
}

/// The text without any sequence that a parser takes for `CSI 201 ~`. Looking back from each `~`
/// over what is already kept finds markers that only appear when an inner one is taken out.
fn without_end_markers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        kept.push(c);
        if c == '~'
            && let Some(start) = marker_start(&kept)
        {
            kept.truncate(start);
        }
    }
    kept
}

/// Where a marker that ends with the last character of `kept` begins. Parsers skip C0 controls, DEL
/// and bytes above 127 inside a sequence and read `0201`, `201;0` and `201:0` as 201, so these
/// count as well. One walk to the left, over nothing that an earlier `~` has walked.
fn marker_start(kept: &str) -> Option<usize> {
    let mut first_parameter = 0u64;
    let mut scale = 1u64;
    let mut in_parameters = true;
    for (at, c) in kept.char_indices().rev().skip(1) {
        match c {
            '0'..='9' if in_parameters => {
                let digit = u64::from(u32::from(c) - u32::from('0'));
                first_parameter = first_parameter.saturating_add(digit.saturating_mul(scale));
                scale = scale.saturating_mul(10);
            }
            ';' | ':' if in_parameters => (first_parameter, scale) = (0, 1),
            '\u{9b}' if in_parameters && first_parameter == END_PARAMETER => return Some(at),
            '[' if in_parameters && first_parameter == END_PARAMETER => in_parameters = false,
            '\u{1b}' => return (!in_parameters).then_some(at),
            skipped if skipped.is_ascii_control() || !skipped.is_ascii() => {}
            _ => return None,
        }
    }
    None
}
