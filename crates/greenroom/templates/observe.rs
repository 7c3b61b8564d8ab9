//! One JSON object a line comes in, one goes out, in the same order.

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    for request in io::stdin().lock().lines() {
        let request = request?;
        eprintln!("{request}");
        let answer = r#"{"ok":true}"#;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
