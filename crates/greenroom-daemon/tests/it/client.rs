//! JSON-RPC by hand: nothing of ours between the test and the socket.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
pub use test_kit::wait::PATIENCE;

pub struct Client {
    pub stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
    /// Frames that came while another was waited for.
    aside: VecDeque<Value>,
}

impl Client {
    pub fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Client { stream, reader, next: 1, aside: VecDeque::new() }
    }

    /// Sends a request and gives back its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.line(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    pub fn line(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
        self.stream.write_all(b"\n").unwrap();
    }

    /// The next frame, whatever it is.
    pub fn frame(&mut self) -> Value {
        self.aside.pop_front().unwrap_or_else(|| self.read())
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).unwrap();
        assert!(read > 0, "the host closed the connection");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The first frame that fits; others are kept.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.aside.iter().position(&fits) {
            return self.aside.remove(at).unwrap();
        }
        loop {
            let frame = self.read();
            if fits(&frame) {
                return frame;
            }
            self.aside.push_back(frame);
        }
    }

    pub fn answer(&mut self, id: u64) -> Value {
        self.until(|frame| frame["id"] == json!(id))
    }

    /// The next notification of this kind.
    pub fn pushed(&mut self, method: &str) -> Value {
        self.until(|frame| frame["method"] == json!(method))["params"].take()
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The `error` member, which must have the parts every fault has.
    pub fn fault(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params);
        let fault = answer["error"].take();
        assert!(fault["code"].is_i64() && fault["data"]["kind"].is_string(), "{method}: {answer}");
        fault
    }

    /// Everything until the host closes.
    pub fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest).unwrap();
        rest
    }
}
