//! What a person is asked before a plugin runs, and the question.

use std::io::BufRead as _;

use greenroom_protocol::api::plugin::{CapabilityView, Consent};

use super::show;
use crate::output::{Output, Tone, begin, one_line};

/// An answer longer than this is none.
const ANSWER_MAX: u64 = 256;

pub fn text(consent: &Consent, out: &Output) -> String {
    let name = one_line(&consent.name);
    let mut text = format!("{} {}", out.paint(Tone::Head, &name), one_line(&consent.version));
    if !consent.description.is_empty() {
        text.push_str(&format!(": {}", one_line(&consent.description)));
    }
    let (source, digest) = (one_line(&consent.source), one_line(&consent.digest));
    text.push_str(&format!("\n  from    {source}\n  bytes   {digest}\n"));
    if consent.state == "modified" {
        text.push_str("  its bytes are not those that were agreed to\n");
    }
    for runs in &consent.runs {
        text.push_str(&format!("  runs    {}\n", one_line(runs)));
    }
    if consent.hooks.is_empty() {
        text.push_str("\n  It hooks nothing.\n");
    } else {
        text.push_str(&format!("\n{}\n", show::hooks(&consent.hooks, out)));
    }
    if consent.capabilities.is_empty() {
        text.push_str("\n  It asks for nothing: no network, no files but its own, no home.\n");
    } else {
        text.push_str("\n  It asks for:\n");
        consent.capabilities.iter().for_each(|one| text.push_str(&capability(one)));
    }
    for warning in &consent.warnings {
        let warning = one_line(warning);
        text.push_str(&format!("\n{} {warning}", out.paint(Tone::Warn, "warning")));
    }
    if !consent.warnings.is_empty() {
        text.push('\n');
    }
    text
}

/// In full: what is cut off is not agreed to.
fn capability(one: &CapabilityView) -> String {
    let reason = match &one.reason {
        Some(reason) => format!("because: {}", one_line(reason)),
        None => "without a reason".to_owned(),
    };
    format!(
        "  - {}: {}\n      to {} ({})\n      {reason}\n",
        one_line(&one.name),
        one_line(&one.asked.to_string()),
        one_line(&one.means),
        one_line(&one.level)
    )
}

/// Only `y` and `yes` agree.
pub fn ask(question: &str) -> bool {
    begin(&format!("{} [y/N] ", one_line(question)));
    let mut answer = String::new();
    let read = std::io::Read::take(std::io::stdin().lock(), ANSWER_MAX).read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
