//! Attached terminals: frames both ways, restarts, ends.

use greenroom_client::api::screen::Size;
use greenroom_client::api::session::{AttachParams, ExitStatus, SessionInfo, SessionState};
use greenroom_client::attach_wire::{AttachDecoder, Detach, Frame};
use greenroom_client::{AttachEvent, AttachStream, Client, FaultKind};
use serde_json::json;

use crate::fake_host::{FakeHost, Peer, within};

async fn pair() -> (FakeHost, Peer, AttachStream) {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _idle = host.accept().await;
    let size = Some(Size::new(80, 24));
    let params =
        AttachParams { session: "work".into(), size, exclusive: true, ..AttachParams::default() };
    let attaching = tokio::spawn(async move { client.attach(params).await });
    let mut peer = host.accept().await;
    let params = peer.attached(100).await;
    assert_eq!((&params["session"], &params["exclusive"]), (&json!("work"), &json!(true)));
    (host, peer, within(attaching).await.unwrap().unwrap())
}

async fn next(stream: &mut AttachStream) -> AttachEvent {
    within(stream.next()).await.unwrap().expect("the stream has ended")
}

fn output(seq: u64, bytes: &[u8]) -> AttachEvent {
    AttachEvent::Output { seq, bytes: bytes.to_vec() }
}

#[tokio::test]
async fn frames_in_the_same_write_as_the_reply_are_not_lost() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _idle = host.accept().await;
    let params = AttachParams { session: "s1".into(), ..AttachParams::default() };
    let attaching = tokio::spawn(async move { client.attach(params).await });
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("session.attach").await;
    let result =
        json!({"session": "s1", "client": "c1", "seq": 2, "size": {"rows": 24, "cols": 80}});
    let mut bytes =
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result})).into_bytes();
    Frame::Keyframe { seq: 2, bytes: b"\x1b[H" }.encode(&mut bytes).unwrap();
    Frame::Output { seq: 2, bytes: b"hi\n" }.encode(&mut bytes).unwrap();
    peer.write(&bytes).await;
    let mut stream = within(attaching).await.unwrap().unwrap();
    assert_eq!(stream.attached().client, "c1");
    assert_eq!(
        next(&mut stream).await,
        AttachEvent::Keyframe { seq: 2, bytes: b"\x1b[H".to_vec() }
    );
    assert_eq!(next(&mut stream).await, output(2, b"hi\n"));
}

#[tokio::test]
async fn input_resize_and_goodbye_arrive_in_order() {
    let (_host, mut peer, mut stream) = pair().await;
    within(stream.input(b"ls\r")).await.unwrap();
    within(stream.resize(100, 30)).await.unwrap();
    within(stream.detach()).await.unwrap();
    let mut seen = vec![];
    peer.read_frames(&mut AttachDecoder::new(), |frame| {
        let done = matches!(frame, Frame::Detach(_));
        seen.push(format!("{frame:?}"));
        done
    })
    .await;
    assert_eq!(seen.len(), 3);
    assert!(seen[1].contains("cols: 100") && seen[2].contains("asked"), "{seen:?}");
}

