//! Screens that were asked for lately.
//!
//! A text is made and written as JSON once per change of its screen; who asks again gets the same
//! bytes without asking the session's actor. Frames are kept so that a reader can be told what
//! changed since the one it has.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use greenroom_engine::egress::Filtered;
use greenroom_engine::session::Change;
use greenroom_engine::term::Frame;
use greenroom_engine::{Seq, SessionId};
use tokio::time::Instant;

use crate::sync::lock;

/// Frames kept per session so that `since` can be answered with a difference.
const FRAMES_KEPT: usize = 4;

#[derive(Default)]
pub(crate) struct Screens(Mutex<HashMap<SessionId, Recent>>);

#[derive(Default)]
struct Recent {
    text: Option<Text>,
    frames: VecDeque<(Seq, Filtered<Arc<Frame>>)>,
}

struct Text {
    seq: Seq,
    visible_at: Instant,
    body: Arc<str>,
}

impl Screens {
    pub(crate) fn forget(&self, id: SessionId) {
        lock(&self.0).remove(&id);
    }

    pub(crate) fn text(&self, id: SessionId, now: Change) -> Option<Arc<str>> {
        let screens = lock(&self.0);
        let text = screens.get(&id)?.text.as_ref()?;
        (text.seq == now.seq && text.visible_at == now.visible_at).then(|| text.body.clone())
    }

    /// Keeps the text of a screen as it was at `seq`, made after the change `then`.
    pub(crate) fn keep_text(&self, id: SessionId, seq: Seq, then: Change, body: Arc<str>) {
        let text = Text { seq, visible_at: then.visible_at, body };
        lock(&self.0).entry(id).or_default().text = Some(text);
    }

    pub(crate) fn frame(&self, id: SessionId, seq: Seq) -> Option<Filtered<Arc<Frame>>> {
        let screens = lock(&self.0);
        let frames = &screens.get(&id)?.frames;
        frames.iter().find(|(at, _)| *at == seq).map(|(_, frame)| frame.clone())
    }

    pub(crate) fn keep_frame(&self, id: SessionId, seq: Seq, frame: &Filtered<Arc<Frame>>) {
        let mut screens = lock(&self.0);
        let frames = &mut screens.entry(id).or_default().frames;
        frames.retain(|(at, _)| *at != seq);
        frames.push_back((seq, frame.clone()));
        if frames.len() > FRAMES_KEPT {
            frames.pop_front();
        }
    }
}
