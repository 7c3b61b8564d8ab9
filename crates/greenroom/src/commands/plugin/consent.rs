//! What a person is asked before a plugin runs, and the question.

use std::io::{BufRead as _, Write as _};

use greenroom_protocol::api::plugin::{CapabilityView, Consent};

use super::show;
use crate::output::{Output, Tone};

/// An answer longer than this is none.
const ANSWER_MAX: u64 = 256;

pub fn text(consent: &Consent, out: &Output) -> String {
    let mut text = format!("{} {}", out.paint(Tone::Head, &consent.name), consent.version);
    if !consent.description.is_empty() {
        text.push_str(&format!(": {}", consent.description));
    }
    text.push_str(&format!("\n  from    {}\n  bytes   {}\n", consent.source, consent.digest));
    if consent.state == "modified" {
        text.push_str("  its bytes are not those that were agreed to\n");
    }
    for runs in &consent.runs {
        text.push_str(&format!("  runs    {runs}\n"));
    }
    match consent.hooks.is_empty() {
        true => text.push_str("\n  It hooks nothing.\n"),
        false => text.push_str(&format!("\n{}\n", show::hooks(&consent.hooks, out))),
    }
    match consent.capabilities.is_empty() {
        true => {
            text.push_str("\n  It asks for nothing: no network, no files but its own, no home.\n")
        }
        false => {
            text.push_str("\n  It asks for:\n");
            consent.capabilities.iter().for_each(|one| text.push_str(&capability(one)));
        }
    }
    for warning in &consent.warnings {
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
        Some(reason) => format!("because: {reason}"),
        None => "without a reason".to_owned(),
    };
    format!(
        "  - {}: {}\n      to {} ({})\n      {reason}\n",
        one.name, one.asked, one.means, one.level
    )
}

/// Only `y` and `yes` agree.
pub fn ask(question: &str) -> bool {
    let mut err = std::io::stderr();
    let _ = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    let read = std::io::Read::take(std::io::stdin().lock(), ANSWER_MAX).read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
