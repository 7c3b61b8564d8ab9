//! `greenroom send`: types text into a session.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::input::{Action, InputParams};

use super::Context;
use crate::cli::SessionArg;
use crate::error::{ExitResult, Failure};
use crate::input;

/// Type text into a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom send s3 'ls -l' --enter\n  greenroom send s3 --paste --enter \"$(cat prompt.md)\"\n  git diff | greenroom send s3 - --paste --enter"
)]
pub struct SendArgs {
    #[command(flatten)]
    pub session: SessionArg,
    /// What to type; - reads it from stdin, -- before it if it begins with -
    pub text: String,
    /// Press Enter after it
    #[arg(long)]
    pub enter: bool,
    /// As a paste: bracketed if the program asked for that
    #[arg(long)]
    pub paste: bool,
}

/// Most that is read from stdin: a frame must hold it, escaped.
const STDIN_MAX: u64 = 2 * 1024 * 1024;

pub async fn run(args: SendArgs, context: &Context) -> ExitResult {
    let session = args.session.session;
    let attempt = format!("send to {session}");
    let text = if args.text == "-" { from_stdin()? } else { args.text };
    let action = if text.is_empty() && args.enter {
        Action::Key("enter".to_owned())
    } else if args.paste {
        Action::Paste(text)
    } else {
        Action::Text(text)
    };
    // In one call: who guards input sees all of it before any of it is typed.
    let submit = args.enter && !matches!(action, Action::Key(_));
    let params = InputParams { session, action, submit };
    let sent = context.call::<method::SessionInput>(&params, &attempt).await?;
    context.out.answer(&sent, String::new)
}

fn from_stdin() -> Result<String, Failure> {
    let text = input::read_text("-".as_ref(), STDIN_MAX)
        .map_err(|error| Failure::io("cannot read the text from stdin", &error))?;
    if text.len() as u64 > STDIN_MAX {
        return Err(Failure::failed(format!("cannot send more than {STDIN_MAX} bytes at once")));
    }
    // The newline that ends a file is not part of what is typed.
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}
