//! Writes each event as it comes, one JSON object a line, into `audit.jsonl` of the plugin's own
//! directory for data.
//!
//! A line is on the disk before it is answered for. At 16 MiB the file becomes `audit.jsonl.1`.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// One file and the one before it.
const FILE_MAX: u64 = 16 << 20;

fn main() -> io::Result<()> {
    let data = env::var_os("GREENROOM_PLUGIN_DATA").map(PathBuf::from).unwrap_or_default();
    let path = data.join("audit.jsonl");
    let mut out = io::stdout();
    for event in io::stdin().lock().lines() {
        let event = event?;
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > FILE_MAX) {
            fs::rename(&path, data.join("audit.jsonl.1"))?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        writeln!(file, "{event}")?;
        file.sync_data()?;
        writeln!(out, r#"{{"ok":true}}"#)?;
        out.flush()?;
    }
    Ok(())
}
