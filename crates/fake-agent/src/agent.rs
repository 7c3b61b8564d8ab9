//! The agent on a terminal: one loop, one state.
//!
//! In: keys, signals and time. Out: frames and marks. A [`Playing`] turn is a queue of acts; time
//! passes only between them, so that Esc and a change of size find the agent listening at any time.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::draft::Draft;
use crate::input::{Decoder, Input};
use crate::line::{Line, Style};
use crate::options::Options;
use crate::paint::{Live, View};
use crate::script::Script;
use crate::tty::{Tty, TtyError, Wake};
use crate::turn::{Act, Dialog, acts};
use crate::widgets;

/// How long an ESC may wait for the rest of a sequence before it was the Escape key.
const ESCAPE_WAIT: Duration = Duration::from_millis(50);
/// The second ctrl-C must come within this time.
const LEAVE_WAIT: Duration = Duration::from_secs(2);
/// Prompts that wait for the running turn; more are refused with a bell.
const MAX_QUEUE: usize = 8;
/// This much text in one read was not typed by hand.
const PASTE_BURST: usize = 16;

pub(crate) fn run(script: Script, options: &Options) -> Result<u8, TtyError> {
    let mut tty = Tty::open()?;
    let mut agent = Agent::new(script, options, tty.size());
    agent.start(options.prompt.clone());
    while agent.exit.is_none() {
        agent.render();
        tty.write(&agent.view.take())?;
        let wake = tty.wait(agent.deadline())?;
        agent.wake(wake, &tty);
    }
    agent.leave();
    // A terminal that is gone is no reason to fail on the way out.
    let _ = tty.write(&agent.view.take());
    Ok(agent.exit.unwrap_or(0))
}

struct Agent {
    script: Script,
    pace: f64,
    kitty: bool,
    view: View,
    decoder: Decoder,
    escape_by: Option<Instant>,
    draft: Draft,
    playing: Option<Playing>,
    queue: VecDeque<String>,
    /// Tools that need no more permission.
    allowed: HashSet<String>,
    leave_until: Option<Instant>,
    pasted_at: Option<Instant>,
    /// The prompt is painted for the first time: say so after the frame.
    prompt_is_new: bool,
    exit: Option<u8>,
}

struct Playing {
    acts: VecDeque<Act>,
    next_at: Instant,
    started: Instant,
    word: String,
    paragraph: Line,
    dialog: Option<Dialog>,
}

impl Agent {
    fn new(script: Script, options: &Options, size: (usize, usize)) -> Self {
        Self {
            view: View::new(script.alternate_screen, size),
            script,
            pace: options.pace,
            kitty: options.kitty,
            decoder: Decoder::default(),
            escape_by: None,
            draft: Draft::default(),
            playing: None,
            queue: VecDeque::new(),
            allowed: HashSet::new(),
            leave_until: None,
            pasted_at: None,
            prompt_is_new: false,
            exit: None,
        }
    }

    fn start(&mut self, prompt: Option<String>) {
        if self.script.alternate_screen {
            self.view.emit(b"\x1b[?1049h\x1b[2J\x1b[H");
        }
        self.view.emit(b"\x1b[?2004h\x1b[?1004h");
        if self.kitty {
            self.view.emit(b"\x1b[>1u");
        }
        let cwd = std::env::current_dir().map(|dir| dir.display().to_string());
        let cwd = cwd.unwrap_or_else(|_| "?".into());
        for line in widgets::welcome(&self.script.welcome, &cwd, self.view.cols()) {
            self.view.commit(line);
        }
        match prompt {
            Some(prompt) => self.submit(&prompt, &prompt),
            None => self.await_prompt(),
        }
    }

    fn leave(&mut self) {
        self.view.clear_live();
        if self.kitty {
            self.view.emit(b"\x1b[<u");
        }
        self.view.emit(b"\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b]9;4;0\x07\x1b]0;\x07");
        if self.script.alternate_screen {
            self.view.emit(b"\x1b[?1049l");
        }
    }

    fn wake(&mut self, wake: Wake, tty: &Tty) {
        let now = Instant::now();
        match wake {
            Wake::Input(bytes) => {
                let events = self.decoder.feed(&bytes);
                self.escape_by = self.decoder.is_waiting().then(|| now + ESCAPE_WAIT);
                self.take_inputs(events, now);
            }
            Wake::Resized => self.view.resize(tty.size()),
            Wake::Signal(signal) => self.exit = Some(128 + u8::try_from(signal).unwrap_or(0)),
            Wake::Gone => self.exit = Some(129),
            Wake::Deadline => {}
        }
        if self.escape_by.is_some_and(|at| at <= now) {
            self.escape_by = None;
            let events = self.decoder.flush();
            self.take_inputs(events, now);
        }
        if self.leave_until.is_some_and(|at| at <= now) {
            self.leave_until = None;
        }
        self.advance(now);
    }

