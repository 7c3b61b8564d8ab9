//! Output with its secrets masked, for one subscriber.
//!
//! In: raw output and pictures. Out: the same with the same numbers; what is undecided comes later,
//! at the latest when output has paused for [`EXPIRE`].

use std::sync::Arc;

use greenroom_term::{Screen, Size, paint};
use tokio::time::Instant;

use super::{Picture, Push};
use crate::egress::{EXPIRE, Egress, Filtered, PAUSE, Raw, Redactor};
use crate::id::Seq;

pub(super) struct Masking {
    egress: Egress,
    redactor: Redactor,
    /// Number of the next byte the actor will send.
    next: Seq,
    /// Nothing before this is given out.
    from: Seq,
    last: Instant,
    paused: bool,
}

impl Masking {
    pub(super) fn new(egress: Egress, redactor: Redactor, start: Seq) -> Masking {
        let last = Instant::now();
        Masking { egress, redactor, next: start, from: Seq(0), last, paused: false }
    }

    /// The next byte is `at`, and this was before it.
    pub(super) fn restart(&mut self, at: Seq, before: &[u8]) {
        self.redactor = self.egress.redactor_at(Seq(at.0.saturating_sub(before.len() as u64)));
        self.redactor.prime(before);
        self.next = at;
    }

    pub(super) fn output(&mut self, seq: Seq, bytes: Raw<Arc<[u8]>>) -> Option<Push> {
        (self.last, self.paused) = (Instant::now(), false);
        if seq != self.next {
            self.redactor.skip_to(seq, &mut Vec::new());
        }
        self.next = seq.plus(bytes.len() as u64);
        let bytes = bytes.inside();
        self.let_out(|redactor, out| redactor.feed(&bytes, out))
    }

    /// A picture of the screen at `seq`; output after it follows.
    pub(super) fn picture(&mut self, seq: Seq, picture: Raw<Picture>) -> Filtered<Vec<u8>> {
        let picture = picture.inside();
        if seq != self.next
            && let Picture::Keyframe { before, .. } | Picture::Grid { before, .. } = &picture
        {
            self.restart(seq, before);
        }
        self.from = seq;
        match picture {
            // Nobody makes one for a subscriber whose output is masked.
            Picture::Finished(_) => self.egress.made_of_filtered(Vec::new()),
            Picture::Keyframe { keyframe, size, .. } => self
                .egress
                .keyframe(Raw::new(keyframe), self.redactor.undecided())
                .map(|bytes| for_viewers(size, &bytes)),
            Picture::Grid { frame, window, .. } => {
                self.egress.frame(Raw::new(frame)).map(|frame| paint::letterbox(&frame, window))
            }
        }
    }

    /// When what is held back should be looked at again.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.redactor.held() > 0).then(|| self.last + if self.paused { EXPIRE } else { PAUSE })
    }

    /// Lets out what a pause lets out.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Push> {
        self.due().filter(|due| *due <= now)?;
        if std::mem::replace(&mut self.paused, true) {
            self.let_out(Redactor::expire)
        } else {
            self.let_out(Redactor::paused)
        }
    }

    /// The session ended: what is undecided is no secret.
    pub(super) fn finish(&mut self) -> Option<Push> {
        self.let_out(Redactor::finish)
    }

    fn let_out(&mut self, act: impl FnOnce(&mut Redactor, &mut Vec<u8>)) -> Option<Push> {
        let at = self.redactor.at();
        let mut out = Vec::new();
        act(&mut self.redactor, &mut out);
        let skip = usize::try_from(self.from.since(at)).unwrap_or(usize::MAX).min(out.len());
        let out = &out[skip..];
        let bytes = || self.egress.made_of_filtered(Arc::from(out));
        (!out.is_empty()).then(|| Push::Output { seq: at.plus(skip as u64), bytes: bytes() })
    }
}

/// A keyframe of ours as other terminals understand it.
pub(super) fn for_viewers(size: Size, keyframe: &[u8]) -> Vec<u8> {
    Screen::restore(size, keyframe).viewer_keyframe()
}
