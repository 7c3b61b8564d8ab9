//! Where in a text something is wrong, as an editor counts: line and column from 1.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mistakes told at once; a file with more is told to be fixed first.
const PROBLEMS_MAX: usize = 50;

/// A mistake at a byte of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Offset of the byte.
    pub at: usize,
    pub text: String,
}

impl At {
    pub fn new(at: usize, text: impl Into<String>) -> At {
        At { at, text: text.into() }
    }
}

/// A mistake, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what was probably meant.
    pub text: String,
}

/// Everything that is wrong with a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl FileError {
    /// `file` is what it is called in messages.
    pub fn new(file: &str, problems: Vec<Problem>) -> FileError {
        FileError { file: file.to_owned(), problems }
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}:{}: {}", self.file, problem.line, problem.column, problem.text)?;
        }
        Ok(())
    }
}

/// Turns bytes of a text into lines and columns.
#[derive(Debug)]
pub struct Positions<'a> {
    text: &'a str,
}

impl<'a> Positions<'a> {
    pub fn new(text: &'a str) -> Positions<'a> {
        Positions { text }
    }

    /// In the order of the text, each once, the first few.
    pub fn place(&self, mut problems: Vec<At>) -> Vec<Problem> {
        problems.sort_by_key(|problem| problem.at);
        problems.dedup();
        problems.truncate(PROBLEMS_MAX);
        let mut placed: Vec<Problem> = Vec::new();
        for problem in problems {
            let (line, column) = self.of(problem.at);
            let problem = Problem { line, column, text: problem.text };
            if placed.last() != Some(&problem) {
                placed.push(problem);
            }
        }
        placed
    }

    fn of(&self, at: usize) -> (usize, usize) {
        let at = self.text.floor_char_boundary(at);
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}
