use super::Context;
use crate::cli::DoctorArgs;
use crate::error::Outcome;
pub async fn run(_args: DoctorArgs, _context: &Context) -> Outcome {
    Ok(0)
}
