//! A plan in plain words: what is enforced by which layer, and what is not.

use crate::plan::Plan;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub level: &'static str,
}

pub fn explain(plan: &Plan) -> Explanation {
    Explanation { level: plan.policy.level.name() }
}
