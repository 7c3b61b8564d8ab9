//! What masking costs: a flood watched by an attached client, on a host that masks its stream and
//! on one that does not.
//!
//! In: the host's configuration. Out: the rate from the start of the flood until the client saw its
//! end. The two hosts differ in one setting, so what differs in their rates is the filter on the
//! client's task.

use std::time::Instant;

use anyhow::{Context, Result};
use greenroom_protocol::api::session::AttachResult;
use greenroom_protocol::attach::{AttachDecoder, Frame};
use greenroom_protocol::methods::{Method as _, method};
use serde_json::json;

use crate::greenroom::Greenroom;
use crate::wire::Connection;
use greenroom_bench::payload::{Kind, Payload};

impl Greenroom {
    /// Another host like this one, whose attach streams are masked.
    pub fn masking(&self) -> Result<Greenroom> {
        Greenroom::start_with(self.bin(), self.programs(), "[redact]\nattach = true\n")
    }

    /// MB/s of a flood that a client watches to its end.
    pub fn drain_watched(&mut self, kind: Kind, bytes: usize) -> Result<f64> {
        let session = self.flood(kind, bytes)?;
        let mut stream = Connection::open(self.socket())?;
        let params = json!({"session": session, "size": {"cols": 80, "rows": 24}});
        stream.call::<AttachResult>(method::SessionAttach::NAME, &params)?;
        let go = Frame::Input(b"\n").to_vec().context("one key fits a frame")?;
        let start = Instant::now();
        stream.write_bytes(&go)?;
        to_the_end(&mut stream)?;
        let wall = start.elapsed();
        self.close(&session)?;
        let received = Payload::new(kind, bytes, false).received(false);
        Ok(received as f64 / 1e6 / wall.as_secs_f64())
    }
}

fn to_the_end(stream: &mut Connection) -> Result<()> {
    let mut decoder = AttachDecoder::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        while let Some(frame) = decoder.next() {
            if let Frame::Exit(_) = frame.context("a broken attach frame")? {
                return Ok(());
            }
        }
        let n = stream.read_bytes(&mut buffer)?;
        decoder.push(&buffer[..n]);
    }
}