#[tokio::test]
async fn a_large_paste_and_a_flood_pass_each_other() {
    let (_host, mut peer, mut stream) = pair().await;
    const FLOOD: u64 = 3_000_000;
    let host = tokio::spawn(async move {
        // Writes all of its flood before it reads a byte.
        let piece = vec![b'o'; 50_000];
        for n in 0..FLOOD / 50_000 {
            peer.frame(Frame::Output { seq: 100 + n * 50_000, bytes: &piece }).await;
        }
        let mut count = 0;
        peer.read_frames(&mut AttachDecoder::new(), |frame| {
            if let Frame::Input(bytes) = frame {
                count += bytes.len();
            }
            count == 900_000
        })
        .await;
        peer.frame(Frame::Exit(ExitStatus::code(0))).await;
    });
    within(stream.input(&vec![b'i'; 900_000])).await.unwrap();
    let mut expected = 100;
    loop {
        match next(&mut stream).await {
            AttachEvent::Output { seq, bytes } => {
                assert_eq!(seq, expected);
                expected += bytes.len() as u64;
            }
            AttachEvent::Exit(status) => break assert!(status.success),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(expected, 100 + FLOOD);
    assert_eq!(within(stream.next()).await.unwrap(), None);
    within(host).await.unwrap();
}

#[tokio::test]
async fn after_a_restart_output_goes_on_exactly_where_it_was() {
    let (host, mut peer, mut stream) = pair().await;
    peer.frame(Frame::Keyframe { seq: 100, bytes: b"K" }).await;
    peer.frame(Frame::Output { seq: 100, bytes: b"abc" }).await;
    assert_eq!(next(&mut stream).await, AttachEvent::Keyframe { seq: 100, bytes: b"K".to_vec() });
    assert_eq!(next(&mut stream).await, output(100, b"abc"));
    within(stream.resize(120, 40)).await.unwrap();
    // Half a frame is no frame.
    peer.write(&Frame::Output { seq: 103, bytes: b"def" }.to_vec().unwrap()[..14]).await;
    drop(peer);

    let daemon = tokio::spawn(async move {
        let mut peer = host.accept().await;
        let params = peer.attached(106).await;
        // The new daemon repeats a little.
        peer.frame(Frame::Output { seq: 101, bytes: b"bc" }).await;
        peer.frame(Frame::Output { seq: 102, bytes: b"cdef" }).await;
        (host, peer, params)
    });
    assert!(
        matches!(next(&mut stream).await, AttachEvent::Reattached(attached) if attached.seq == 106)
    );
    assert_eq!(next(&mut stream).await, output(103, b"def"));
    let (_host, _peer, params) = within(daemon).await.unwrap();
    assert_eq!((&params["since"], &params["session"]), (&json!(103), &json!("s1")));
    assert_eq!((&params["size"]["cols"], &params["exclusive"]), (&json!(120), &json!(false)));
}

#[tokio::test]
async fn input_typed_while_the_daemon_is_away_arrives() {
    let (host, peer, mut stream) = pair().await;
    drop(peer);
    // Notices the loss by reading; nobody accepts yet, so this is where it stays.
    tokio::select! {
        biased;
        event = stream.next() => panic!("{event:?}"),
        mut peer = async { host.accept().await } => {
            // The attach is cancelled by this branch: typing interrupts waiting.
            let _ = peer.request_or_end().await;
        }
    }
    within(stream.input(b"typed")).await.unwrap();
    let daemon = tokio::spawn(async move {
        let mut peer = host.accept().await;
        while peer.request_or_end().await.is_none() {
            peer = host.accept().await;
        }
        (host, peer)
    });
    let reading = tokio::spawn(async move { stream.next().await.map(|event| (event, stream)) });
    let (_host, mut peer) = within(daemon).await.unwrap();
    let result =
        json!({"session": "s1", "client": "c2", "seq": 100, "size": {"rows": 24, "cols": 80}});
    peer.answer(json!(0), result).await;
    let (event, mut stream) = within(reading).await.unwrap().unwrap();
    assert!(matches!(event, Some(AttachEvent::Reattached(_))), "{event:?}");
    let reading = tokio::spawn(async move { stream.next().await.is_ok() });
    let mut seen = vec![];
    peer.read_frames(&mut AttachDecoder::new(), |frame| {
        if let Frame::Input(bytes) = frame {
            seen.extend_from_slice(bytes);
        }
        seen.len() == 5
    })
    .await;
    assert_eq!(seen, b"typed");
    reading.abort();
}

#[tokio::test]
async fn a_session_that_ended_meanwhile_ends_the_stream_with_its_status() {
    let (host, peer, mut stream) = pair().await;
    drop(peer);
    let daemon = tokio::spawn(async move {
        let mut peer = host.accept().await;
        let (id, _) = peer.expect("session.attach").await;
        peer.refuse(id, -32002, "session_closed").await;
        // The client's own connection; it was closed with the old daemon, so it comes anew.
        let mut peer = host.accept().await;
        let (id, _) = peer.expect("session.info").await;
        let exit = Some(ExitStatus::signal("SIGKILL"));
        let info = SessionInfo {
            id: "s1".into(),
            state: SessionState::Exited,
            exit,
            ..SessionInfo::default()
        };
        peer.answer(id, serde_json::to_value(info).unwrap()).await;
        (host, peer)
    });
    assert_eq!(next(&mut stream).await, AttachEvent::Exit(ExitStatus::signal("SIGKILL")));
    assert_eq!(within(stream.next()).await.unwrap(), None);
    within(daemon).await.unwrap();
}

#[tokio::test]
async fn detach_by_the_host_is_not_a_restart() {
    let (_host, mut peer, mut stream) = pair().await;
    let reason = Detach { reason: "replaced".into(), message: Some("somebody else".into()) };
    peer.frame(Frame::Detach(reason.clone())).await;
    drop(peer);
    assert_eq!(next(&mut stream).await, AttachEvent::Detach(reason));
    assert_eq!(within(stream.next()).await.unwrap(), None);
}

#[tokio::test]
async fn an_unknown_session_is_told() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _idle = host.accept().await;
    let params = AttachParams { session: "nope".into(), ..AttachParams::default() };
    let attaching = tokio::spawn(async move { client.attach(params).await.map(|_| ()) });
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("session.attach").await;
    peer.refuse(id, -32602, "unknown_session").await;
    assert_eq!(within(attaching).await.unwrap().unwrap_err().kind(), FaultKind::UnknownSession);
}
