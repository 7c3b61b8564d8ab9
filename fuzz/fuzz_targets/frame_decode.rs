//! Bytes from a client that means harm: frames, envelopes, params, attach frames, recordings.
//! Never a panic, never more kept than the cap, and never a result that depends on how reads cut
//! the stream.
//!
//! `cargo +nightly fuzz run frame_decode -- -max_total_time=60`
//! The first byte says how the stream is cut; the rest is the stream.
#![no_main]

use greenroom_formats::asciicast;
use greenroom_protocol::attach::AttachDecoder;
use greenroom_protocol::frame::{FrameDecoder, FrameError};
use greenroom_protocol::methods;
use greenroom_protocol::rpc::{self, Incoming, Item, Message};
use libfuzzer_sys::fuzz_target;

fn frames(stream: &[u8], piece: usize) -> Vec<Result<String, FrameError>> {
    let (mut decoder, mut found) = (FrameDecoder::new(), vec![]);
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        while let Some(frame) = decoder.next() {
            found.push(frame.map(str::to_owned));
        }
    }
    found.extend(decoder.finish().map(|frame| frame.map(str::to_owned)));
    found
}

fn attach_frames(stream: &[u8], piece: usize) -> Vec<String> {
    let (mut decoder, mut found) = (AttachDecoder::new(), vec![]);
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        while let Some(frame) = decoder.next() {
            found.push(format!("{frame:?}"));
        }
    }
    found
}

fn judge(item: Item<'_>) {
    let Ok(Message::Request(request)) = item else { return };
    if let Some(method) = methods::find(&request.method) {
        // Either is fine, as long as it is an answer.
        let _ = (method.check)(request.params.map_or("{}", |params| params.get()));
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, stream)) = data.split_first() else { return };
    let piece = usize::from(cut % 61) + 1;
    let found = frames(stream, stream.len().max(1));
    assert_eq!(frames(stream, piece), found);
    assert_eq!(attach_frames(stream, piece), attach_frames(stream, stream.len().max(1)));

    let mut recording = asciicast::Reader::new();
    for text in found.iter().flatten() {
        match rpc::parse(text) {
            Incoming::One(item) => judge(item),
            Incoming::Batch(items) => items.into_iter().for_each(judge),
        }
        let _ = recording.line(text);
    }
});
