//! `greenroom man`: the manual, made from the same types as the command line.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use serde_json::json;

use super::Context;
use crate::cli::Cli;
use crate::error::{ExitResult, Failure};

/// Print the manual, or write a page for each verb
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom man | man -l -\n  greenroom man ~/.local/share/man/man1"
)]
pub struct ManArgs {
    /// Write greenroom.1, greenroom-new.1 and so on there
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

pub async fn run(args: ManArgs, context: &Context) -> ExitResult {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        let page = page(command, "greenroom")?;
        let text = String::from_utf8_lossy(&page).into_owned();
        return context.out.answer(&json!({ "page": text }), || text.clone());
    };
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::io(format!("cannot make {}", dir.display()), &error))?;
    let mut written = Vec::new();
    write(&command, "greenroom", dir, &mut written)?;
    let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    context.out.answer(&json!({ "written": names }), || names.join("\n"))
}

/// A page for a verb and one for each below it, named as they are typed with dashes between.
fn write(
    command: &Command,
    name: &str,
    dir: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command.clone(), name)?)
        .map_err(|error| Failure::io(format!("cannot write {}", path.display()), &error))?;
    written.push(path);
    for verb in
        command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        write(verb, &format!("{name}-{}", verb.get_name()), dir, written)?;
    }
    Ok(())
}

fn page(command: Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    Man::new(command.display_name(name.to_owned()))
        .title(name.to_uppercase())
        .render(&mut text)
        .map_err(|error| Failure::io("cannot write the manual", &error))?;
    Ok(text)
}
