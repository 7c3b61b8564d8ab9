//! Plays a recording: a timeline of output, written in its own time or faster.
//!
//! In: asciicast lines. Out: bytes on stdout. On a terminal keys pause, seek and change the speed;
//! seeking back repaints from the start. The map: [`Timeline`] is the recording without a clock,
//! [`Player`] is the clock.
//! Absent on purpose: a screen. The terminal in front of the user is one.

use std::time::Duration;

use greenroom_formats::asciicast::{CastError, Event, Header, Line, Reader};
use tokio::time::Instant;

use crate::attach::input::{Act, InputFilter};
use crate::attach::terminal::{self, RawMode};
use crate::attach::{at, keyboard, read_keys};
use crate::error::Failure;
use crate::output::write;

/// How far an arrow key goes.
const SEEK: Duration = Duration::from_secs(5);
/// Written at once while seeking: pieces that a terminal digests.
const PIECE: usize = 64 * 1024;

/// A recording in memory, with its pauses cut.
#[derive(Debug, Default)]
pub struct Timeline {
    pub header: Header,
    events: Vec<(Duration, Event)>,
}

impl Timeline {
    /// Reads lines; `idle_limit` cuts pauses, else the recording's own limit does.
    pub fn read<'a>(
        lines: impl IntoIterator<Item = &'a str>,
        idle_limit: Option<Duration>,
    ) -> Result<Timeline, CastError> {
        let mut reader = Reader::new();
        let mut timeline = Timeline::default();
        let mut limit = idle_limit;
        let (mut last, mut cut) = (Duration::ZERO, Duration::ZERO);
        for line in lines {
            match reader.line(line)? {
                None => {}
                Some(Line::Header(header)) => {
                    let own = header
                        .idle_time_limit
                        .and_then(|limit| Duration::try_from_secs_f64(limit).ok());
                    limit = limit.or(own);
                    timeline.header = header;
                }
                Some(Line::Event(at, event)) => {
                    let pause = at.saturating_sub(last);
                    cut += limit.map_or(Duration::ZERO, |limit| pause.saturating_sub(limit));
                    last = at;
                    timeline.events.push((at.saturating_sub(cut), event));
                }
            }
        }
        Ok(timeline)
    }

    /// The time of the last event.
    pub fn duration(&self) -> Duration {
        self.events.last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// All output, joined.
    pub fn output(&self) -> String {
        let texts = self.events.iter().filter_map(|(_, event)| match event {
            Event::Output(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// How the program ended, if the recording says.
    pub fn exit(&self) -> Option<i32> {
        self.events.iter().rev().find_map(|(_, event)| match event {
            Event::Exit(status) => Some(*status),
            _ => None,
        })
    }
}

/// Where playing stands.
#[derive(Debug)]
pub struct Player<'a> {
    timeline: &'a Timeline,
    /// The next event.
    next: usize,
    /// The moment of the recording that was reached at `since`.
    position: Duration,
    since: Instant,
    speed: f64,
    paused: bool,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Quit,
    Pause,
    Back,
    Forward,
    Faster,
    Slower,
}

impl<'a> Player<'a> {
    /// At `start`, before anything is written.
    pub fn new(timeline: &'a Timeline, speed: f64, start: Duration) -> Player<'a> {
        Player { timeline, next: 0, position: start, since: Instant::now(), speed, paused: false }
    }

    /// Plays to the end without a keyboard.
    pub async fn play(mut self) -> Result<(), Failure> {
        self.catch_up()?;
        while self.next < self.timeline.events.len() {
            if self.speed > 0.0 {
                at(self.due()).await;
            } else {
                self.position = self.timeline.duration();
            }
            self.catch_up()?;
        }
        Ok(())
    }

    /// Plays on the user's terminal until its end or until a key ends it.
    pub async fn play_on_terminal(mut self) -> Result<(), Failure> {
        let raw = RawMode::enter()?;
        let rows = terminal::window().map_or(24, |size| size.rows);
        write(
            &[terminal::TITLE_PUSH, &terminal::make_room(rows), &terminal::repaint(b"")].concat(),
        )?;
        let played = self.play_with_keys().await;
        raw.leave(false);
        played
    }

    async fn play_with_keys(&mut self) -> Result<(), Failure> {
        let stdin = std::io::stdin();
        let keyboard = keyboard(&stdin)?;
        // The recording's queries are answered by the terminal; those answers are not keys.
        let mut filter = InputFilter::new("none".parse().map_err(Failure::failed)?);
        self.catch_up()?;
        while self.paused || self.next < self.timeline.events.len() {
            if self.speed == 0.0 {
                self.position = self.timeline.duration();
                self.catch_up()?;
                continue;
            }
            let hold = filter.hold().map(|hold| Instant::now() + hold);
            let acts = tokio::select! {
                () = at(self.due()) => {
                    self.catch_up()?;
                    continue;
                }
                () = at(hold) => filter.flush(),
                keys = read_keys(&keyboard) => {
                    if keys.is_empty() {
                        return Ok(());
                    }
                    filter.feed(&keys)
                }
            };
            for command in acts.iter().filter_map(command) {
                if command == Command::Quit {
                    return Ok(());
                }
                self.obey(command)?;
            }
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) -> Result<(), Failure> {
        let now = self.now();
        self.position = now;
        self.since = Instant::now();
        match command {
            Command::Quit => {}
            Command::Pause => self.paused = !self.paused,
            Command::Faster => self.speed = (self.speed * 2.0).min(64.0),
            Command::Slower => self.speed = (self.speed / 2.0).max(1.0 / 16.0),
            Command::Forward => {
                self.position = (now + SEEK).min(self.timeline.duration());
                self.catch_up()?;
            }
            Command::Back => {
                self.position = now.saturating_sub(SEEK);
                self.next = 0;
                write(&terminal::repaint(b""))?;
                self.catch_up()?;
            }
        }
        Ok(())
    }

    /// The moment of the recording it is now.
    fn now(&self) -> Duration {
        if self.paused {
            return self.position;
        }
        self.position + self.since.elapsed().mul_f64(self.speed)
    }

    /// When the next event is due; never while paused.
    fn due(&self) -> Option<Instant> {
        let (at, _) = self.timeline.events.get(self.next).filter(|_| !self.paused)?;
        Some(
            self.since
                + at.saturating_sub(self.position).div_f64(self.speed.max(f64::MIN_POSITIVE)),
        )
    }

    /// Writes everything that is due.
    fn catch_up(&mut self) -> Result<(), Failure> {
        let now = if self.speed == 0.0 { self.position } else { self.now() };
        let mut text = String::new();
        while let Some((at, event)) = self.timeline.events.get(self.next) {
            if *at > now {
                break;
            }
            if let Event::Output(output) = event {
                text.push_str(output);
            }
            self.next += 1;
            if text.len() >= PIECE {
                write(text.as_bytes())?;
                text.clear();
            }
        }
        write(text.as_bytes())
    }
}

fn command(act: &Act) -> Option<Command> {
    let Act::Input(bytes) = act else { return None };
    match bytes.as_slice() {
        b"q" | b"\x03" | b"\x1b" => Some(Command::Quit),
        b" " => Some(Command::Pause),
        b"\x1b[D" | b"\x1bOD" | b"h" => Some(Command::Back),
        b"\x1b[C" | b"\x1bOC" | b"l" => Some(Command::Forward),
        b"\x1b[A" | b"\x1bOA" | b"+" => Some(Command::Faster),
        b"\x1b[B" | b"\x1bOB" | b"-" => Some(Command::Slower),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V3: &str = "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[0.5,\"o\",\"a\"]\n[10.0,\"o\",\"b\"]\n[1.0,\"x\",\"3\"]\n";
    const V2: &str =
        "{\"version\":2,\"width\":80,\"height\":24}\n[0.5,\"o\",\"a\"]\n[10.5,\"o\",\"b\"]\n";

    #[test]
    fn both_versions_are_one_timeline() {
        let v3 = Timeline::read(V3.lines(), None).unwrap();
        assert_eq!(v3.duration(), Duration::from_millis(11_500));
        assert_eq!((v3.output().as_str(), v3.exit(), v3.len()), ("ab", Some(3), 3));
        let v2 = Timeline::read(V2.lines(), None).unwrap();
        assert_eq!((v2.duration(), v2.output().as_str()), (Duration::from_millis(10_500), "ab"));
    }

    #[test]
    fn pauses_are_cut_once() {
        let timeline = Timeline::read(V3.lines(), Some(Duration::from_secs(2))).unwrap();
        assert_eq!(timeline.duration(), Duration::from_millis(3_500));
    }

    #[test]
    fn a_mistake_names_its_line() {
        let error =
            Timeline::read("{\"version\":3,\"term\":{\"cols\":1,\"rows\":1}}\nx".lines(), None)
                .unwrap_err();
        assert!(error.to_string().starts_with("line 2:"), "{error}");
    }

    #[test]
    fn keys() {
        let press = |bytes: &[u8]| command(&Act::Input(bytes.to_vec()));
        assert_eq!(press(b" "), Some(Command::Pause));
        assert_eq!(press(b"\x1b[C"), Some(Command::Forward));
        assert_eq!(press(b"x"), None);
    }
}
