use super::Context;
use crate::cli::ServeArgs;
use crate::error::Outcome;
pub async fn run(_args: ServeArgs, _context: &Context) -> Outcome {
    Ok(0)
}
