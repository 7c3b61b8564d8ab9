//! A host played by the test: it accepts, reads requests, answers what the test says.

use std::path::PathBuf;
use std::time::Duration;

use greenroom_protocol::attach::{AttachDecoder, Frame};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// Longer than anything here takes: a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(20);

pub struct FakeHost {
    listener: UnixListener,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

/// One accepted connection.
pub struct Peer {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl FakeHost {
    pub fn new() -> FakeHost {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.sock");
        FakeHost { listener: UnixListener::bind(&path).unwrap(), path, _dir: dir }
    }

    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    pub async fn accept(&self) -> Peer {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let (reader, writer) = UnixStream::into_split(stream);
        Peer { reader: BufReader::new(reader), writer }
    }
}

impl Peer {
    /// The next request or notification.
    pub async fn request(&mut self) -> Value {
        self.request_or_end().await.expect("the client closed the connection")
    }

    pub async fn request_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        let count = within(self.reader.read_line(&mut line)).await.unwrap();
        (count > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The next request, which must be this one; answers its params.
    pub async fn expect(&mut self, method: &str) -> (Value, Value) {
        let mut request = self.request().await;
        assert_eq!(request["method"], method, "{request}");
        (request["id"].take(), request["params"].take())
    }

    pub async fn answer(&mut self, id: Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    pub async fn refuse(&mut self, id: Value, code: i64, kind: &str) {
        let error = json!({"code": code, "message": format!("it is {kind}"), "data": {"kind": kind, "hint": "h"}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    pub async fn push(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        within(self.writer.write_all(bytes)).await.unwrap();
    }

    /// Answers `session.attach` and turns to frames.
    pub async fn attached(&mut self, seq: u64) -> Value {
        let (id, params) = self.expect("session.attach").await;
        let size = json!({"rows": 24, "cols": 80});
        self.answer(id, json!({"session": "s1", "client": "c1", "seq": seq, "size": size})).await;
        params
    }

    pub async fn frame(&mut self, frame: Frame<'_>) {
        self.write(&frame.to_vec().unwrap()).await;
    }

    /// Reads frames until `done` says so.
    pub async fn read_frames(
        &mut self,
        decoder: &mut AttachDecoder,
        mut done: impl FnMut(Frame<'_>) -> bool,
    ) {
        let mut chunk = [0; 4096];
        loop {
            while let Some(frame) = decoder.next() {
                if done(frame.unwrap()) {
                    return;
                }
            }
            let count = within(self.reader.read(&mut chunk)).await.unwrap();
            assert!(count > 0, "the client closed the connection");
            decoder.push(&chunk[..count]);
        }
    }
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it takes too long")
}
