//! The journal on disks that are full, hang, or were filled by others: the
//! session goes on, what is missing is visible, recording resumes by itself.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use greenroom_engine::journal::{
    Budget, DATA_BYTES, DiskOp, Flushed, Item, Journal, Limits, Note, PauseReason, PumpEnd,
    RecordingState, ReplayFrom, Spiller, SpillerOptions, open_ended,
};
use test_kit::disk::SmallDisk;
use test_kit::wait::PATIENCE;

use crate::journal_stage::{Stage, size, stream, verify};

/// Waits for the helper until `done`.
async fn until(journal: &Journal, what: &str, done: impl Fn(&Journal) -> bool) {
    let progress = journal.progress();
    let wait = async {
        loop {
            let next = progress.notified();
            if done(journal) {
                return;
            }
            next.await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "never: {what}");
}

fn is_paused(journal: &Journal, reason: PauseReason) -> bool {
    matches!(journal.state(), RecordingState::Paused { why, .. } if why == reason)
}

fn with_faults(hook: impl Fn(DiskOp) -> io::Result<()> + Send + Sync + 'static) -> Spiller {
    let faults = Some(Arc::new(hook) as Arc<_>);
    Spiller::start_with(SpillerOptions { faults, ..SpillerOptions::default() }).unwrap()
}

#[tokio::test]
async fn a_full_disk_is_a_gap_and_recording_resumes() {
    let full = Arc::new(AtomicBool::new(false));
    let spiller = with_faults({
        let full = Arc::clone(&full);
        move |op| match op {
            DiskOp::WriteData | DiskOp::WriteIndex if full.load(Ordering::Acquire) => {
                Err(io::Error::from_raw_os_error(28))
            }
            _ => Ok(()),
        }
    });
    let stage = Stage::on_pipe();
    let mut journal = stage.create(Limits::default(), &spiller);
    stage.pump_stream(&mut journal, 100_000);
    let reader = journal.reader();
    assert_eq!(reader.flush(journal.span().1).await, Flushed::Done);
    full.store(true, Ordering::Release);
    // Far more than the ring holds: the session must not wait for the disk.
    stage.pump_stream(&mut journal, DATA_BYTES as u64 * 4);
    until(&journal, "paused", |journal| is_paused(journal, PauseReason::NoSpace)).await;
    assert_eq!(reader.flush(journal.span().1).await, Flushed::NotYet);
    for n in 0..2_000 {
        journal.note(Note::Input { len: n });
    }
    journal.note(Note::Mark("while full".into()));
    full.store(false, Ordering::Release);
    until(&journal, "recording again", |journal| journal.state() == RecordingState::Recording)
        .await;
    stage.pump_stream(&mut journal, 10_000);
    let tail = journal.span().1;
    assert_eq!(reader.flush(tail).await, Flushed::Done);
    assert!(journal.roll_due(), "after a gap a keyframe is wanted");
    journal.roll(b"key".to_vec(), size());
    until(&journal, "rolled", |journal| !journal.roll_due()).await;
    let (gaps, marks) = verify(&reader, ReplayFrom::Oldest);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (from, to) = gaps[0];
    assert!(from >= 100_000 && to > from && to <= tail.0 - 10_000, "{gaps:?}");
    assert!(to - from >= DATA_BYTES as u64 * 2, "most of it did not fit anywhere");
    assert_eq!(marks.len(), 1, "a mark is kept even then");
}

#[tokio::test]
async fn a_hanging_disk_is_given_up_after_two_seconds() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let spiller = with_faults({
        let gate = Arc::clone(&gate);
        move |op| {
            if op == DiskOp::WriteData {
                let (hangs, opened) = &*gate;
                let hangs = hangs.lock().unwrap();
                drop(opened.wait_while(hangs, |hangs| *hangs).unwrap());
            }
            Ok(())
        }
    });
    let stage = Stage::on_pipe();
    let mut journal = stage.create(Limits::default(), &spiller);
    stage.pump_stream(&mut journal, 1_000);
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    *gate.0.lock().unwrap() = true;
    let mut longest = Duration::ZERO;
    let mut at = 1_000;
    while at < 1_000 + DATA_BYTES as u64 * 2 {
        let bytes = stream(at, at + 32 * 1024);
        at += rustix::io::write(&stage.slave, &bytes).unwrap() as u64;
        loop {
            match journal.pump(stage.master.as_fd(), 1 << 20).end {
                PumpEnd::WouldBlock => break,
                PumpEnd::RingFull => {
                    let full = Instant::now();
                    journal.room().await;
                    longest = longest.max(full.elapsed());
                }
                PumpEnd::Short | PumpEnd::Budget => {}
                end => panic!("pump ended with {end:?}"),
            }
        }
    }
    assert!(longest >= Duration::from_millis(1_900), "it waited {longest:?} for the disk");
    assert!(longest < Duration::from_secs(5), "it waited {longest:?} for the disk");
    *gate.0.lock().unwrap() = false;
    gate.1.notify_all();
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    let (gaps, _) = verify(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].0 >= 1_000, "what was written before is kept");
}

