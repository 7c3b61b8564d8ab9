//! A prompt typed into a program, once.
//!
//! In: a session and a text. Out: the text and Enter are in the terminal. The program is given time
//! to start and, after a paste, to take it in: agents lose an Enter that comes too soon. How far it
//! came is written down, so that the next daemon does not type it again.

use std::time::Duration;

use greenroom_engine::egress::Secrets;
use greenroom_engine::term::KeyPress;
use greenroom_engine::wait::{Matcher, WaitFor};
use greenroom_engine::{Seq, SessionHandle};

use super::Attempt;
use crate::files::Typing;

/// A program that shows nothing for this long is typed at all the same.
const READY_AT_LAST: Duration = Duration::from_secs(20);
/// A screen that rests for this long is ready.
const RESTS: Duration = Duration::from_millis(400);
/// A paste is taken in when the screen rests, and at last after attempt.
const TAKEN_IN: Duration = Duration::from_secs(3);
/// So much of a prompt on the screen means that it was typed.
const RECOGNISED: usize = 24;

/// Types `prompt` and Enter, unless an earlier daemon did. Answers where the output stood before
/// Enter.
pub(crate) async fn type_once(
    attempt: &Attempt,
    handle: &SessionHandle,
    prompt: &str,
) -> Result<Seq, String> {
    let earlier = attempt.dir.typing(attempt.job, attempt.number);
    if let Some(typing) = earlier.filter(|typing| typing.entered) {
        return Ok(Seq(typing.seq));
    }
    let there = match earlier {
        Some(_) => shows(handle, prompt).await,
        None => false,
    };
    if !there {
        rests(handle, RESTS, READY_AT_LAST).await;
        let before = note(attempt, handle)?;
        let asked = attempt.terminals.submit(handle, prompt.to_owned()).await;
        let prompt = asked.map_err(|fault| fault.message)?;
        let typed = handle.paste(None, &prompt).await;
        typed.map_err(|error| format!("cannot type its prompt: {error}"))?;
        // A screen that rested before the paste has not taken it in.
        prints(handle, before, TAKEN_IN / 2).await;
        rests(handle, RESTS, TAKEN_IN).await;
    }
    let seq = note(attempt, handle)?;
    let enter: KeyPress = "enter".parse().expect("enter is a key");
    let pressed = handle.press(None, &[enter]).await;
    pressed.map_err(|error| format!("cannot type its prompt: {error}"))?;
    write(attempt, Typing { entered: true, seq: seq.0 })?;
    prints(handle, seq, TAKEN_IN).await;
    Ok(seq)
}

/// Waits for output past `seq`.
async fn prints(handle: &SessionHandle, seq: Seq, at_most: Duration) {
    let mut changes = handle.changes();
    let more = changes.wait_for(|change| change.seq > seq || change.ended.is_some());
    // A program that echoes nothing is fine.
    let _ = tokio::time::timeout(at_most, more).await;
}

/// Notes where the output stands before something is typed.
fn note(attempt: &Attempt, handle: &SessionHandle) -> Result<Seq, String> {
    let seq = handle.change().seq;
    write(attempt, Typing { entered: false, seq: seq.0 })?;
    Ok(seq)
}

fn write(attempt: &Attempt, typing: Typing) -> Result<(), String> {
    attempt
        .dir
        .write_typing(attempt.job, attempt.number, &typing)
        .map_err(|error| format!("cannot note that its prompt is typed: {error}"))
}

async fn rests(handle: &SessionHandle, min: Duration, at_most: Duration) {
    let shown = Matcher::Not(Box::new(Matcher::ScreenRegex(
        greenroom_engine::wait::pattern("\\A\\s*\\z", false).expect("a fixed pattern compiles"),
    )));
    let branch = |matcher| greenroom_engine::wait::Branch { name: None, matcher };
    let both = vec![branch(shown), branch(Matcher::ScreenStable { min })];
    let wait = WaitFor {
        matcher: Matcher::All(both),
        since: None,
        timeout: at_most,
        secrets: Secrets::Masked,
    };
    // Out of time or ended: typing tells.
    let _ = handle.wait(wait).await;
}

/// Whether the beginning of the prompt is on the screen.
async fn shows(handle: &SessionHandle, prompt: &str) -> bool {
    let first = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let sought: String = first.chars().take(RECOGNISED).collect();
    match handle.frame().await {
        Ok((frame, _)) => greenroom_engine::wait::frame_text(frame.get()).contains(&sought),
        Err(_) => false,
    }
}
