//! The parts a fence is made of, by name: what a trial tries, a stage reports and an error blames.
//!
//! Absent on purpose: how any of them is applied.

use std::fmt;

/// One part. The numbers are on the wire between a stage and its keeper: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[repr(u8)]
pub enum Layer {
    /// Reading the plan itself.
    Plan = 0,
    /// Closing what was inherited.
    Descriptors = 1,
    Limits = 2,
    UserNamespace = 3,
    MountNamespace = 4,
    PidNamespace = 5,
    NetworkNamespace = 6,
    IpcNamespace = 7,
    /// The loopback device and the proxy's listener in the new network.
    Loopback = 8,
    /// The processes between keeper and program.
    Processes = 9,
    /// Read-only root, writable roots, masks, pins.
    Mounts = 10,
    /// A `/proc` that shows the session only.
    Proc = 11,
    /// Terminals of the session's own.
    Terminal = 12,
    Capabilities = 13,
    NoNewPrivileges = 14,
    Landlock = 15,
    Seccomp = 16,
    /// A path of the policy is not what it was: missing, or a symlink.
    Paths = 17,
    /// Running the program, inside.
    Exec = 18,
}

impl Layer {
    pub const ALL: [Layer; 19] = [
        Layer::Plan,
        Layer::Descriptors,
        Layer::Limits,
        Layer::UserNamespace,
        Layer::MountNamespace,
        Layer::PidNamespace,
        Layer::NetworkNamespace,
        Layer::IpcNamespace,
        Layer::Loopback,
        Layer::Processes,
        Layer::Mounts,
        Layer::Proc,
        Layer::Terminal,
        Layer::Capabilities,
        Layer::NoNewPrivileges,
        Layer::Landlock,
        Layer::Seccomp,
        Layer::Paths,
        Layer::Exec,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Layer::Plan => "plan",
            Layer::Descriptors => "descriptors",
            Layer::Limits => "limits",
            Layer::UserNamespace => "user namespace",
            Layer::MountNamespace => "mount namespace",
            Layer::PidNamespace => "pid namespace",
            Layer::NetworkNamespace => "network namespace",
            Layer::IpcNamespace => "ipc namespace",
            Layer::Loopback => "loopback",
            Layer::Processes => "processes",
            Layer::Mounts => "mounts",
            Layer::Proc => "proc",
            Layer::Terminal => "terminal",
            Layer::Capabilities => "capabilities",
            Layer::NoNewPrivileges => "no new privileges",
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Paths => "paths",
            Layer::Exec => "exec",
        }
    }

    pub fn from_wire(value: u8) -> Option<Layer> {
        Layer::ALL.get(usize::from(value)).copied()
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_the_wire_are_places_in_the_table() {
        for (number, layer) in (0..).zip(Layer::ALL) {
            assert_eq!(layer as u8, number);
            assert_eq!(Layer::from_wire(number), Some(layer));
        }
        assert_eq!(Layer::from_wire(Layer::ALL.len() as u8), None);
    }
}
