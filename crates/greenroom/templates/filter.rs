//! One JSON object a line comes in, one goes out, in the same order.

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    for request in io::stdin().lock().lines() {
        let request = request?;
        let answer = if request.contains("SECRET") {
            r#"{"action":"replace","line":"[redacted]"}"#
        } else {
            r#"{"action":"pass"}"#
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
