//! What a verb is given to read: a file, or stdin for `-`, never more than it can take.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// All of it, or so many bytes and one more, by which the caller knows that it is too much.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().take(most + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The same for what has to be text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let wrong =
        |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read(path, most)?).map_err(wrong)
}
