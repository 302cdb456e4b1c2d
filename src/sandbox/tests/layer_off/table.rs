//! Which attempts go through without which layers.

use crate::launcher::confine::protection;
use crate::launcher::view::own_proc;
use Layer::{
    Added, Capabilities, Clock, ControlGroups, Descriptors, Environment, Filter, Group, HostName, Identity,
    Init, Locked, Network, OwnProc, OwnUsers, Processes, Resources, Rules, SharedMemory, SuId, View,
};

/// What can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Landlock.
    Rules,
    /// The last seccomp filter.
    Filter,
    /// The mount view.
    View,
    /// The second user and mount namespace, which lock the view's mounts.
    Locked,
    /// The PID namespace.
    Processes,
    /// The network namespace.
    Network,
    /// The IPC namespace.
    SharedMemory,
    /// The UTS namespace.
    HostName,
    /// The cgroup namespace.
    ControlGroups,
    /// The call's own control group.
    Group,
    /// The limit on what a call adds to its folders.
    Added,
    /// The call's own `/proc`, if it is granted one; without it, that of the view.
    OwnProc,
    /// The call's own user namespace.
    OwnUsers,
    /// The uid of tools, if the tests run as root.
    Identity,
    /// No capability, if the tests run as root.
    Capabilities,
    /// That no exec gives a privilege.
    SuId,
    /// The rlimits.
    Resources,
    /// That every other descriptor is closed.
    Descriptors,
    /// That the environment is built from nothing.
    Environment,
    /// The first process of the call's namespace, which is not the program.
    Init,
    /// The launcher's clock and caps.
    Clock,
}

/// The names that records and tables have for them. A layer that is in no record has its name in
/// parentheses.
pub(super) const NAMES: [(Layer, &str); 21] = [
    (Rules, "landlock"),
    (Filter, "seccomp"),
    (View, "mount view"),
    (Locked, "locked mounts"),
    (Processes, "pid namespace"),
    (Network, "net namespace"),
    (SharedMemory, "ipc namespace"),
    (HostName, "uts namespace"),
    (ControlGroups, "cgroup namespace"),
    (OwnProc, own_proc::LAYER),
    (OwnUsers, "user namespace"),
    (Identity, "own uid"),
    (Capabilities, "no capabilities"),
    (SuId, "no_new_privs"),
    (Resources, "rlimits"),
    (Descriptors, "(closed descriptors)"),
    (Environment, "(environment)"),
    (Init, "init"),
    (Clock, "launcher"),
    (Group, "cgroup"),
    (Added, "quota"),
];

impl Layer {
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(layer, _)| *layer == self).expect("a name").1
    }

    /// By its name in a record, with a number after it, if it has one.
    pub(super) fn named(name: &str) -> Self {
        let name = if name.starts_with("uid ") { "own uid" } else { name };
        let found = NAMES.iter().find(|(_, known)| name == *known || name.starts_with(&format!("{known} ")));
        found.unwrap_or_else(|| panic!("no case for the layer `{name}`")).0
    }

    /// A layer that is added to the table of protections must be given a case here.
    pub(super) fn new(layer: protection::Layer) -> Self {
        match layer {
            protection::Layer::Landlock => Rules,
            protection::Layer::MountView => View,
            protection::Layer::OwnUid => Identity,
            protection::Layer::Seccomp => Filter,
            protection::Layer::NetNamespace => Network,
            protection::Layer::PidNamespace => Processes,
            protection::Layer::Rlimits => Resources,
            protection::Layer::Launcher => Clock,
            protection::Layer::Cgroup => Group,
            protection::Layer::NoCapabilities => Capabilities,
        }
    }
}

/// Without `off`: what goes through, and what another layer still holds.
pub(super) struct LayerCase {
    pub(super) off: &'static [Layer],
    pub(super) through: &'static [&'static str],
    pub(super) held: &'static [&'static str],
}

pub(super) const fn case(
    off: &'static [Layer],
    through: &'static [&'static str],
    held: &'static [&'static str],
) -> LayerCase {
    LayerCase { off, through, held }
}

