//! `session.input`: one act of input, encoded as the program asked for.

use std::time::Duration;

use greenroom_engine::SessionHandle;
use greenroom_engine::term::{
    InputModes, KeyPress, Mods, MouseButton, MouseEvent, MouseKind, encode_focus, encode_mouse,
    encode_paste,
};
use greenroom_protocol::Fault;
use greenroom_protocol::api::input as wire;
use greenroom_protocol::api::input::{Action, InputParams, InputResult, StreamText};
use greenroom_protocol::api::session::SignalTarget;

use crate::convert;
use crate::hooks;
use crate::methods::session;
use crate::rpc::fault;
use crate::rpc::router::Call;

const INTERRUPT: &[u8] = b"\x03";
const END_OF_FILE: &[u8] = b"\x04";
const SIGNAL_INT: i32 = 2;

pub async fn input(call: Call, params: InputParams) -> Result<InputResult, Fault> {
    let handle = call.session(&params.session)?;
    let sequence = handle.change().seq.0;
    if params.submit {
        submit(&call, &handle, params.action).await?;
        return Ok(InputResult { sent: true, sequence });
    }
    let client = call.peer.client();
    let action = hooks::submit::checked(&call.host, &handle, params.action, client).await?;
    act(&call, &handle, action).await?;
    Ok(InputResult { sent: true, sequence })
}

/// Text and Enter, asked about as a whole before anything is typed.
async fn submit(call: &Call, handle: &SessionHandle, action: Action) -> Result<(), Fault> {
    let text = match &action {
        Action::Text(text) | Action::Paste(text) | Action::BracketedPaste(text) => text.clone(),
        Action::StreamText(stream) => stream.text.clone(),
        _ => return Err(fault::invalid("submit needs text")),
    };
    let client = call.peer.client();
    let text = hooks::submit::text(&call.host, handle, text, client).await?;
    let action = hooks::submit::with_text(action, text);
    act(call, handle, action).await?;
    press(handle, &["enter".to_owned()]).await
}

async fn act(call: &Call, handle: &SessionHandle, action: Action) -> Result<(), Fault> {
    match action {
        Action::Text(text) => write(handle, text.as_bytes()).await,
        Action::Raw(bytes) => write(handle, &bytes.0).await,
        Action::Key(key) => press(handle, &[key]).await,
        Action::Keys(keys) => press(handle, &keys).await,
        Action::Paste(text) => handle.paste(None, &text).await.map_err(fault::engine),
        Action::BracketedPaste(text) => {
            let bracketed = InputModes { bracketed_paste: true, ..handle.modes() };
            write(handle, &encode_paste(&text, &bracketed)).await
        }
        Action::StreamText(text) => stream(handle, &text).await,
        Action::Mouse(mouse) => write(handle, &mouse_bytes(&mouse, &handle.modes())).await,
        Action::Focus(focused) => {
            write(handle, &encode_focus(focused, &handle.modes()).unwrap_or_default()).await
        }
        Action::Resize(size) => handle.resize(convert::size_in(size)?).await.map_err(fault::engine),
        Action::Interrupt => write(handle, INTERRUPT).await,
        Action::Eof => write(handle, END_OF_FILE).await,
        Action::Signal(signal) => match convert::signal::number(&signal)? {
            // What a person at the terminal would do: the program may have other plans for Ctrl-C.
            SIGNAL_INT => write(handle, INTERRUPT).await,
            number => session::send_signal(call, handle, number, SignalTarget::Group).await,
        },
        Action::Kill => {
            hooks::may_kill(&call.host, handle, call.peer.client(), None).await?;
            let ladder = session::ladder(&call.host, None, None);
            handle.kill(ladder).await.map(drop).map_err(fault::engine)
        }
        Action::MarkTranscript(mark) => session::put_mark(handle, mark.label).await.map(drop),
    }
}

async fn write(handle: &SessionHandle, bytes: &[u8]) -> Result<(), Fault> {
    handle.write(None, bytes).await.map_err(fault::engine)
}

async fn press(handle: &SessionHandle, keys: &[String]) -> Result<(), Fault> {
    let keys = keys
        .iter()
        .map(|key| key.parse::<KeyPress>().map_err(|error| fault::invalid(error.to_string())))
        .collect::<Result<Vec<_>, _>>()?;
    handle.press(None, &keys).await.map_err(fault::engine)
}

async fn stream(handle: &SessionHandle, text: &StreamText) -> Result<(), Fault> {
    if !(1..=StreamText::CHUNK_MAX).contains(&text.chunk_chars) {
        return Err(fault::invalid(format!("chunk_chars must be 1 to {}", StreamText::CHUNK_MAX)));
    }
    if text.delay_ms > StreamText::DELAY_MAX_MS {
        return Err(fault::invalid(format!(
            "delay_ms must be at most {}",
            StreamText::DELAY_MAX_MS
        )));
    }
    let chars: Vec<char> = text.text.chars().collect();
    for (index, chunk) in chars.chunks(text.chunk_chars as usize).enumerate() {
        if index > 0 {
            tokio::time::sleep(Duration::from_millis(text.delay_ms.into())).await;
        }
        write(handle, chunk.iter().collect::<String>().as_bytes()).await?;
    }
    Ok(())
}

/// Nothing when the program does not listen to the mouse.
fn mouse_bytes(mouse: &wire::Mouse, modes: &InputModes) -> Vec<u8> {
    let button = match mouse.button {
        wire::MouseButton::Left => Some(MouseButton::Left),
        wire::MouseButton::Middle => Some(MouseButton::Middle),
        wire::MouseButton::Right => Some(MouseButton::Right),
        wire::MouseButton::None => None,
        wire::MouseButton::WheelUp => Some(MouseButton::WheelUp),
        wire::MouseButton::WheelDown => Some(MouseButton::WheelDown),
        wire::MouseButton::WheelLeft => Some(MouseButton::WheelLeft),
        wire::MouseButton::WheelRight => Some(MouseButton::WheelRight),
    };
    let wheel = matches!(
        mouse.button,
        wire::MouseButton::WheelUp
            | wire::MouseButton::WheelDown
            | wire::MouseButton::WheelLeft
            | wire::MouseButton::WheelRight
    );
    let kinds: Vec<MouseKind> = match (mouse.event, button) {
        (wire::MouseEvent::Move, button) => vec![MouseKind::Motion(button)],
        (_, None) => Vec::new(),
        // A wheel has no release.
        (wire::MouseEvent::Click, Some(button)) if wheel => vec![MouseKind::Press(button)],
        (wire::MouseEvent::Click, Some(button)) => {
            vec![MouseKind::Press(button), MouseKind::Release(button)]
        }
        (wire::MouseEvent::Press, Some(button)) => vec![MouseKind::Press(button)],
        (wire::MouseEvent::Release, Some(button)) => vec![MouseKind::Release(button)],
    };
    let mods = mods(mouse);
    kinds
        .into_iter()
        .filter_map(|kind| {
            let event = MouseEvent { kind, mods, col: mouse.col, row: mouse.row, pixel: None };
            encode_mouse(&event, modes)
        })
        .flatten()
        .collect()
}

fn mods(mouse: &wire::Mouse) -> Mods {
    let held = [(mouse.shift, Mods::SHIFT), (mouse.alt, Mods::ALT), (mouse.ctrl, Mods::CTRL)];
    held.into_iter().filter(|(held, _)| *held).fold(Mods::NONE, |mods, (_, one)| mods | one)
}
