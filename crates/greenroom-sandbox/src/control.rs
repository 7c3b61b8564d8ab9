//! What a stage tells whoever started it, over one SEQPACKET socket.
//!
//! Out of the stage: at most one [`Report::Ready`] with the fds it made inside, at most one
//! [`Report::Failed`], then the end. Ready and then the end without a fault: the program runs. The
//! end without a word: the stage was killed. Into the stage, before it is started: for a program on
//! pipes [`STDIO_WORD`] with its three fds, and [`NAMESPACES_WORD`] if there is one. Absent on
//! purpose: any other message to the stage; its plan is all it hears.

use std::fmt;

use crate::layer::Layer;
use crate::layout;
use crate::wire::{Reader, Wire, WireError, Writer};

/// Comes with what is to be stdin, stdout and stderr.
pub const STDIO_WORD: [u8; 1] = [b'S'];
/// Comes with the end of a socket in which namespaces wait that were made in advance
/// (`Stages::make_namespaces`).
pub const NAMESPACES_WORD: [u8; 1] = [b'N'];
/// Longest explanation; paths fit.
const MAX_WORDS: usize = 6 * 1024;

/// What a stage tells the one who started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Everything is in place and the program is about to run. Attached, in this order: the master
    /// of its terminal, unless it is on pipes; its pidfd if `inner` (it is not the process that was
    /// started); the proxy's listener if `listener`.
    Ready { inner: bool, listener: bool },
    /// A step of the plan could not be carried out. The program does not run.
    Failed(StageError),
}

/// Where a stage stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageError {
    pub layer: Layer,
    /// What was attempted: `cannot {step}`.
    pub step: String,
    pub errno: i32,
}

impl StageError {
    pub fn new(layer: Layer, step: impl Into<String>, errno: i32) -> StageError {
        StageError { layer, step: step.into(), errno }
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StageError { layer, step, errno } = self;
        write!(f, "{layer}: cannot {step}: {}", std::io::Error::from_raw_os_error(*errno))
    }
}

/// A long explanation is cut, so that a report fits one datagram.
impl Wire for StageError {
    fn put(&self, w: &mut Writer) {
        let step = &self.step[..self.step.floor_char_boundary(MAX_WORDS)];
        w.put(&self.layer).put(&self.errno).put(&step.to_owned());
    }
    fn get(r: &mut Reader<'_>) -> Result<StageError, WireError> {
        Ok(StageError { layer: r.get("layer")?, errno: r.get("errno")?, step: r.get("step")? })
    }
}

layout!(enum Report: u8 { b'R' Ready { inner, listener }, b'F' Failed(error) });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reports_come_back() {
        for report in [
            Report::Ready { inner: true, listener: false },
            Report::Ready { inner: false, listener: true },
            Report::Failed(StageError::new(Layer::Mounts, "hide /x", libc::EPERM)),
        ] {
            assert_eq!(Report::decode(&report.encode()), Ok(report));
        }
    }

    #[test]
    fn a_long_story_is_cut_between_characters() {
        let fault = StageError::new(Layer::Paths, "ä".repeat(MAX_WORDS), libc::ENOENT);
        let Ok(Report::Failed(fault)) = Report::decode(&Report::Failed(fault).encode()) else {
            panic!("not a fault");
        };
        assert_eq!(fault.step.len(), MAX_WORDS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_panic(bytes: Vec<u8>) {
            let _ = Report::decode(&bytes);
        }
    }
}
