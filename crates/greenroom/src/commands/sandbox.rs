//! `greenroom sandbox`: what would be enforced here, proven by trial.

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{SandboxDoctorResult, SandboxExplainResult};

use super::{Context, new};
use crate::cli::{Level, SandboxArgs, SandboxVerb, SessionArgs};
use crate::error::Outcome;
use crate::output::{Cell, Output, Tone};

pub async fn run(args: SandboxArgs, context: &Context) -> Outcome {
    match args.verb {
        SandboxVerb::Doctor => doctor(context).await,
        SandboxVerb::Explain(mut session) => {
            // There is nothing else to explain.
            session.sandbox.get_or_insert(Level::Full);
            explain(&session, context).await
        }
    }
}

async fn doctor(context: &Context) -> Outcome {
    let host = context.host().await?;
    let found: SandboxDoctorResult =
        host.call("sandbox.doctor", &Empty {}, "try the sandbox").await?;
    context.out.answer(&found, || report(&found, &context.out))?;
    Ok(u8::from(!found.full))
}

fn report(found: &SandboxDoctorResult, out: &Output) -> String {
    let rows: Vec<Vec<Cell>> = found
        .layers
        .iter()
        .map(|layer| {
            let state = match layer.works {
                true => Cell::toned(Tone::Good, "✓"),
                false => Cell::toned(Tone::Bad, "✗"),
            };
            vec![state, Cell::from(layer.layer.as_str()), Cell::from(layer.outcome.as_str())]
        })
        .collect();
    let mut text = out.table(&["", "LAYER", "TRIAL"], &rows, &["TRIAL"]);
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

async fn explain(session: &SessionArgs, context: &Context) -> Outcome {
    let params = new::params(session, &context.out)?;
    let host = context.host().await?;
    let explained: SandboxExplainResult =
        host.call("sandbox.explain", &params, "explain the sandbox").await?;
    context.out.answer(&explained, || explained.text.trim_end().to_owned())?;
    for note in &explained.notes {
        context.out.note(&format!("note: {note}"));
    }
    Ok(0)
}
