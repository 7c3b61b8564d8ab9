//! What a stage tells whoever started it, over one SEQPACKET socket.
//!
//! Out of the stage: at most one [`Report::Ready`] with the fds it made inside, at most one [`Report::Fault`], then the end.
//! Ready and then the end without a fault: the program runs. The end without a word: the stage was killed. Into
//! the stage, before it is started: for a program on pipes [`STDIO_WORD`] with its three fds, and [`SPARE_WORD`] if there is
//! one. Absent on purpose: any other message to the stage; its plan is all it hears.

use std::fmt;

use crate::layer::Layer;
use crate::wire::{Reader, WireError, Writer};

/// Comes with what is to be stdin, stdout and stderr.
pub const STDIO_WORD: [u8; 1] = [b'S'];
/// Comes with the end of a socket in which namespaces wait that were made in advance (`Stages::make_spare`).
pub const SPARE_WORD: [u8; 1] = [b'N'];
/// Longest explanation; paths fit.
const MAX_WORDS: usize = 6 * 1024;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Everything is in place and the program is about to run. Attached, in this order: the master of its terminal, unless it
    /// is on pipes; its pidfd if `inner` (it is not the process that was started); the proxy's listener if `listener`.
    Ready { inner: bool, listener: bool },
    /// A step of the plan could not be carried out. The program does not run.
    Fault(Fault),
}

/// Where a stage stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub layer: Layer,
    /// What was attempted: `cannot {step}`.
    pub step: String,
    pub errno: i32,
}

impl Fault {
    pub fn new(layer: Layer, step: impl Into<String>, errno: i32) -> Fault {
        Fault { layer, step: step.into(), errno }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { layer, step, errno } = self;
        write!(f, "{layer}: cannot {step}: {}", std::io::Error::from_raw_os_error(*errno))
    }
}

const READY: u8 = b'R';
const FAULT: u8 = b'F';

impl Report {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Report::Ready { inner, listener } => {
                w.u8(READY).u8((*inner).into()).u8((*listener).into())
            }
            Report::Fault(fault) => {
                let cut = fault.step.floor_char_boundary(MAX_WORDS);
                w.u8(FAULT).u8(fault.layer as u8).u32(fault.errno as u32).text(&fault.step[..cut])
            }
        };
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Report, WireError> {
        let mut r = Reader::new(bytes);
        match r.u8()? {
            READY => Ok(Report::Ready { inner: r.flag()?, listener: r.flag()? }),
            FAULT => {
                let layer = r.u8()?;
                let layer = Layer::from_wire(layer).ok_or(WireError::Unknown(layer.into()))?;
                let errno = r.u32()? as i32;
                let step = r.text()?.to_string_lossy().into_owned();
                Ok(Report::Fault(Fault { layer, step, errno }))
            }
            other => Err(WireError::Unknown(other.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reports_come_back() {
        for report in [
            Report::Ready { inner: true, listener: false },
            Report::Ready { inner: false, listener: true },
            Report::Fault(Fault::new(Layer::Mounts, "hide /x", libc::EPERM)),
        ] {
            assert_eq!(Report::decode(&report.encode()), Ok(report));
        }
    }

    #[test]
    fn a_long_story_is_cut_between_characters() {
        let fault = Fault::new(Layer::Paths, "ä".repeat(MAX_WORDS), libc::ENOENT);
        let Ok(Report::Fault(fault)) = Report::decode(&Report::Fault(fault).encode()) else {
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
