//! The table of protections: what a call is kept from, and which layers keep it.
//!
//! A layer counts for a protection if its canary was refused (`selftest.rs`), on this machine, at
//! this start. A level summarizes the whole table. A protection that no layer provides is named,
//! and what needs it is refused.

use crate::types::Level;
use std::collections::{BTreeMap, BTreeSet};

/// What a call is kept from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protection {
    /// Reading, writing, making and executing outside the grant.
    Files,
    /// Emptying what may only be read.
    Truncate,
    DeviceIoctl,
    Tcp,
    /// UDP, netlink, vsock, raw.
    OtherNetwork,
    /// Signals to other processes, and inspecting them.
    Signals,
    /// Abstract sockets, and those with a path.
    UnixSockets,
    /// More memory, processes, files, time and output than its manifest says.
    Resources,
    /// Outliving its call.
    Death,
    /// The rest of the kernel.
    KernelSurface,
    /// A crash that starts the program of `core_pattern`, as root and outside the sandbox.
    CoreHandler,
}

/// A layer that provides protections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Landlock,
    MountView,
    OwnUid,
    Seccomp,
    NetNamespace,
    PidNamespace,
    Rlimits,
    /// The launcher's clock, caps and kill.
    Launcher,
    /// Adds up what the processes of a call use, and kills them all at once.
    Cgroup,
    NoCapabilities,
}

/// Every layer that some protection names.
#[cfg(test)]
pub(crate) fn named() -> impl Iterator<Item = Layer> {
    TABLE.iter().flat_map(|(_, _, layers)| layers.iter().copied())
}

/// The kind of a call: the last filters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runs {
    Builtin,
    Program,
    /// A program that makes its own connections.
    Proxied,
}

/// Each protection, the number of its layers that `strict` demands, and the layers that can provide
/// it.
const TABLE: [(Protection, usize, &[Layer]); 11] = {
    use Layer::{
        Cgroup, Landlock, Launcher, MountView, NetNamespace, NoCapabilities, OwnUid, PidNamespace, Rlimits,
        Seccomp,
    };
    [
        (Protection::Files, 2, &[Landlock, MountView, OwnUid]),
        (Protection::Truncate, 2, &[Landlock, MountView, Seccomp]),
        (Protection::DeviceIoctl, 2, &[Landlock, MountView, Seccomp]),
        (Protection::Tcp, 2, &[Landlock, NetNamespace, Seccomp]),
        (Protection::OtherNetwork, 2, &[NetNamespace, Seccomp]),
        (Protection::Signals, 2, &[Landlock, PidNamespace, OwnUid, Seccomp]),
        (Protection::UnixSockets, 2, &[Landlock, NetNamespace, Seccomp]),
        (Protection::Resources, 1, &[Rlimits, Launcher, Cgroup]),
        (Protection::Death, 1, &[PidNamespace, Seccomp, Cgroup]),
        (Protection::KernelSurface, 2, &[Seccomp, NoCapabilities]),
        // The limit itself, and that no program sets another.
        (Protection::CoreHandler, 2, &[Rlimits, Seccomp]),
    ]
};

impl Protection {
    /// Whether `standard` does without it: it depends on a limit that the user who starts PAR can
    /// remove, and on a host without such a program there is nothing to be kept from.
    fn is_extra(self) -> bool {
        self == Self::CoreHandler
    }

    /// The name in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Truncate => "truncate",
            Self::DeviceIoctl => "device ioctl",
            Self::Tcp => "tcp",
            Self::OtherNetwork => "other network",
            Self::Signals => "signals",
            Self::UnixSockets => "unix sockets",
            Self::Resources => "resources",
            Self::Death => "death",
            Self::KernelSurface => "kernel surface",
            Self::CoreHandler => "core handler",
        }
    }
}

impl Layer {
    /// The name in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::MountView => "mount view",
            Self::OwnUid => "own uid",
            Self::Seccomp => "seccomp",
            Self::NetNamespace => "net namespace",
            Self::PidNamespace => "pid namespace",
            Self::Rlimits => "rlimits",
            Self::Launcher => "launcher",
            Self::Cgroup => "cgroup",
            Self::NoCapabilities => "no capabilities",
        }
    }
}

/// What was found to be refused, and by which layer, for each kind of call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProtectionTable(BTreeSet<(Runs, Protection, Layer)>);

