//! `session.input`: one act of input, encoded as the program asked for.

use std::time::Duration;

use greenroom_engine::SessionHandle;
use greenroom_engine::term::{
    InputModes, KeyPress, Mods, MouseButton, MouseEvent, MouseKind, encode_focus, encode_key,
    encode_mouse, encode_paste,
};
use greenroom_protocol::Fault;
use greenroom_protocol::api::input as wire;
use greenroom_protocol::api::input::{Action, InputParams, InputResult, StreamText};
use greenroom_protocol::api::session::SignalTarget;

use crate::call::Call;
use crate::call::fault;
use crate::convert;
use crate::hooks::{self, submit};
use crate::methods::session;

const INTERRUPT: &[u8] = b"\x03";
const END_OF_FILE: &[u8] = b"\x04";
const SIGNAL_INT: i32 = 2;

pub(crate) async fn input(call: Call, params: InputParams) -> Result<InputResult, Fault> {
    let InputParams { session, action, submit } = params;
    let handle = call.session(&session)?;
    let sequence = handle.change().seq.0;
    let (hooks, client) = (&call.host.hooks, call.peer.client());
    let action = submit::checked(hooks, &handle, action, submit, client.clone()).await?;
    let enter = submit.then(|| Action::Key("enter".to_owned()));
    for action in std::iter::once(action).chain(enter) {
        let modes = handle.modes();
        let bytes = match action {
            Action::Text(text) => text.into_bytes(),
            Action::Raw(bytes) => bytes.0,
            Action::Key(key) => key_bytes(&[key], &modes)?,
            Action::Keys(keys) => key_bytes(&keys, &modes)?,
            Action::Paste(text) => encode_paste(&text, &modes),
            Action::BracketedPaste(text) => {
                encode_paste(&text, &InputModes { bracketed_paste: true, ..modes })
            }
            Action::Mouse(mouse) => mouse_bytes(&mouse, &modes),
            Action::Focus(focused) => encode_focus(focused, &modes).unwrap_or_default(),
            Action::Interrupt => INTERRUPT.to_vec(),
            Action::Eof => END_OF_FILE.to_vec(),
            // The rest is more, or something else, than bytes typed at once.
            Action::StreamText(text) => {
                stream(&handle, &text).await?;
                continue;
            }
            Action::Resize(size) => {
                handle.resize(convert::size_in(size)?).await.map_err(fault::engine)?;
                continue;
            }
            Action::Signal(signal) => match convert::signal::number(&signal)? {
                // What a person at the terminal would do: the program may have other plans for
                // Ctrl-C.
                SIGNAL_INT => INTERRUPT.to_vec(),
                number => {
                    session::send_signal(&call, &handle, number, SignalTarget::Group).await?;
                    continue;
                }
            },
            Action::Kill => {
                hooks::may_kill(hooks, &handle, client.clone(), None).await?;
                let ladder = call.host.sessions.ladder(None, None);
                handle.kill(ladder).await.map_err(fault::engine)?;
                continue;
            }
            Action::MarkTranscript(mark) => {
                session::put_mark(&handle, mark.label).await?;
                continue;
            }
        };
        handle.write(None, &bytes).await.map_err(fault::engine)?;
    }
    Ok(InputResult { sent: true, sequence })
}

fn key_bytes(keys: &[String], modes: &InputModes) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    for key in keys {
        let key = key.parse::<KeyPress>().map_err(Fault::invalid_params)?;
        bytes.extend(encode_key(&key, modes));
    }
    Ok(bytes)
}

async fn stream(handle: &SessionHandle, text: &StreamText) -> Result<(), Fault> {
    if !(1..=StreamText::CHUNK_MAX).contains(&text.chunk_chars) {
        return Err(Fault::invalid_params(format!(
            "chunk_chars must be 1 to {}",
            StreamText::CHUNK_MAX
        )));
    }
    if text.delay_ms > StreamText::DELAY_MAX_MS {
        return Err(Fault::invalid_params(format!(
            "delay_ms must be at most {}",
            StreamText::DELAY_MAX_MS
        )));
    }
    let chars: Vec<char> = text.text.chars().collect();
    for (index, chunk) in chars.chunks(text.chunk_chars as usize).enumerate() {
        if index > 0 {
            tokio::time::sleep(Duration::from_millis(text.delay_ms.into())).await;
        }
        let chunk: String = chunk.iter().collect();
        handle.write(None, chunk.as_bytes()).await.map_err(fault::engine)?;
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
