//! The agent without a terminal: a prompt per line in, the answer as plain text out.
//!
//! Deliberately absent: delays, spinner, colours and marks. A dialog prints its options and reads
//! the number from the next line; a line that is no option declines, and so does the end of input.

use std::collections::HashSet;
use std::io::{self, BufRead, Read, Write};

use crate::line::Line;
use crate::numbers::ended;
use crate::script::Script;
use crate::turn::{Act, Dialog, acts};

/// A longer prompt is cut.
const MAX_LINE: u64 = 256 * 1024;

pub(crate) fn run(
    script: &Script,
    prompt: Option<String>,
    input: impl BufRead,
    out: &mut impl Write,
) -> io::Result<u8> {
    let mut agent = Plain { script, input, out, allowed: HashSet::new() };
    agent.serve(prompt).or_else(|error| ended(Err(error)))
}

struct Plain<'a, R, W> {
    script: &'a Script,
    input: R,
    out: &'a mut W,
    allowed: HashSet<String>,
}

impl<R: BufRead, W: Write> Plain<'_, R, W> {
    fn serve(&mut self, first: Option<String>) -> io::Result<u8> {
        writeln!(self.out, "{}", self.script.welcome)?;
        let mut next = first;
        loop {
            let prompt = next.take().map_or_else(|| self.read_line(), |prompt| Ok(Some(prompt)))?;
            let Some(prompt) = prompt else { return Ok(0) };
            match prompt.trim() {
                "" => continue,
                "/exit" => return Ok(0),
                prompt => {
                    writeln!(self.out, "> {prompt}")?;
                    if let Some(code) = self.play(prompt)? {
                        return Ok(code);
                    }
                }
            }
            self.out.flush()?;
        }
    }

    fn play(&mut self, prompt: &str) -> io::Result<Option<u8>> {
        let mut paragraph = Line::default();
        for act in acts(self.script, prompt) {
            match act {
                Act::Stream(word) => paragraph.append(word),
                Act::EndParagraph => {
                    writeln!(self.out, "{}", std::mem::take(&mut paragraph).text())?;
                }
                Act::Commit(line) => writeln!(self.out, "{}", line.text())?,
                Act::Raw(bytes) => self.out.write_all(&bytes)?,
                Act::Ask(dialog) => {
                    if !self.ask(&dialog)? {
                        return Ok(None);
                    }
                }
                Act::Exit(code) => {
                    self.out.flush()?;
                    return Ok(Some(code));
                }
                Act::Pause(_) | Act::Spin(_) | Act::Notify(_) | Act::Bell | Act::Title(_) => {}
            }
        }
        Ok(None)
    }

    fn ask(&mut self, dialog: &Dialog) -> io::Result<bool> {
        if dialog.tool.as_ref().is_some_and(|tool| self.allowed.contains(tool)) {
            return Ok(true);
        }
        writeln!(self.out, "{}", dialog.title)?;
        for line in &dialog.body {
            writeln!(self.out, "{line}")?;
        }
        writeln!(self.out, "{}", dialog.question)?;
        for (at, option) in dialog.options.iter().enumerate() {
            writeln!(self.out, "  {}. {option}", at + 1)?;
        }
        self.out.flush()?;
        let answer = self.read_line()?.unwrap_or_default();
        let choice = answer.trim().parse::<usize>().unwrap_or(usize::MAX).saturating_sub(1);
        if dialog.declines(choice) {
            writeln!(self.out, "  ⎿  Interrupted by user")?;
            return Ok(false);
        }
        if let (Some(tool), 1) = (&dialog.tool, choice) {
            self.allowed.insert(tool.clone());
        }
        Ok(true)
    }

    fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut bytes)?;
        Ok((read > 0).then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
    }
}