impl ProtectionTable {
    /// Notes that `layer` refuses these to calls of these kinds.
    pub(crate) fn add(&mut self, runs: &[Runs], layer: Layer, refused: impl IntoIterator<Item = Protection>) {
        for protection in refused {
            self.0.extend(runs.iter().map(|runs| (*runs, protection, layer)));
        }
    }

    /// The layers of each protection, by their names. Leaves out a protection that no layer
    /// provides.
    pub(crate) fn table(&self, runs: Runs) -> BTreeMap<String, Vec<String>> {
        let row = |(protection, _, layers): &(Protection, usize, &[Layer])| {
            let names: Vec<String> =
                self.given(runs, *protection, layers).map(|layer| layer.as_str().to_owned()).collect();
            (!names.is_empty()).then(|| (protection.as_str().to_owned(), names))
        };
        TABLE.iter().filter_map(row).collect()
    }

    /// The level of such calls; `None` if a protection that `standard` demands has no layer at all.
    pub(crate) fn level(&self, runs: Runs) -> Option<Level> {
        let count = |protection, layers| self.given(runs, protection, layers).count();
        let mut wanted = TABLE.iter().filter(|(protection, ..)| !protection.is_extra());
        if wanted.any(|(protection, _, layers)| count(*protection, layers) == 0) {
            return None;
        }
        let is_strict =
            TABLE.iter().all(|(protection, wanted, layers)| count(*protection, layers) >= *wanted);
        Some(if is_strict { Level::Strict } else { Level::Standard })
    }

    /// What keeps such calls below `strict`: each protection with the layers that it has and those
    /// that could be added.
    pub(crate) fn shortfalls(&self, runs: Runs) -> Vec<String> {
        let row = |(protection, wanted, layers): &(Protection, usize, &[Layer])| {
            let given: Vec<Layer> = self.given(runs, *protection, layers).collect();
            if given.len() >= *wanted {
                return None;
            }
            let names = |layers: &mut dyn Iterator<Item = Layer>| {
                layers.map(Layer::as_str).collect::<Vec<_>>().join(", ")
            };
            let by = if given.is_empty() { "nothing".to_owned() } else { names(&mut given.iter().copied()) };
            let others = names(&mut layers.iter().copied().filter(|layer| !given.contains(layer)));
            Some(format!("{}: given by {by}, and not by {others}", protection.as_str()))
        };
        TABLE.iter().filter_map(row).collect()
    }

    fn given<'a>(
        &'a self,
        runs: Runs,
        protection: Protection,
        layers: &'a [Layer],
    ) -> impl Iterator<Item = Layer> + 'a {
        layers.iter().copied().filter(move |layer| self.0.contains(&(runs, protection, *layer)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, Protection, ProtectionTable, Runs, TABLE};
    use crate::types::Level;

    fn all() -> ProtectionTable {
        let mut held = ProtectionTable::default();
        for (protection, _, layers) in TABLE {
            for layer in layers {
                held.add(&[Runs::Builtin], *layer, [protection]);
            }
        }
        held
    }

    #[test]
    fn a_level_is_that_of_the_weakest_protection() {
        let whole = all();
        assert_eq!(whole.level(Runs::Builtin), Some(Level::Strict));
        assert_eq!(whole.shortfalls(Runs::Builtin), [""; 0]);
        assert_eq!(whole.level(Runs::Program), None, "nothing is known of programs");
        for (protection, wanted, layers) in TABLE {
            let mut held = whole.clone();
            for (at, layer) in layers.iter().enumerate() {
                held.0.remove(&(Runs::Builtin, protection, *layer));
                let left = layers.len() - at - 1;
                let expect = match left {
                    0 if !protection.is_extra() => None,
                    _ if left >= wanted => Some(Level::Strict),
                    _ => Some(Level::Standard),
                };
                assert_eq!(held.level(Runs::Builtin), expect, "{protection:?} by {left}");
                assert_eq!(held.shortfalls(Runs::Builtin).is_empty(), left >= wanted, "{protection:?}");
            }
        }
        let mut held = whole;
        held.0.retain(|(_, protection, layer)| {
            *protection != Protection::OtherNetwork || *layer == Layer::Seccomp
        });
        assert_eq!(
            held.shortfalls(Runs::Builtin),
            ["other network: given by seccomp, and not by net namespace"]
        );
    }
}
