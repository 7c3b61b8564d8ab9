//! The binary stream.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use greenroom_protocol::attach::{AttachDecoder, Frame};
use serde_json::{Value, json};
use test_kit::wait::until;

use crate::host::{Host, wait_for};

/// A client after the reply to `session.attach`.
struct Attached {
    stream: UnixStream,
    decoder: AttachDecoder,
    result: Value,
}

/// A frame that owns its bytes.
#[derive(Debug, PartialEq)]
enum Seen {
    Output(u64, Vec<u8>),
    Keyframe(u64, Vec<u8>),
    Resize(u16, u16),
    Exit(Option<i32>),
    Detach(String),
    Notice(String),
    End,
}

impl Attached {
    fn to(host: &Host, params: Value) -> Attached {
        let mut stream = host.client().stream;
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session.attach", "params": params });
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        // Byte by byte, so that nothing of the binary stream is read away.
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        Attached { stream, decoder: AttachDecoder::new(), result: answer["result"].clone() }
    }

    fn send(&mut self, frame: &Frame<'_>) {
        self.stream.write_all(&frame.to_vec().unwrap()).unwrap();
    }

    fn next(&mut self) -> Seen {
        loop {
            if let Some(frame) = self.decoder.next() {
                return match frame.unwrap() {
                    Frame::Output { seq, bytes } => Seen::Output(seq, bytes.to_vec()),
                    Frame::Keyframe { seq, bytes } => Seen::Keyframe(seq, bytes.to_vec()),
                    Frame::Resize { cols, rows } => Seen::Resize(cols, rows),
                    Frame::Exit(status) => Seen::Exit(status.code),
                    Frame::Detach(why) => Seen::Detach(why.reason),
                    Frame::Notice(notice) => Seen::Notice(notice.kind),
                    Frame::Input(_) => panic!("the host does not type"),
                };
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer).unwrap() {
                0 => return Seen::End,
                read => self.decoder.push(&buffer[..read]),
            }
        }
    }

    /// Output until it holds `text`; the sequence numbers must have no hole.
    fn until(&mut self, text: &str) -> Vec<u8> {
        let (mut all, mut at) = (Vec::new(), None);
        loop {
            match self.next() {
                Seen::Output(seq, bytes) => {
                    assert!(at.is_none_or(|at| at == seq), "a hole: {at:?} {seq}");
                    at = Some(seq + bytes.len() as u64);
                    all.extend(bytes);
                }
                Seen::Keyframe(seq, bytes) => {
                    at = Some(seq);
                    all.extend(bytes);
                }
                Seen::Resize(..) | Seen::Notice(_) => {}
                other => panic!("{other:?} before {text}"),
            }
            if String::from_utf8_lossy(&all).contains(text) {
                return all;
            }
        }
    }

    fn until_end(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            match self.next() {
                Seen::End => return seen,
                other => seen.push(other),
            }
        }
    }
}

#[test]
fn a_keyframe_first_then_what_is_typed_comes_back() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "stty -echo; echo welcome; cat");
    wait_for(&mut client, &id, "welcome");
    let mut attached =
        Attached::to(&host, json!({ "session": id, "size": "100x30", "client": "test" }));
    assert_eq!(attached.result["size"]["cols"], 100);
    assert_eq!(attached.next(), Seen::Resize(100, 30));
    let Seen::Keyframe(_, picture) = attached.next() else { panic!("a keyframe comes first") };
    assert!(String::from_utf8_lossy(&picture).contains("welcome"));
    attached.send(&Frame::Input(b"hello\n"));
    attached.until("hello\r\n");
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!(info["clients"][0]["name"], "test");
    assert_eq!(info["size"]["cols"], 100);
    attached.send(&Frame::Resize { cols: 70, rows: 20 });
    while attached.next() != Seen::Resize(70, 20) {}
    attached.send(&Frame::Detach(Default::default()));
    attached.until_end();
    until("nobody is attached", || {
        client.ok("session.info", json!({ "session": id }))["clients"] == json!([])
    });
}

