//! The API on stdin and stdout: a pipe between them and a host's socket.
//!
//! In: frames on stdin. Out: frames on stdout, until stdin ends and the last answers have come. The
//! host is a private one that ends with us, or with `--shared` the background host. Bytes pass
//! unread, except for the first: `--framing` refuses a stream of the other kind.
//! Absent on purpose: frames. The host recognises and cuts them.

use std::io::Read as _;

use greenroom_protocol::FaultKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::commands::serve::{Framing, ServeArgs};
use crate::commands::{Context, new, wants_session};
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, PrivateHost, called};
use crate::output::write;
use crate::stop::Stop;

/// Moved at once.
const PIECE: usize = 64 * 1024;
/// Pieces of stdin waiting for the host.
const QUEUE: usize = 4;

pub async fn run(args: &ServeArgs, context: &Context) -> ExitResult {
    let mut stop = Stop::listen()?;
    if args.shared {
        let host = context.host().await?;
        start_session(args, &host, context).await?;
        return pass(&host, args.framing, &mut stop).await;
    }
    let private = tokio::select! {
        private = PrivateHost::start() => private?,
        // One on its way is ended with the future that holds it.
        () = stop.asked() => return Ok(0),
    };
    let mut passed = start_session(args, &private.host, context).await.map(|()| 0);
    if passed.is_ok() {
        passed = pass(&private.host, args.framing, &mut stop).await;
    }
    private.stop().await?;
    passed
}

async fn start_session(
    args: &ServeArgs,
    host: &HostClient,
    context: &Context,
) -> Result<(), Failure> {
    if wants_session(&args.session) {
        let params = new::params(&args.session, &context.out)?;
        let made = new::create(host, &params).await?;
        // Stdout belongs to the protocol.
        context.out.note(&format!("{} runs", made.session));
    }
    Ok(())
}

async fn pass(host: &HostClient, framing: Framing, stop: &mut Stop) -> ExitResult {
    let stream = greenroom_client::open(host.client.path()).await;
    let (from_host, to_host) =
        stream.map_err(|error| called("reach the host", error))?.into_split();
    let input = forward(to_host, framing);
    let output = deliver(from_host);
    let silence = host.client.silence();
    tokio::pin!(input, output, silence);
    let mut reading = true;
    loop {
        tokio::select! {
            // The end of stdin: the host answers what it was asked and closes.
            ended = &mut input, if reading => {
                ended?;
                reading = false;
            }
            ended = &mut output => {
                ended?;
                if reading {
                    return Err(Failure::unavailable("the host closed the connection"));
                }
                return Ok(0);
            }
            // Our stdout ends with us: a client that waits for an answer sees that none will come.
            error = &mut silence => return Err(called("pass on what was asked", error)),
            () = stop.asked() => return Ok(0),
        }
    }
}

/// Reads stdin on a thread of its own: it may be a file, which cannot be waited for otherwise.
fn read_stdin() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::channel(QUEUE);
    let read = move || {
        let mut stdin = std::io::stdin().lock();
        let mut piece = vec![0; PIECE];
        loop {
            let read = match stdin.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => Ok(piece[..count].to_vec()),
                Err(error) => Err(error),
            };
            if send.blocking_send(read).is_err() {
                return;
            }
        }
    };
    // Without a thread stdin has simply ended.
    drop(std::thread::Builder::new().name("stdin-reader".to_owned()).spawn(read));
    receive
}

async fn forward(mut to: OwnedWriteHalf, framing: Framing) -> Result<(), Failure> {
    let mut stdin = read_stdin();
    let mut first = true;
    while let Some(piece) = stdin.recv().await {
        let piece = piece.map_err(|error| Failure::io("cannot read from stdin", &error))?;
        if first && let Some(byte) = piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
            check(*byte, framing)?;
            first = false;
        }
        if to.write_all(&piece).await.is_err() {
            return Ok(());
        }
    }
    // A host that is gone has ended the other direction already.
    let _ = to.shutdown().await;
    Ok(())
}

async fn deliver(mut from: OwnedReadHalf) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        // A reader that does not read holds us up, and through the socket the host's answers.
        write(&piece[..count])?;
    }
    Ok(())
}

fn check(first: u8, framing: Framing) -> Result<(), Failure> {
    let json = matches!(first, b'{' | b'[');
    let (fits, wanted) = match framing {
        Framing::Auto => (true, ""),
        Framing::Ndjson => (json, "one JSON text per line"),
        Framing::Lsp => (!json, "a Content-Length header"),
    };
    if fits {
        return Ok(());
    }
    let message = format!("cannot read stdin: {wanted} is wanted first");
    Err(Failure::new(FaultKind::InvalidParams, message).hint("--framing auto takes both"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_is_held_to_its_word() {
        assert!(check(b'{', Framing::Ndjson).is_ok() && check(b'C', Framing::Lsp).is_ok());
        assert!(check(b'{', Framing::Auto).is_ok() && check(b'C', Framing::Auto).is_ok());
        assert_eq!(check(b'C', Framing::Ndjson).unwrap_err().exit, 2);
        assert_eq!(check(b'[', Framing::Lsp).unwrap_err().exit, 2);
    }
}
