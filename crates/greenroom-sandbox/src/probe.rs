//! What this machine can enforce, found by trying it.
//!
//! In: nothing. Out: a [`Probe`], one [`Trial`] per layer. Absent on purpose: reading `/sys` or
//! asking for versions. On some machines a call is there and the step after it is refused, so only
//! a whole trial tells.

#[cfg(target_os = "linux")]
mod trial;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::layer::Layer;

/// Landlock from this version on can keep a file from being truncated (Linux 6.2).
pub const NEEDED_LANDLOCK: u32 = 3;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Probe {
    /// `uname -r`.
    pub kernel: String,
    /// The user it was tried as.
    pub uid: u32,
    /// Version of Landlock; 0: none.
    pub landlock_abi: u32,
    /// In the order of a start.
    pub trials: Vec<Trial>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Trial {
    pub layer: Layer,
    pub outcome: TrialResult,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TrialResult {
    Works,
    Failed {
        errno: i32,
        /// The step that was refused.
        step: String,
    },
    /// It stands on this layer, which is missing.
    NotTried {
        needs: Layer,
    },
}

/// Tries every layer for real, in children that are gone afterwards. Takes some milliseconds; one
/// result is good for the life of a host, unless its machine is changed under it.
pub fn probe() -> Probe {
    #[cfg(target_os = "linux")]
    return trial::probe();
    #[cfg(not(target_os = "linux"))]
    Probe { kernel: String::new(), uid: u32::MAX, landlock_abi: 0, trials: Vec::new() }
}

/// A probe that is made when it is first asked for. Clones share it.
#[derive(Clone, Default)]
pub struct LazyProbe(Arc<OnceLock<Probe>>);

impl LazyProbe {
    /// Blocks the first time, while each layer is tried.
    pub fn get(&self) -> &Probe {
        self.0.get_or_init(probe)
    }
}

/// A probe that was made before.
impl From<Probe> for LazyProbe {
    fn from(probe: Probe) -> LazyProbe {
        LazyProbe(Arc::new(probe.into()))
    }
}

impl Probe {
    pub fn works(&self, layer: Layer) -> bool {
        self.trials.iter().any(|it| it.layer == layer && it.outcome == TrialResult::Works)
    }
}

impl fmt::Display for TrialResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialResult::Works => f.write_str("works"),
            TrialResult::Failed { errno, step } => {
                write!(f, "cannot {step}: {}", std::io::Error::from_raw_os_error(*errno))
            }
            TrialResult::NotTried { needs } => write!(f, "not tried: needs {needs}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine that can do everything.
    pub(crate) fn able() -> Probe {
        let trial = |layer: &Layer| Trial { layer: *layer, outcome: TrialResult::Works };
        let trials = Layer::ALL.iter().map(trial).collect();
        Probe { kernel: "6.18".into(), uid: 1000, landlock_abi: 7, trials }
    }
}
