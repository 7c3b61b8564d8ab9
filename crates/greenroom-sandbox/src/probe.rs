//! What this machine can enforce, found by trying it.
//!
//! In: nothing. Out: a [`Probe`], one [`Trial`] per layer. Absent on purpose: reading `/sys` or asking for versions. On some
//! machines a call is there and the step after it is refused, so only a whole trial tells.

#[cfg(target_os = "linux")]
mod trial;

use std::fmt;

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
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Outcome {
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

/// Tries every layer for real, in children that are gone afterwards. Takes some milliseconds; one result is good for the life
/// of a host, unless its machine is changed under it.
pub fn probe() -> Probe {
    #[cfg(target_os = "linux")]
    return trial::probe();
    #[cfg(not(target_os = "linux"))]
    Probe { kernel: String::new(), uid: u32::MAX, landlock_abi: 0, trials: Vec::new() }
}

impl Probe {
    pub fn works(&self, layer: Layer) -> bool {
        self.trials.iter().any(|it| it.layer == layer && it.outcome == Outcome::Works)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Works => f.write_str("works"),
            Outcome::Failed { errno, step } => {
                write!(f, "cannot {step}: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Outcome::NotTried { needs } => write!(f, "not tried: needs {needs}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine that can do everything.
    pub(crate) fn able() -> Probe {
        let trial = |layer: &Layer| Trial { layer: *layer, outcome: Outcome::Works };
        let trials = Layer::ALL.iter().map(trial).collect();
        Probe { kernel: "6.18".into(), uid: 1000, landlock_abi: 7, trials }
    }
}
