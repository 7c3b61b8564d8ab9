//! Measures greenroom beside tmux and the bare PTY in one run. Not shipped.
//!
//! In: a release binary (`run --bin`). Out: the table of targets with figures of this machine. The
//! other verbs are the programs that run inside the measured terminals.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bare;
mod contender;
mod filters;
mod finish;
mod greenroom;
mod hostile;
mod process;
mod programs;
mod rows;
mod spin;
mod stats;
mod sys;
mod table;
mod targets;
mod ticks;
mod tmux;
mod watched;
mod wire;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use greenroom_bench::payload::Kind;

use crate::bare::Bare;
use crate::contender::Programs;
use crate::greenroom::Greenroom;
use crate::rows::{GROUPS, Lab, Plan};
use crate::table::{Row, Setting};
use crate::tmux::Tmux;

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure and print the table
    Run(RunArgs),
    /// Inside: wait for a line, print BYTES bytes, end
    Flood {
        #[arg(long)]
        kind: Kind,
        #[arg(long)]
        bytes: usize,
        #[arg(long)]
        raw: bool,
        #[arg(long)]
        finish: Option<std::path::PathBuf>,
    },
    /// Inside: give every byte back
    Echo,
    /// Keep the cores awake until stdin ends
    Spin,
    /// Inside: say hello and wait
    Hello,
    /// Inside: fill the screen and wait
    Page,
    /// Inside: print time stamps
    Tick {
        #[arg(long)]
        count: usize,
        #[arg(long)]
        every_us: u64,
    },
}

#[derive(clap::Args)]
pub struct RunArgs {
    /// The greenroom binary to measure (a release build)
    #[arg(long)]
    bin: std::path::PathBuf,
    /// Small rounds: shows that everything works, the figures mean little
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Only the rows whose name contains this
    #[arg(long)]
    only: Option<String>,
}

fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Run(args) => run(&args),
        Verb::Flood { kind, bytes, raw, finish } => {
            programs::flood(kind, bytes, raw, finish.as_deref())
        }
        Verb::Spin => spin::run(),
        Verb::Echo => programs::echo(),
        Verb::Hello => programs::hello(),
        Verb::Page => programs::page(),
        Verb::Tick { count, every_us } => programs::tick(count, every_us),
    }
}

/// Measures what was asked for and prints it. Fails only when nothing could be measured or a row
/// broke, not when a target was missed: a missed target is a result.
fn run(args: &RunArgs) -> Result<()> {
    let programs = Programs { exe: std::env::current_exe().context("cannot find this program")? };
    let mut lab = Lab {
        bare: Bare::new(programs.clone()),
        tmux: Tmux::start(programs.clone())?,
        greenroom: Greenroom::start(&args.bin, programs)?,
        bin: args.bin.clone(),
        plan: if args.quick { Plan::QUICK } else { Plan::FULL },
    };
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut rows: Vec<Row> = Vec::new();
    for (name, measure) in GROUPS.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("measuring {name} …");
        let measured = measure(&mut lab);
        for row in &measured {
            eprintln!("  {}", table::line(row));
        }
        if measured.iter().any(|row| row.outcome.is_err()) {
            lab.greenroom.reset().context("the host is lost for the rows that remain")?;
        }
        rows.extend(measured);
    }
    let setting = Setting { quick: args.quick, machine: machine(), tmux: tmux::version()? };
    if args.json {
        println!("{:#}", table::json(&setting, &rows));
    } else {
        print!("{}", table::text(&setting, &rows));
    }
    let broken = rows.iter().filter(|row| row.outcome.is_err()).count();
    ensure!(!rows.is_empty(), "no row is called that");
    ensure!(broken == 0, "{broken} row(s) could not be measured");
    Ok(())
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores, Linux {}, load {load} at the end", kernel.trim())
}
