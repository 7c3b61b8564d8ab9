//! `greenroom approval`: what plugins leave to a person.

use clap::{Args, Subcommand};
use greenroom_client::method;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::notice::{Approval, ApprovalsResult, ResolveParams};

use super::Context;
use crate::error::ExitResult;

/// Decide what plugins leave to a person
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom approval list\n  greenroom approval allow a1\n  greenroom approval deny a2 --reason \"not on main\""
)]
pub struct ApprovalArgs {
    #[command(subcommand)]
    pub verb: ApprovalVerb,
}

#[derive(Debug, Subcommand)]
pub enum ApprovalVerb {
    /// List what waits for a decision, and what was decided last
    #[command(alias = "ls")]
    List,
    /// Say yes
    Allow(DecisionArgs),
    /// Say no
    Deny(DecisionArgs),
}

#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// Its name, such as a1
    pub approval: String,
    /// Why; told to whoever asked
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

pub async fn run(args: ApprovalArgs, context: &Context) -> ExitResult {
    match args.verb {
        ApprovalVerb::List => {
            let lines = |listed: &ApprovalsResult| {
                listed.approvals.iter().map(line).collect::<Vec<_>>().join("\n")
            };
            context.show::<method::ApprovalList>(&Empty {}, "list approvals", lines).await
        }
        ApprovalVerb::Allow(args) => resolve(args, true, context).await,
        ApprovalVerb::Deny(args) => resolve(args, false, context).await,
    }
}

fn line(approval: &Approval) -> String {
    let state = approval.state.word();
    let session = approval.session.as_deref().unwrap_or("-");
    format!(
        "{:<5} {state:<9} {session:<6} {}: {}",
        approval.approval, approval.title, approval.text
    )
}

async fn resolve(args: DecisionArgs, allow: bool, context: &Context) -> ExitResult {
    let attempt = format!("decide {}", args.approval);
    let params = ResolveParams { approval: args.approval, allow, reason: args.reason };
    context.show::<method::ApprovalResolve>(&params, &attempt, |_| String::new()).await
}