    /// When something happens even if nobody does anything.
    fn deadline(&self) -> Option<Instant> {
        let turn = self.playing.as_ref().filter(|playing| playing.dialog.is_none());
        let spin = turn.map(|_| Instant::now() + widgets::SPIN);
        [turn.map(|playing| playing.next_at), spin, self.escape_by, self.leave_until]
            .into_iter()
            .flatten()
            .min()
    }

    fn take_inputs(&mut self, events: Vec<Input>, now: Instant) {
        for event in events {
            if event != Input::CtrlC {
                self.leave_until = None;
            }
            let in_dialog = self.playing.as_ref().is_some_and(|playing| playing.dialog.is_some());
            if in_dialog {
                self.take_in_dialog(event);
            } else {
                self.take_input(event, now);
            }
        }
    }

    fn take_input(&mut self, event: Input, now: Instant) {
        match event {
            Input::Text(text) => {
                if text.chars().count() >= PASTE_BURST {
                    self.pasted_at = Some(now);
                }
                self.draft.push(&text);
            }
            Input::Paste(text) => {
                self.pasted_at = Some(now);
                self.draft.paste(&text);
            }
            Input::NewLine => self.draft.push("\n"),
            Input::Backspace => self.draft.backspace(),
            Input::Enter => self.enter(now),
            Input::CtrlC if self.playing.is_some() => self.interrupt(),
            Input::CtrlC if self.leave_until.is_some() => self.exit = Some(0),
            Input::CtrlC => {
                self.draft.clear();
                self.leave_until = Some(now + LEAVE_WAIT);
            }
            Input::Escape if self.playing.is_some() => self.interrupt(),
            Input::Escape | Input::CtrlU => self.draft.clear(),
            Input::CtrlD if self.draft.is_empty() && self.playing.is_none() => self.exit = Some(0),
            Input::CtrlD | Input::Up | Input::Down => {}
        }
    }

    fn enter(&mut self, now: Instant) {
        // The trap of many agents: Enter right after a paste is taken for a part of it, and lost.
        let swallowed = self
            .script
            .slow_paste
            .zip(self.pasted_at)
            .is_some_and(|(wait, at)| now.saturating_duration_since(at) < wait);
        if swallowed || self.draft.full().trim().is_empty() {
            return;
        }
        let (prompt, shown) = (self.draft.full(), self.draft.shown());
        if self.playing.is_some() {
            if self.queue.len() >= MAX_QUEUE {
                return self.view.emit(b"\x07");
            }
            self.queue.push_back(prompt);
            return self.draft.clear();
        }
        self.draft.clear();
        if prompt.trim() == "/exit" {
            self.exit = Some(0);
            return;
        }
        self.submit(&prompt, &shown);
    }

    fn take_in_dialog(&mut self, event: Input) {
        let Some(dialog) = self.playing.as_mut().and_then(|playing| playing.dialog.as_mut()) else {
            return;
        };
        let last = dialog.options.len() - 1;
        let choice = match event {
            Input::Up => {
                dialog.selected = dialog.selected.saturating_sub(1);
                return;
            }
            Input::Down => {
                dialog.selected = (dialog.selected + 1).min(last);
                return;
            }
            Input::Enter => dialog.selected,
            Input::Escape | Input::CtrlC => last,
            Input::Text(text) => match text.parse::<usize>() {
                Ok(number @ 1..) if number <= last + 1 => number - 1,
                _ => return,
            },
            _ => return,
        };
        self.answer(choice);
    }

    fn answer(&mut self, choice: usize) {
        let Some(playing) = self.playing.as_mut() else { return };
        let Some(dialog) = playing.dialog.take() else { return };
        if dialog.declines(choice) {
            return self.interrupt();
        }
        playing.next_at = Instant::now();
        if let (Some(tool), 1) = (dialog.tool, choice) {
            self.allowed.insert(tool);
        }
    }