#[test]
fn the_end_of_the_session_ends_the_stream() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "read x; echo last words; exit 9");
    let mut attached = Attached::to(&host, json!({ "session": id, "size": "80x24" }));
    attached.send(&Frame::Input(b"\n"));
    let seen = attached.until_end();
    let output: Vec<u8> = seen
        .iter()
        .flat_map(|seen| match seen {
            Seen::Output(_, bytes) => bytes.clone(),
            _ => Vec::new(),
        })
        .collect();
    assert!(String::from_utf8_lossy(&output).contains("last words"));
    assert_eq!(seen.last(), Some(&Seen::Exit(Some(9))));
}

#[test]
fn a_reader_does_not_type_and_an_exclusive_client_is_alone() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let mut reader =
        Attached::to(&host, json!({ "session": id, "size": "80x24", "read_only": true }));
    reader.send(&Frame::Input(b"ignored\n"));
    let mut writer = Attached::to(&host, json!({ "session": id, "size": "80x24" }));
    writer.send(&Frame::Input(b"typed\n"));
    let seen = reader.until("typed");
    assert!(!String::from_utf8_lossy(&seen).contains("ignored"));
    let _alone = Attached::to(&host, json!({ "session": id, "size": "80x24", "exclusive": true }));
    for other in [&mut reader, &mut writer] {
        assert!(other.until_end().contains(&Seen::Detach("replaced".into())));
    }
}

#[test]
fn a_viewer_that_does_not_read_gets_a_keyframe_later() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "read x; seq 1 300000; echo the-end; sleep 1000");
    let mut stuck = Attached::to(&host, json!({ "session": id, "size": "80x24" }));
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    let shown = json!({ "type": "contains_text", "value": "the-end" });
    client.ok("session.wait", json!({ "session": id, "matcher": shown, "snapshot": false }));
    let mut read = 0;
    let mut keyframes = 0;
    let mut last = Vec::new();
    while !String::from_utf8_lossy(&last).contains("the-end") {
        match stuck.next() {
            Seen::Output(_, bytes) => {
                read += bytes.len();
                last = bytes;
            }
            Seen::Keyframe(_, bytes) => {
                keyframes += 1;
                last = bytes;
            }
            Seen::Resize(..) => {}
            other => panic!("{other:?}"),
        }
    }
    // Less than all of it came as output: the rest was cut to a keyframe.
    assert!(read < 2_000_000 && keyframes >= 2, "{read} bytes, {keyframes} keyframes");
}

#[test]
fn an_attached_client_comes_back_after_a_crash() {
    let host = Host::start();
    let mut client = host.client();
    let id =
        host.session(&mut client, "i=0; while read x; do i=$((i+1)); echo \"line $i $x\"; done");
    let mut attached = Attached::to(&host, json!({ "session": id, "size": "80x24" }));
    attached.send(&Frame::Input(b"one\n"));
    attached.until("line 1 one");
    host.kill_daemon();
    while attached.next() != Seen::End {}
    let mut again = Attached::to(&host, json!({ "session": id, "size": "80x24", "since": 1 }));
    assert_eq!(again.next(), Seen::Notice("reattached".into()));
    let picture = again.until("line 1 one");
    assert!(!picture.is_empty());
    again.send(&Frame::Input(b"two\n"));
    again.until("line 2 two");
}

#[test]
fn attach_wants_its_connection_for_itself() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let wait = json!({ "session": id, "matcher": { "type": "contains_text", "value": "x" } });
    client.send("session.wait", wait);
    assert_eq!(
        client.fault("session.attach", json!({ "session": id }))["data"]["kind"],
        "conflict"
    );
    client.line(&json!([{ "jsonrpc": "2.0", "id": "b", "method": "session.attach", "params": { "session": id } }]).to_string());
    let batch = client.until(Value::is_array);
    assert_eq!(batch[0]["error"]["code"], -32600);
}
