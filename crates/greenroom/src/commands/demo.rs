use super::Context;
use crate::cli::DemoArgs;
use crate::error::Outcome;
pub async fn run(_args: DemoArgs, _context: &Context) -> Outcome {
    Ok(0)
}
