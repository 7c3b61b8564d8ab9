//! `greenroom approval`: what plugins leave to a person.

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::notice::{
    Approval, ApprovalState, ApprovalsResult, ResolveParams, ResolveResult,
};

use super::Context;
use crate::cli::{ApprovalArgs, ApprovalVerb, DecisionArgs};
use crate::error::Outcome;

pub async fn run(args: ApprovalArgs, context: &Context) -> Outcome {
    match args.verb {
        ApprovalVerb::List => list(context).await,
        ApprovalVerb::Allow(args) => resolve(args, true, context).await,
        ApprovalVerb::Deny(args) => resolve(args, false, context).await,
    }
}

async fn list(context: &Context) -> Outcome {
    let host = context.host().await?;
    let listed: ApprovalsResult = host.call("approval.list", &Empty {}, "list approvals").await?;
    context.out.answer(&listed, || {
        let lines: Vec<String> = listed.approvals.iter().map(line).collect();
        lines.join("\n")
    })?;
    Ok(0)
}

fn line(approval: &Approval) -> String {
    let state = match approval.state {
        ApprovalState::Open => "open",
        ApprovalState::Allowed => "allowed",
        ApprovalState::Denied => "denied",
        ApprovalState::Expired => "expired",
        ApprovalState::Withdrawn => "withdrawn",
    };
    let session = approval.session.as_deref().unwrap_or("-");
    format!(
        "{:<5} {state:<9} {session:<6} {}: {}",
        approval.approval, approval.title, approval.text
    )
}

async fn resolve(args: DecisionArgs, allow: bool, context: &Context) -> Outcome {
    let attempt = format!("decide {}", args.approval);
    let params = ResolveParams { approval: args.approval, allow, reason: args.reason };
    let host = context.host().await?;
    let resolved: ResolveResult = host.call("approval.resolve", &params, &attempt).await?;
    context.out.answer(&resolved, String::new)?;
    Ok(0)
}
