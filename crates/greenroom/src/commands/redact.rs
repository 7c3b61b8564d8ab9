//! `greenroom redact`: what would be masked in a text, by which rule.

use std::io::Read;
use std::path::Path;

use greenroom_protocol::api::redact::{RedactTestParams, RedactTestResult};

use super::Context;
use crate::cli::{RedactArgs, RedactVerb};
use crate::error::{Failure, Outcome};
use crate::output::{Cell, Output};

pub async fn run(args: RedactArgs, context: &Context) -> Outcome {
    match args.verb {
        RedactVerb::Test { file, show } => test(&file, show, context).await,
        RedactVerb::Rules => rules(context).await,
    }
}

async fn test(file: &Path, show: bool, context: &Context) -> Outcome {
    let text = read(file)?;
    let params = RedactTestParams { text, show, ..RedactTestParams::default() };
    let host = context.host().await?;
    let found: RedactTestResult = host.call("redact.test", &params, "test the rules").await?;
    context.out.answer(&found, || match &found.text {
        Some(text) => text.trim_end_matches('\n').to_owned(),
        None => report(&found, &context.out),
    })?;
    // As `grep` does it: 0 when there is something.
    Ok(u8::from(found.findings.is_empty()))
}

async fn rules(context: &Context) -> Outcome {
    let host = context.host().await?;
    let params = RedactTestParams::default();
    let found: RedactTestResult = host.call("redact.test", &params, "list the rules").await?;
    context.out.answer(&found.rules, || found.rules.join("\n"))?;
    Ok(0)
}

/// The file, or stdin for `-`. What is no text is looked at as far as it is.
fn read(file: &Path) -> Result<String, Failure> {
    let most = RedactTestParams::TEXT_MAX as u64;
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file)
            .and_then(|opened| opened.take(most + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))?;
    if bytes.len() as u64 > most {
        let name = file.display();
        return Err(Failure::failed(format!("cannot test {name}: it is longer than {most} bytes"))
            .hint("test a part of it: head -c 8M FILE | greenroom redact test -"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn report(found: &RedactTestResult, out: &Output) -> String {
    if found.findings.is_empty() {
        return "nothing would be masked".to_owned();
    }
    let rows: Vec<Vec<Cell>> = found
        .findings
        .iter()
        .map(|finding| {
            vec![
                Cell::from(finding.line.to_string()),
                Cell::from(finding.column.to_string()),
                Cell::from(finding.rule.as_str()),
                Cell::from(finding.preview.as_str()),
            ]
        })
        .collect();
    out.table(&["LINE", "COLUMN", "RULE", "AS SEEN"], &rows, &["AS SEEN"])
}
