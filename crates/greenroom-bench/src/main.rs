//! Measures greenroom beside tmux and the bare PTY in one run. Not shipped.
//!
//! In: a release binary (`run --bin`). Out: the table of targets with figures of this machine. The other verbs
//! are the programs that run inside the measured terminals.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bare;
mod contender;
mod payload;
mod process;
mod programs;
mod spin;
mod stats;
mod sys;
mod ticks;
mod tmux;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::payload::Kind;

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
    },
    /// Inside: give every byte back
    Echo,
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
    bin: Option<std::path::PathBuf>,
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
        Verb::Run(args) => smoke(&args),
        Verb::Flood { kind, bytes, raw } => programs::flood(kind, bytes, raw),
        Verb::Echo => programs::echo(),
        Verb::Hello => programs::hello(),
        Verb::Page => programs::page(),
        Verb::Tick { count, every_us } => programs::tick(count, every_us),
    }
}

fn smoke(_args: &RunArgs) -> Result<()> {
    use contender::*;
    let programs = Programs { exe: std::env::current_exe()? };
    let mut bare = bare::Bare::new(programs.clone());
    let mut tmux = tmux::Tmux::start(programs)?;
    let _spin = spin::Spinners::start()?;
    for _ in 0..3 {
        for kind in Kind::ALL {
            let b = bare.drain(kind, 20_000_000, false)?;
            let t = tmux.drain(kind, 20_000_000, false)?;
            println!(
                "{} bare {:.0} MB/s {:.0}/cpu tmux {:.0} {:.0}",
                kind.name(),
                b.mb_per_s(),
                b.mb_per_cpu_s(),
                t.mb_per_s(),
                t.mb_per_cpu_s()
            );
        }
    }
    let b = bare.drain_many(50, 1_000_000)?;
    let t = tmux.drain_many(50, 1_000_000)?;
    println!(
        "50: bare {:.0} MB/s {:.0}/cpu tmux {:.0} {:.0}",
        b.mb_per_s(),
        b.mb_per_cpu_s(),
        t.mb_per_s(),
        t.mb_per_cpu_s()
    );
    let hosts: [&mut dyn Contender; 2] = [&mut bare, &mut tmux];
    for c in hosts {
        let e = c.echo(2000)?;
        println!(
            "{} echo {:?} {:?}",
            c.name(),
            stats::percentile(&e, 50),
            stats::percentile(&e, 99)
        );
        let e = c.create(50)?;
        println!(
            "{} create {:?} {:?}",
            c.name(),
            stats::percentile(&e, 50),
            stats::percentile(&e, 99)
        );
    }
    println!("snap {:?}", tmux.snapshots(2000)?);
    let e = tmux.pushed(500, 5000)?;
    println!("push {:?} {:?}", stats::percentile(&e, 50), stats::percentile(&e, 99));
    tmux.hold(100)?;
    println!("{:?}", process::pss_kib(tmux.pids()?[0]));
    tmux.let_go()?;
    eprintln!("done");
    Ok(())
}