#[tokio::test]
async fn a_really_full_file_system() {
    let stage = Stage::on_pipe();
    let Some(disk) = SmallDisk::mount(&stage.dir, 4 << 20) else { return };
    let spiller = Spiller::start(Budget::default()).unwrap();
    let mut journal = stage.create(Limits::default(), &spiller);
    stage.pump_stream(&mut journal, 200_000);
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    let hog = stage.dir.join("hog");
    disk.fill(&hog);
    // More than memory holds: some of it must go.
    stage.pump_stream(&mut journal, DATA_BYTES as u64 * 2);
    until(&journal, "paused", |journal| is_paused(journal, PauseReason::NoSpace)).await;
    std::fs::remove_file(&hog).unwrap();
    until(&journal, "recording again", |journal| journal.state() == RecordingState::Recording)
        .await;
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    let (gaps, _) = verify(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].0 >= 200_000, "{gaps:?}");
}

#[tokio::test]
async fn flush_makes_the_newest_bytes_readable() {
    let spiller = Spiller::start(Budget::default()).unwrap();
    let stage = Stage::on_pipe();
    let mut journal = stage.create(Limits::default(), &spiller);
    for n in [1, 10, 100_000, 3] {
        stage.pump_stream(&mut journal, n);
        journal.note(Note::Mark(n.to_string()));
        let reader = journal.reader();
        assert_eq!(reader.flush(journal.span().1).await, Flushed::Done);
        let (gaps, marks) = verify(&reader, ReplayFrom::Oldest);
        assert_eq!(gaps, vec![]);
        assert_eq!(marks.last(), Some(&(journal.span().1.0, n.to_string())));
    }
    journal.note(Note::Exit { code: Some(0), signal: None });
    drop(journal);
    assert!(spiller.flush_all(PATIENCE));
    let mut exited = false;
    let ended = open_ended(&stage.dir).unwrap();
    ended
        .replay(ReplayFrom::Oldest, &mut |item| {
            let end = Note::Exit { code: Some(0), signal: None };
            exited |= matches!(item, Item::Note { note, .. } if *note == end);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert!(exited);
    verify(&ended, ReplayFrom::LastKeyframe);
}

/// A session of so many segments of 64 KiB each.
async fn filled(stage: &Stage, spiller: &Spiller, segments: u64) -> Journal {
    let limits = Limits { session_bytes: u64::MAX, segment_bytes: 64 * 1024 };
    let mut journal = stage.create(limits, spiller);
    for n in 0..segments {
        if n > 0 {
            journal.roll(Vec::new(), size());
        }
        stage.pump_stream(&mut journal, 64 * 1024);
        assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    }
    journal
}

fn oldest(stage: &Stage) -> u64 {
    open_ended(&stage.dir).unwrap().span().0.0
}

#[tokio::test]
async fn the_total_budget_takes_from_ended_sessions_first() {
    let spiller = Spiller::start(Budget { total_bytes: 700 * 1024 }).unwrap();
    let (large, small, live) = (Stage::on_pipe(), Stage::on_pipe(), Stage::on_pipe());
    for (stage, segments) in [(&large, 5), (&small, 2)] {
        let mut journal = filled(stage, &spiller, segments).await;
        journal.note(Note::Exit { code: Some(0), signal: None });
        assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    }
    // 448 KiB are there; 3 more segments stay within the budget …
    let mut journal = filled(&live, &spiller, 3).await;
    assert_eq!((oldest(&large), oldest(&small), oldest(&live)), (0, 0, 0));
    // … 3 more do not: the largest ended session pays.
    for _ in 0..3 {
        journal.roll(Vec::new(), size());
        live.pump_stream(&mut journal, 64 * 1024);
        assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    }
    assert!(oldest(&large) > 0);
    assert_eq!((oldest(&small), oldest(&live)), (0, 0));
    // Until both are down to their newest segment; then the live one pays.
    for _ in 0..8 {
        journal.roll(Vec::new(), size());
        live.pump_stream(&mut journal, 64 * 1024);
        assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    }
    assert_eq!((oldest(&large), oldest(&small)), (4 * 64 * 1024, 64 * 1024));
    assert!(journal.span().0.0 > 0);
    verify(&journal.reader(), ReplayFrom::Oldest);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_an_error_and_a_lost_one_a_pause() {
    let spiller = Spiller::start(Budget::default()).unwrap();
    let stage = Stage::on_pipe();
    std::fs::write(&stage.dir, "in the way").unwrap();
    let made = Journal::create(&stage.dir, stage.fds(), Limits::default(), &spiller, size());
    let error = made.err().expect("a file is in the way").to_string();
    assert!(error.starts_with("cannot make the journal directory /"), "{error}");
    std::fs::remove_file(&stage.dir).unwrap();
    let mut journal = stage.create(Limits::default(), &spiller);
    stage.pump_stream(&mut journal, 5_000);
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    std::fs::remove_dir_all(stage.root.path().join("journal")).unwrap();
    while journal.state() == RecordingState::Recording {
        stage.pump_stream(&mut journal, 10);
        let _ = journal.reader().flush(journal.span().1).await;
    }
    until(&journal, "a keyframe is wanted", Journal::roll_due).await;
    journal.roll(b"again".to_vec(), size());
    until(&journal, "recording again", |journal| journal.state() == RecordingState::Recording)
        .await;
    stage.pump_stream(&mut journal, 70_000);
    assert_eq!(journal.reader().flush(journal.span().1).await, Flushed::Done);
    let (gaps, _) = verify(&journal.reader(), ReplayFrom::Oldest);
    assert_eq!(gaps, vec![]);
    assert!(journal.span().0.0 > 5_000);
}
