//! The parts a fence is made of, by name: what a trial tries, a stage reports and an error blames.
//!
//! Absent on purpose: how any of them is applied.

crate::numbered! {
    /// One part of a fence.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
    pub enum Layer {
        /// Reading the plan itself.
        Plan "plan",
        /// Closing what was inherited.
        Descriptors "descriptors",
        Limits "limits",
        UserNamespace "user namespace",
        MountNamespace "mount namespace",
        PidNamespace "pid namespace",
        NetworkNamespace "network namespace",
        IpcNamespace "ipc namespace",
        /// The loopback device and the proxy's listener in the new network.
        Loopback "loopback",
        /// The processes between keeper and program.
        Processes "processes",
        /// Read-only root, writable roots, masks, pins.
        Mounts "mounts",
        /// A `/proc` that shows the session only.
        Proc "proc",
        /// Terminals of the session's own.
        Terminal "terminal",
        Capabilities "capabilities",
        NoNewPrivileges "no new privileges",
        Landlock "landlock",
        Seccomp "seccomp",
        /// A path of the policy is not what it was: missing, or a symlink.
        Paths "paths",
        /// Running the program, inside.
        Exec "exec",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;

    #[test]
    fn numbers_on_the_wire_are_places_in_the_table() {
        for (number, layer) in (0..).zip(Layer::ALL) {
            assert_eq!(layer as u8, number);
            assert_eq!(layer.encode(), [number]);
            assert_eq!(Layer::decode(&[number]), Ok(layer));
        }
        assert!(Layer::decode(&[Layer::ALL.len() as u8]).is_err());
        // Older keepers and stages know them by these.
        assert_eq!([Layer::Landlock as u8, Layer::Exec as u8], [15, 18]);
    }
}
