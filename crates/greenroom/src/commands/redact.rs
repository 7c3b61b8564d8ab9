//! `greenroom redact`: what would be masked in a text, by which rule.

use std::path::Path;

use clap::{Args, Subcommand};
use greenroom_client::method;
use greenroom_protocol::api::redact::{Finding, RedactTestParams, RedactTestResult};

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::input;
use crate::output::{Cell, Output};

/// What would be masked in a text, and by which rule
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom redact test build.log\n  git diff | greenroom redact test -\n  greenroom redact test build.log --show\n  greenroom redact rules\n\nThe file goes to the host of this machine and is not kept. Exit codes of test: 0\n  something would be masked, 1 nothing would."
)]
pub struct RedactArgs {
    #[command(subcommand)]
    pub verb: RedactVerb,
}

#[derive(Debug, Subcommand)]
pub enum RedactVerb {
    /// Show what the rules find in a file
    Test {
        /// The file; - for stdin
        file: std::path::PathBuf,
        /// Print the masked text instead of the findings
        #[arg(long)]
        show: bool,
    },
    /// List the rules that are on
    Rules,
}

pub async fn run(args: RedactArgs, context: &Context) -> ExitResult {
    match args.verb {
        RedactVerb::Test { file, show } => test(&file, show, context).await,
        RedactVerb::Rules => rules(context).await,
    }
}

async fn test(file: &Path, show: bool, context: &Context) -> ExitResult {
    let text = read(file)?;
    let params = RedactTestParams { text, show, ..RedactTestParams::default() };
    let found = context.call::<method::RedactTest>(&params, "test the rules").await?;
    context.out.answer(&found, || match &found.text {
        Some(text) => text.trim_end_matches('\n').to_owned(),
        None => report(&found, &context.out),
    })?;
    // As `grep` does it: 0 when there is something.
    Ok(u8::from(found.findings.is_empty()))
}

async fn rules(context: &Context) -> ExitResult {
    let params = RedactTestParams::default();
    let found = context.call::<method::RedactTest>(&params, "list the rules").await?;
    context.out.answer(&found.rules, || found.rules.join("\n"))
}

/// The file, or stdin for `-`. What is no text is looked at as far as it is.
fn read(file: &Path) -> Result<String, Failure> {
    let most = RedactTestParams::TEXT_MAX as u64;
    let bytes = input::read(file, most)
        .map_err(|error| Failure::io(format!("cannot read {}", file.display()), &error))?;
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
    let rows = found.findings.iter().map(|Finding { rule, line, column, preview, .. }| {
        [line.to_string(), column.to_string(), rule.clone(), preview.clone()].map(Cell::from)
    });
    out.table(["LINE", "COLUMN", "RULE", "AS SEEN"], rows, &["AS SEEN"])
}
