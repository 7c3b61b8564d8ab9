//! `greenroom sandbox`: what would be enforced here, proven by trial.

use clap::{Args, Subcommand, ValueEnum};
use greenroom_client::method;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::SandboxDoctorResult;

use super::{Context, new};
use crate::cli::SessionArgs;
use crate::error::ExitResult;
use crate::output::{Cell, Output, Tone};

/// What the sandbox enforces on this machine
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom sandbox doctor\n  greenroom sandbox explain --allow-host api.example.com\n  greenroom sandbox explain --worktree feat-x -- claude\n  greenroom sandbox explain --for macos > session.sb\n\ndoctor exits 1 if level full cannot be enforced here."
)]
pub struct SandboxArgs {
    #[command(subcommand)]
    pub verb: SandboxVerb,
}

#[derive(Debug, Subcommand)]
pub enum SandboxVerb {
    /// Try each layer on this machine, and say how to get what is missing
    Doctor,
    /// Say what would be enforced on a session with these flags
    Explain(Box<ExplainArgs>),
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Print the rules as a profile for another system (macos: for sandbox-exec, untried on a Mac)
    #[arg(long = "for", value_name = "SYSTEM")]
    pub system: Option<System>,
    #[command(flatten)]
    pub session: SessionArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum System {
    Macos,
}

pub async fn run(args: SandboxArgs, context: &Context) -> ExitResult {
    match args.verb {
        SandboxVerb::Doctor => doctor(context).await,
        SandboxVerb::Explain(mut args) => {
            // There is nothing else to explain.
            args.session.sandbox.get_or_insert_default();
            explain(&args, context).await
        }
    }
}

async fn doctor(context: &Context) -> ExitResult {
    let found = context.call::<method::SandboxDoctor>(&Empty {}, "try the sandbox").await?;
    context.out.answer(&found, || report(&found, &context.out))?;
    Ok(u8::from(!found.full))
}

fn report(found: &SandboxDoctorResult, out: &Output) -> String {
    let rows = found.layers.iter().map(|layer| {
        let (tone, sign) = if layer.works { (Tone::Good, "✓") } else { (Tone::Bad, "✗") };
        [Cell::toned(tone, sign), layer.layer.as_str().into(), layer.outcome.as_str().into()]
    });
    let mut text = out.table(["", "LAYER", "TRIAL"], rows, &["TRIAL"]);
    let can = |can: bool| if can { "can be enforced" } else { "cannot be enforced" };
    text.push_str(&format!("\nlevel full {} on this machine", can(found.full)));
    text.push_str(&format!("\nlevel reduced {}", can(found.reduced)));
    if found.uid == 0 && !found.reduced {
        text.push_str(" (never for root)");
    }
    text.push_str(&format!("\nLinux {}, Landlock version {}", found.kernel, found.landlock_abi));
    for remedy in &found.remedies {
        text.push_str(&format!("\nfix: {remedy}"));
    }
    text
}

async fn explain(args: &ExplainArgs, context: &Context) -> ExitResult {
    let params = new::params(&args.session, &context.out)?;
    let explained = context.call::<method::SandboxExplain>(&params, "explain the sandbox").await?;
    if args.system == Some(System::Macos) {
        let macos = &explained.macos;
        context.out.answer(macos, || macos.text.trim_end().to_owned())?;
        context.out.note(&format!("note: {}", macos.note));
    } else {
        context.out.answer(&explained, || explained.text.trim_end().to_owned())?;
    }
    context.out.notes(&explained.notes);
    Ok(0)
}
