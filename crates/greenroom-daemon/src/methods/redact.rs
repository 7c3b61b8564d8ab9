//! Who may see what is masked, and `redact.test`: what the rules find in a text.

use std::time::Duration;

use greenroom_engine::egress::{Extra, Literals, Rules, Secrets, spot};
use greenroom_protocol::api::redact::{Finding, RedactTestParams, RedactTestResult};
use greenroom_protocol::api::screen::{PATIENCE_MAX_MS, PATIENCE_MS, Redaction};
use greenroom_protocol::methods::Scope;
use greenroom_protocol::{Fault, FaultKind};

use crate::call::Call;
use crate::sync::blocking;

/// What this caller sees of a session's text. To see it bare takes the right to do anything.
pub(crate) fn secrets(
    call: &Call,
    redact: bool,
    how: Option<&Redaction>,
) -> Result<Secrets, Fault> {
    if redact && how.is_none_or(|how| how.enabled) {
        return Ok(Secrets::Masked);
    }
    if !call.peer.caller.may(Scope::Admin) {
        let needed = serde_json::to_value(Scope::Admin).unwrap_or_default();
        let message = "not allowed to read without redaction";
        return Err(
            Fault::new(FaultKind::PermissionDenied, message).with("required_permission", needed)
        );
    }
    Ok(Secrets::Unmasked)
}

/// How long this caller waits for filters that are behind.
pub(crate) fn patience(timeout_ms: Option<u64>) -> Duration {
    Duration::from_millis(timeout_ms.unwrap_or(PATIENCE_MS).min(PATIENCE_MAX_MS))
}

/// What this caller wants hidden besides. A mask is as wide as what it hides, so another text in
/// its place is refused rather than ignored; the one that ptywright's clients send by default
/// stands for masks.
pub(crate) fn extra(how: Option<&Redaction>) -> Result<Extra, Fault> {
    let Some(how) = how else { return Ok(Extra::default()) };
    let replacement = how.replacement.as_str();
    if replacement != Redaction::DEFAULT && replacement.chars().any(|c| c != '*') {
        let why = format!(
            "redaction.replacement cannot be {replacement:?}: a mask is as wide as what it hides"
        );
        return Err(Fault::invalid_params(why).hint("\"*\" says what is shown"));
    }
    Extra::new(&how.extra_literals, &how.extra_regexes)
        .map_err(|error| Fault::invalid_params(format!("redaction: {error}")))
}

/// Shows the rules a text. Nothing of it is kept.
pub(crate) async fn test(call: Call, params: RedactTestParams) -> Result<RedactTestResult, Fault> {
    if params.text.len() > RedactTestParams::TEXT_MAX {
        let most = RedactTestParams::TEXT_MAX;
        return Err(Fault::invalid_params(format!("text is longer than {most} bytes")));
    }
    let off = call.host.settings.began().redact.without.clone();
    blocking(move || {
        let rules = Rules::without(&off).unwrap_or_else(|_| Rules::built_in());
        let names = rules.names().iter().map(|name| (*name).to_owned()).collect();
        let values = Literals::new(params.values.iter().map(String::as_bytes));
        let (spotted, masked) = spot(rules, values, params.text.as_bytes());
        let finding = |spotted: greenroom_engine::egress::Spotted| Finding {
            rule: spotted.rule.to_owned(),
            line: spotted.line as u64,
            column: spotted.column as u64,
            length: spotted.length as u64,
            preview: spotted.preview,
        };
        let visible: Vec<u8> = masked.into_iter().filter(|byte| *byte != 0).collect();
        RedactTestResult {
            findings: spotted.into_iter().map(finding).collect(),
            text: params.show.then(|| String::from_utf8_lossy(&visible).into_owned()),
            rules: names,
        }
    })
    .await
}
