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

struct Remote;

impl super::LineFilter for Remote {
    fn governs(&self, sink: super::Sink) -> bool {
        sink == super::Sink::AttachRemote
    }

    fn filter<'a>(
        &'a self,
        _: crate::id::SessionId,
        _: &'a [super::Line],
    ) -> crate::process::BoxFuture<'a, Vec<super::Edit>> {
        Box::pin(async { Vec::new() })
    }
}

/// Where the human's own terminal is filtered, it is filtered like any other.
#[test]
fn the_local_viewer_is_governed_like_a_remote_one_where_it_is_filtered_at_all() {
    for attach in [false, true] {
        let key = super::HostKey::passing().unwrap();
        let redaction = super::Redaction::new(Rules::built_in(), attach, key);
        let egress = super::Egress::new(&redaction, Literals::default());
        egress.govern_in_memory(Arc::new(Remote));
        assert!(egress.is_governed(super::Sink::AttachRemote));
        assert_eq!(egress.is_governed(super::Sink::AttachLocal), attach);
        assert!(!egress.is_governed(super::Sink::Stream));
    }
}
