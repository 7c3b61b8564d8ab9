//! What must hold of every masked stream, whatever is in it and however it comes.

mod benign;
mod property;
mod samples;

use std::sync::Arc;

use super::{HOLD_MAX, Literals, Redactor, Rules, Shield};
use crate::id::Seq;

fn shield(values: &[&str]) -> Arc<Shield> {
    let literals = Literals::new(values.iter().map(|value| value.as_bytes()));
    Arc::new(Shield::new(Rules::built_in(), literals))
}

/// In pieces, looking at what is held back after each.
fn in_pieces(shield: &Arc<Shield>, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut redactor = Redactor::new(shield.clone(), Seq(0));
    let mut out = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        redactor.feed(&bytes[from..cut], &mut out);
        assert!(redactor.held_text() <= HOLD_MAX, "{} bytes held back", redactor.held_text());
        assert_eq!(redactor.at().0 as usize, out.len(), "numbers stay what they are");
        from = cut;
    }
    redactor.finish(&mut out);
    out
}

fn check(values: &[&str], input: &str, expected: &str) {
    let shield = shield(values);
    let out = Redactor::whole(shield.clone(), input.as_bytes());
    assert_eq!(String::from_utf8_lossy(&out), expected, "{input:?}");
    // And at every single cut.
    for cut in 0..=input.len() {
        let split = in_pieces(&shield, input.as_bytes(), &[cut]);
        assert_eq!(String::from_utf8_lossy(&split), expected, "{input:?} cut at {cut}");
    }
    let bytes: Vec<usize> = (1..input.len()).collect();
    let single = in_pieces(&shield, input.as_bytes(), &bytes);
    assert_eq!(String::from_utf8_lossy(&single), expected, "{input:?} byte by byte");
}

#[test]
fn raw_hides_its_content() {
    let raw = super::Raw::new("token".to_owned());
    assert_eq!(format!("{raw:?}"), "Raw(hidden)");
}