/// The cases. Layers that hold the same attempts are switched off one by one, and then together.
#[rustfmt::skip]
pub(super) const CASES: &[LayerCase] = &[
    // Landlock and the view: files. Modes, links and kernel objects are covered by the filter;
    // root's files also by the uid.
    case(&[Rules], &["list"],
         &["absolute", "change", "run_own", "modes", "hard_link", "special_files", "trace", "passwords", "tcp_connect"]),
    case(&[View], &["look", "map_own"], &["absolute", "list", "change", "own_proc", "run_other", "devices", "passwords"]),
    case(&[Rules, View], &["absolute", "list", "change", "own_proc", "proc_words", "run_other", "run_own", "move_out", "devices"],
         &["modes", "hard_link", "special_files", "trace", "passwords", "tcp_connect"]),
    // seccomp: the kernel's surface, sockets, modes and times. Files stay closed; what needs a
    // capability still has none, and a process in an unmapped user namespace makes no other
    // namespace.
    case(&[Filter], &["memory_program", "watches", "own_modes", "own_times", "pair", "hidden_flags", "own_filter",
           "core_lowered", "pipe_size"],
         &["absolute", "change", "hard_link", "special_files", "trace", "signal_stranger", "namespaces", "raw", "segments",
           "take_away", "host_name"]),
    case(&[Rules, Filter], &["special_files"], &["hard_link", "trace", "signal_stranger", "raw"]),
    case(&[Rules, Filter, View], &["hard_link"], &["trace", "signal_stranger", "raw"]),
    case(&[OwnUsers, Filter], &["namespaces"], &[]),
    // The PID namespace: Landlock's scope holds signals too.
    case(&[Processes], &[], &["trace", "signal_stranger"]),
    case(&[Processes, Rules], &["signal_stranger"], &["trace"]),
    // A process in its own user namespace cannot trace a process outside it.
    case(&[Processes, Rules, Filter], &["signal_stranger"], &["trace"]),
    case(&[Identity, Capabilities, Locked, Processes, Rules, Filter], &["trace"], &[]),
    // The network namespace: a process without a socket cannot send.
    case(&[Network], &[], &["udp_send", "tcp_connect"]),
    // Attempts with `/proc` granted.
    case(&[OwnProc], &["kernel_words"], &["own_memory"]),
    case(&[SharedMemory], &[], &["segments"]),
    case(&[SharedMemory, Filter], &["segments"], &[]),
    // The path of this process's group on the host, which no tool can read: `/proc` is not granted.
    case(&[ControlGroups], &[], &["own_group"]),
    // As root, without a capability: the view and Landlock close root's files.
    case(&[Identity], &[], &["passwords", "new_root"]),
    case(&[Identity, Rules, View], &["passwords"], &["new_root"]),
    // With all capabilities: the filter stops the calls that would use them, and in a second user
    // namespace they do not count for calls that act on the host's namespaces.
    case(&[Identity, Capabilities], &[], &["new_root", "whole_watches", "raw", "passwords", "take_away", "host_name"]),
    case(&[Identity, Capabilities, Filter], &["new_root", "whole_watches"], &["absolute", "raw", "take_away", "host_name"]),
    case(&[Identity, Capabilities, Filter, Rules], &[], &["take_away"]),
    case(&[Identity, Capabilities, Filter, Locked], &["raw"], &["absolute", "take_away"]),
    case(&[Identity, Capabilities, Filter, Locked, Rules], &["take_away"], &[]),
    // A file that lends root's rights: the view, the call's user namespace and no_new_privs, which
    // Landlock and the filter require, each make it ineffective.
    case(&[View, Rules, Filter, OwnUsers], &[], &["run_lent"]),
    case(&[SuId, View, Rules, Filter, OwnUsers], &["run_lent"], &[]),
    case(&[Resources], &["memory", "forks", "threads", "open_files", "sparse", "core_lowered"], &[]),
    // Landlock does not check a file that is open already, but does check a folder.
    case(&[Descriptors], &["descriptors"], &["folder_descriptors"]),
    case(&[Descriptors, Rules], &["folder_descriptors"], &[]),
    case(&[Environment], &["environment"], &[]),
];

/// Attempts that are made with a readable `/proc` granted.
pub(super) const IN_PROC: [&str; 2] = ["kernel_words", "own_memory"];

/// Steps of one attempt that got as far as the network: a socket, and then a peer.
pub(super) const REACHES: [(&[Layer], u64); 3] =
    [(&[Filter, Rules], 1), (&[Network, Filter, Rules], 2), (&[Network, Rules], 0)];

/// Layers that are shown by their effect outside the program: the host's name, a program's end, its
/// output. Groups and the quota are covered in `limits.rs`.
pub(super) const BY_EFFECT: [Layer; 6] = [HostName, ControlGroups, Init, Clock, Group, Added];
