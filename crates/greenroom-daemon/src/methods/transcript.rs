//! `session.transcript`: output from a point on, as text or bytes.

use std::string::FromUtf8Error;

use greenroom_engine::Seq;
use greenroom_engine::egress::{Secrets, Sink};
use greenroom_engine::transcript::plain;
use greenroom_protocol::Fault;
use greenroom_protocol::api::Base64;
use greenroom_protocol::api::screen::{TranscriptFormat, TranscriptParams, TranscriptResult};
use tokio::time::Instant;

use crate::call::Call;
use crate::call::fault;
use crate::methods::redact;

/// A character cut by the end of a page has at most this many bytes before the cut.
const CUT_MAX: usize = 3;

pub(crate) async fn transcript(
    call: Call,
    params: TranscriptParams,
) -> Result<TranscriptResult, Fault> {
    let handle = call.session(&params.session)?;
    let secrets = redact::secrets(&call, params.redact, params.redaction.as_ref())?;
    let extra = redact::extra(params.redaction.as_ref())?;
    let max = params.max_bytes.unwrap_or(TranscriptParams::DEFAULT_BYTES);
    if max == 0 {
        return Err(Fault::invalid_params("max_bytes must be at least 1"));
    }
    let max = max.min(TranscriptParams::MAX_BYTES);
    let tail = handle.tail().await.map_err(fault::engine)?;
    let since = params.since.unwrap_or_else(|| tail.0.saturating_sub(max));
    let behind = match secrets {
        Secrets::Masked => {
            let wanted = tail.min(Seq(since.saturating_add(max)));
            let deadline = Instant::now() + redact::patience(params.timeout_ms);
            match handle.caught_up(Sink::Transcript, wanted, deadline).await {
                0 => 0,
                _ => handle.unanswered(Sink::Transcript, tail),
            }
        }
        Secrets::Unmasked => 0,
    };
    // Room for a whole character even when the page is tiny.
    let max = (max as usize).max(CUT_MAX + 1);
    let page = handle.output_as(secrets, Seq(since), max).await.map_err(fault::engine)?;
    let mut bytes = extra.bytes(page.bytes).into_inner();
    let mut next = page.next.0;
    if next < page.tail.0 && params.format != TranscriptFormat::Raw {
        let cut = cut_len(&bytes);
        bytes.truncate(bytes.len() - cut);
        next -= cut as u64;
    }
    let (text, data) = match params.format {
        TranscriptFormat::Text => (plain(&bytes), None),
        TranscriptFormat::Ansi => {
            let lossy =
                |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
            (String::from_utf8(bytes).unwrap_or_else(lossy), None)
        }
        TranscriptFormat::Raw => (String::new(), Some(Base64(bytes))),
    };
    Ok(TranscriptResult {
        text,
        data,
        seq: page.from.0,
        next_seq: next,
        has_more: next < page.tail.0 || behind > 0,
        // Without a point to start from nothing was asked for that is missing.
        dropped: if params.since.is_some() { page.dropped } else { 0 },
        behind,
        withheld: (secrets == Secrets::Masked).then(|| handle.info().withheld).flatten(),
    })
}

/// How long the start of an unfinished character at the end is.
pub(crate) fn cut_len(bytes: &[u8]) -> usize {
    for back in 1..=CUT_MAX.min(bytes.len()) {
        let byte = bytes[bytes.len() - back];
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if back < wanted { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cut_character_is_given_back_and_nothing_else(text in "\\PC{0,20}", cut in 0usize..80) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(cut - cut_len(&bytes[..cut]), text.floor_char_boundary(cut));
        }
    }

    #[test]
    fn garbage_is_not_held_back_for_ever() {
        for garbage in [&b"\x80\x80\x80\x80"[..], b"\xff", b"a\xc0", b""] {
            assert_eq!(cut_len(garbage), 0, "{garbage:?}");
        }
    }
}
