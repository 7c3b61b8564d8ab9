//! `greenroom send`: types text into a session.

use std::io::Read as _;

use greenroom_protocol::api::input::{Action, InputParams, InputResult};

use super::Context;
use crate::cli::SendArgs;
use crate::error::{Failure, Outcome};

/// Most that is read from stdin: a frame must hold it, escaped.
const STDIN_MAX: u64 = 2 * 1024 * 1024;

pub async fn run(args: SendArgs, context: &Context) -> Outcome {
    let session = args.session.session;
    let attempt = format!("send to {session}");
    let text = if args.text == "-" { from_stdin()? } else { args.text };
    let host = context.host().await?;
    let action = match (text.is_empty(), args.paste) {
        (true, _) if args.enter => Action::Key("enter".to_owned()),
        (_, true) => Action::Paste(text),
        (_, false) => Action::Text(text),
    };
    // In one call: who guards input sees all of it before any of it is typed.
    let submit = args.enter && !matches!(action, Action::Key(_));
    let params = InputParams { session, action, submit };
    let answer: InputResult = host.call("session.input", &params, &attempt).await?;
    context.out.answer(&answer, String::new)?;
    Ok(0)
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(STDIN_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|error| Failure::io("cannot read the text from stdin", &error))?;
    if read as u64 > STDIN_MAX {
        return Err(Failure::failed(format!("cannot send more than {STDIN_MAX} bytes at once")));
    }
    // The newline that ends a file is not part of what is typed.
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}