    fn submit(&mut self, prompt: &str, shown: &str) {
        for (at, line) in shown.trim_end().split('\n').enumerate() {
            let lead = if at == 0 { "> " } else { "  " };
            self.view.commit(Line::new(&format!("{lead}{line}"), Style::Dim));
        }
        self.view.commit(Line::default());
        self.prompt_is_new = false;
        self.view.emit(b"\x1b]133;C\x07\x1b]9;4;3\x07");
        self.title("⠂", &self.script.name.clone());
        let now = Instant::now();
        self.playing = Some(Playing {
            acts: acts(&self.script, prompt.trim()),
            next_at: now,
            started: now,
            word: "Working".into(),
            paragraph: Line::default(),
            dialog: None,
        });
    }

    /// Plays what is due.
    fn advance(&mut self, now: Instant) {
        while let Some(playing) = self.playing.as_mut() {
            if playing.dialog.is_some() || playing.next_at > now || self.exit.is_some() {
                return;
            }
            match playing.acts.pop_front() {
                Some(act) => self.play(act, now),
                None => self.finish(0),
            }
        }
    }

    fn play(&mut self, act: Act, now: Instant) {
        let Some(playing) = self.playing.as_mut() else { return };
        match act {
            Act::Pause(time) => playing.next_at = now + time.mul_f64(self.pace),
            Act::Spin(word) => playing.word = word,
            Act::Stream(word) => playing.paragraph.append(word),
            Act::EndParagraph => {
                let paragraph = std::mem::take(&mut playing.paragraph);
                self.view.commit(paragraph);
            }
            Act::Commit(line) => self.view.commit(line),
            Act::Raw(bytes) => self.view.raw(bytes),
            Act::Bell => self.view.emit(b"\x07"),
            Act::Notify(text) => self.notify(&text),
            Act::Title(text) => self.title("⠂", &text),
            Act::Exit(code) => self.exit = Some(code),
            Act::Ask(dialog) => {
                if dialog.tool.as_ref().is_some_and(|tool| self.allowed.contains(tool)) {
                    return;
                }
                playing.dialog = Some(dialog);
                self.notify(&format!("{} needs your permission", self.script.name));
            }
        }
    }

    fn interrupt(&mut self) {
        if let Some(playing) = self.playing.as_mut()
            && !playing.paragraph.is_empty()
        {
            let paragraph = std::mem::take(&mut playing.paragraph);
            self.view.commit(paragraph);
        }
        self.view.commit(Line::new("  ⎿  Interrupted by user", Style::Bad));
        self.finish(130);
    }

    fn finish(&mut self, code: u8) {
        self.playing = None;
        self.view.commit(Line::default());
        self.view.emit(format!("\x1b]133;D;{code}\x07\x1b]9;4;0\x07").as_bytes());
        match self.queue.pop_front() {
            Some(prompt) => self.submit(&prompt, &prompt),
            None => {
                self.notify(&format!("{} is waiting for your input", self.script.name));
                self.await_prompt();
            }
        }
    }

    fn await_prompt(&mut self) {
        self.title("✳", &self.script.name.clone());
        self.view.emit(b"\x1b]133;A\x07");
        self.prompt_is_new = true;
    }

    fn title(&mut self, glyph: &str, text: &str) {
        let text = Line::plain(text).text();
        self.view.emit(format!("\x1b]0;{glyph} {text}\x07").as_bytes());
    }

    fn notify(&mut self, text: &str) {
        let text = Line::plain(text).text();
        self.view.emit(format!("\x1b]9;{text}\x07").as_bytes());
    }

    fn render(&mut self) {
        let mut live = Live::default();
        let cols = self.view.cols();
        if let Some(playing) = &self.playing {
            if !playing.paragraph.is_empty() {
                live.lines.extend(playing.paragraph.wrap(cols, 2));
            }
            live.lines.push(Line::default());
            if let Some(dialog) = &playing.dialog {
                widgets::dialog(&mut live, dialog, cols);
                return self.view.frame(live);
            }
            live.lines.push(widgets::spinner(&playing.word, playing.started.elapsed()));
            live.lines.push(Line::default());
        }
        for queued in &self.queue {
            let first = queued.lines().next().unwrap_or_default();
            live.lines.push(Line::new(&format!("  queued: {first}"), Style::Dim));
        }
        let footer = match self.leave_until {
            Some(_) => "Press Ctrl-C again to exit",
            None => "? for shortcuts",
        };
        widgets::prompt(&mut live, &self.draft.shown(), footer, cols);
        self.view.frame(live);
        if std::mem::take(&mut self.prompt_is_new) {
            self.view.emit(b"\x1b]133;B\x07");
        }
    }
}
