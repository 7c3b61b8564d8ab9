//! What one follower is sent, made fit for it on the follower's own task.
//!
//! In: pushes of the actor, raw. Out: the same, masked, with the same numbers; what is undecided comes later. For the
//! human at this machine nothing is looked at and nothing is copied.

use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, Marked, Screen, Size};
use tokio::time::Instant;

use crate::egress::redactor::{Redactor, mask_last};
use crate::egress::{Egress, Filtered, Raw, Sink};
use crate::id::Seq;
use crate::paint;

/// Output pauses this long: a few characters of an undecided end are let out, so that a prompt is not stuck.
pub const PAUSE: Duration = Duration::from_millis(40);

/// Output pauses this long: what is still undecided is masked and let out.
pub const EXPIRE: Duration = Duration::from_secs(1);

pub(crate) struct Flow {
    egress: Egress,
    /// `None`: this follower sees everything.
    redactor: Option<Redactor>,
    /// Number of the next byte the actor will send.
    next: Seq,
    /// Nothing before this is given out.
    from: Seq,
    last: Instant,
    paused: bool,
}

pub(crate) type Passed = (Seq, Filtered<Arc<[u8]>>);

impl Flow {
    pub fn new(egress: &Egress, sink: Option<Sink>, start: Seq) -> Flow {
        Flow {
            egress: egress.clone(),
            redactor: sink.and_then(|sink| egress.redactor(sink, start)),
            next: start,
            from: Seq(0),
            last: Instant::now(),
            paused: false,
        }
    }

    /// Whether it wants to know what was before.
    pub fn is_filtered(&self) -> bool {
        self.redactor.is_some()
    }

    /// The next byte is `at`, and this was before it.
    pub fn restart(&mut self, at: Seq, before: &Raw<Vec<u8>>) {
        let Some(redactor) = &mut self.redactor else { return };
        *redactor = self.egress.redactor_at(Seq(at.0.saturating_sub(before.0.len() as u64)));
        redactor.prime(&before.0);
        self.next = at;
    }

    pub fn output(&mut self, seq: Seq, bytes: Raw<Arc<[u8]>>) -> Option<Passed> {
        let Some(redactor) = &mut self.redactor else { return Some((seq, Filtered(bytes.0))) };
        (self.last, self.paused) = (Instant::now(), false);
        if seq != self.next {
            redactor.skip_to(seq, &mut Vec::new());
        }
        self.next = seq.plus(bytes.0.len() as u64);
        self.letting(|redactor, out| redactor.feed(&bytes.0, out))
    }

    /// A picture of the screen at `seq`; output after it follows.
    pub fn keyframe(&mut self, seq: Seq, Raw(picture): Raw<Picture>) -> Filtered<Vec<u8>> {
        if self.redactor.is_none() {
            return Filtered(match picture.shown {
                Shown::Bare(bytes) => bytes,
                Shown::Keyframe(keyframe, size) => for_viewers(size, &keyframe.bytes),
                Shown::Grid { frame, window } => paint::letterbox(&frame, window),
            });
        }
        if seq != self.next {
            self.restart(seq, &Raw(picture.before));
        }
        self.from = seq;
        match picture.shown {
            // Nobody makes one for a follower who is filtered.
            Shown::Bare(_) => Filtered(Vec::new()),
            Shown::Keyframe(keyframe, size) => {
                self.masked(keyframe).map(|bytes| for_viewers(size, &bytes))
            }
            Shown::Grid { frame, window } => self
                .egress
                .frame(Sink::AttachRemote, Raw(frame))
                .map(|frame| paint::letterbox(&frame, window)),
        }
    }

    /// The same bytes, masked. The beginning of what may become a secret stands before the cursor and is hidden, too:
    /// what follows is decided only after the picture was sent.
    fn masked(&self, Marked { bytes, to_cursor, wraps }: Marked) -> Filtered<Vec<u8>> {
        let mut redactor = self.egress.redactor_at(Seq(0)).joining(wraps);
        let mut out = Vec::with_capacity(bytes.len());
        redactor.feed(&bytes, &mut out);
        // Not the end of anything: a keyframe may stop in the middle of a title.
        redactor.expire(&mut out);
        let undecided = self.redactor.as_ref().map_or(0, Redactor::undecided);
        let end = to_cursor.min(out.len());
        mask_last(&mut out[..end], undecided);
        Filtered(out)
    }

    /// When what is held back should be looked at again.
    pub fn due(&self) -> Option<Instant> {
        self.redactor.as_ref().filter(|redactor| redactor.held() > 0)?;
        Some(self.last + if self.paused { EXPIRE } else { PAUSE })
    }

    /// Lets out what a pause lets out.
    pub fn tick(&mut self, now: Instant) -> Option<Passed> {
        let due = self.due().filter(|due| *due <= now)?;
        self.paused = true;
        match due == self.last + PAUSE {
            true => self.letting(Redactor::paused),
            false => self.letting(Redactor::expire),
        }
    }

    /// The session ended: what is undecided is no secret.
    pub fn finish(&mut self) -> Option<Passed> {
        self.letting(Redactor::finish)
    }

    fn letting(&mut self, act: impl FnOnce(&mut Redactor, &mut Vec<u8>)) -> Option<Passed> {
        let redactor = self.redactor.as_mut()?;
        let at = redactor.at();
        let mut out = Vec::new();
        act(redactor, &mut out);
        let skip = usize::try_from(self.from.since(at)).unwrap_or(usize::MAX).min(out.len());
        let out = &out[skip..];
        (!out.is_empty()).then(|| (at.plus(skip as u64), Filtered(out.into())))
    }
}

/// A keyframe of ours as other terminals understand it.
pub(crate) fn for_viewers(size: Size, keyframe: &[u8]) -> Vec<u8> {
    Screen::restore(size, keyframe).viewer_keyframe()
}

/// A screen, and what is needed to go on from it.
pub(crate) struct Picture {
    pub shown: Shown,
    /// Output before it.
    pub before: Vec<u8>,
}

pub(crate) enum Shown {
    /// For a viewer with a window of the session's size who sees everything: fit for its terminal.
    Bare(Vec<u8>),
    /// For one who does not: to be masked first.
    Keyframe(Marked, Size),
    /// To be painted into a window.
    Grid { frame: Arc<Frame>, window: Size },
}

impl Picture {
    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let shown = match &self.shown {
            Shown::Bare(bytes) => bytes.len(),
            Shown::Keyframe(keyframe, _) => keyframe.bytes.len(),
            Shown::Grid { frame, .. } => {
                usize::from(frame.size.cols()) * usize::from(frame.size.rows())
            }
        };
        shown + self.before.len()
    }
}
