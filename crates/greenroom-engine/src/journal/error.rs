//! What can go wrong when a journal is opened or read. A disk that fails while
//! a session runs is not an error but a state: see `RecordingState`.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot map the ring of {dir}")]
    MapRing { dir: PathBuf, source: io::Error },
    #[error("cannot use a ring of {bytes} bytes for {dir}: its size is not one this version knows")]
    RingSize { dir: PathBuf, bytes: u64 },
    #[error("cannot read the fill of the pipe of {dir}")]
    Pipe { dir: PathBuf, source: io::Error },
    #[error("cannot make the journal directory {dir}")]
    MakeDir { dir: PathBuf, source: io::Error },
    #[error("cannot read the journal directory {dir}")]
    ReadDir { dir: PathBuf, source: io::Error },
    #[error("cannot read {file}")]
    ReadFile { file: PathBuf, source: io::Error },
    #[error("cannot start the journal thread")]
    Thread { source: io::Error },
    #[error("cannot read {dir}: it holds no journal")]
    Empty { dir: PathBuf },
}
