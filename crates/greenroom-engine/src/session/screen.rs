//! The session's screen, awake or asleep.
//!
//! A screen nobody touched for a while is kept as its keyframe (a few KiB) and
//! painted back on the next touch. Frames are made at most once per change.

use std::sync::Arc;

use greenroom_term::{AnnotatedKeyframe, Frame, InputModes, Mark, Screen, Size};

use crate::id::Seq;

pub(crate) struct SessionScreen {
    state: State,
    size: Size,
    seq: Seq,
    visible: u64,
    frame: Option<Arc<Frame>>,
}

enum State {
    Awake(Box<Screen>),
    Asleep(Box<[u8]>),
    Lost,
}

/// What feeding brought up besides the picture.
#[derive(Default)]
pub(crate) struct Fed {
    pub replies: Vec<u8>,
    pub marks: Vec<Mark>,
    pub visibly: bool,
}

impl SessionScreen {
    pub(crate) fn new(size: Size) -> SessionScreen {
        SessionScreen::of(Screen::new(size), Seq(0))
    }

    pub(crate) fn of(screen: Screen, seq: Seq) -> SessionScreen {
        let size = screen.size();
        let visible = screen.visible_changes();
        SessionScreen { state: State::Awake(Box::new(screen)), size, seq, visible, frame: None }
    }

    /// The screen itself, for another thread; an empty one that is not to be looked
    /// at stays behind.
    pub(crate) fn take(&mut self) -> SessionScreen {
        let empty = SessionScreen { state: State::Asleep(Box::default()), frame: None, ..*self };
        std::mem::replace(self, empty)
    }

    /// A screen that has to be rebuilt.
    pub(crate) fn lost(size: Size, seq: Seq) -> SessionScreen {
        SessionScreen { state: State::Lost, size, seq, visible: 0, frame: None }
    }

    pub(crate) fn feed(&mut self, first: &[u8], second: &[u8]) -> Fed {
        let screen = self.wake();
        screen.feed(first);
        screen.feed(second);
        let fed =
            Fed { replies: screen.take_replies(), marks: screen.take_marks(), visibly: false };
        let visible = screen.visible_changes();
        self.seq = self.seq.plus((first.len() + second.len()) as u64);
        let visibly = visible != self.visible;
        self.visible = visible;
        self.frame = None;
        Fed { visibly, ..fed }
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.wake().resize(size);
        self.size = size;
        self.frame = None;
    }

    pub(crate) fn frame(&mut self) -> Arc<Frame> {
        if let Some(frame) = &self.frame {
            return frame.clone();
        }
        let frame = Arc::new(self.wake().frame());
        self.frame = Some(frame.clone());
        frame
    }

    pub(crate) fn keyframe(&mut self) -> Vec<u8> {
        match &self.state {
            State::Awake(screen) => screen.keyframe(),
            State::Asleep(keyframe) => keyframe.to_vec(),
            State::Lost => Vec::new(),
        }
    }

    /// The same for a viewer's terminal.
    pub(crate) fn viewer_keyframe(&mut self) -> Vec<u8> {
        match &self.state {
            State::Lost => Vec::new(),
            State::Awake(_) | State::Asleep(_) => self.wake().viewer_keyframe(),
        }
    }

    /// The same, with what is known of its parts.
    pub(crate) fn annotated_keyframe(&mut self) -> AnnotatedKeyframe {
        match &self.state {
            State::Lost => AnnotatedKeyframe::default(),
            State::Awake(_) | State::Asleep(_) => self.wake().annotated_keyframe(),
        }
    }

    pub(crate) fn input_modes(&mut self) -> InputModes {
        self.wake().input_modes()
    }

    pub(crate) fn alternate(&mut self) -> bool {
        self.wake().alternate()
    }

    pub(crate) fn in_sync_update(&self) -> bool {
        matches!(&self.state, State::Awake(screen) if screen.in_sync_update())
    }

    pub(crate) fn is_broken(&self) -> bool {
        match &self.state {
            State::Awake(screen) => screen.is_broken(),
            State::Asleep(_) => false,
            State::Lost => true,
        }
    }

    pub(crate) fn sleep(&mut self) {
        if let State::Awake(screen) = &self.state {
            let keyframe = screen.keyframe().into_boxed_slice();
            self.state = State::Asleep(keyframe);
            self.frame = None;
        }
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    pub(crate) fn replace(&mut self, screen: Screen, seq: Seq) {
        *self = SessionScreen::of(screen, seq);
    }

    fn wake(&mut self) -> &mut Screen {
        let screen = match &self.state {
            State::Awake(_) => None,
            State::Asleep(keyframe) => Some(Screen::restore(self.size, keyframe)),
            State::Lost => Some(Screen::new(self.size)),
        };
        if let Some(screen) = screen {
            self.visible = screen.visible_changes();
            self.state = State::Awake(Box::new(screen));
        }
        match &mut self.state {
            State::Awake(screen) => screen,
            State::Asleep(_) | State::Lost => unreachable!("woken above"),
        }
    }
}
