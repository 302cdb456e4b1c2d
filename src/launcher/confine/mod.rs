//! What a process is refused: the layers that it applies to itself, and the test that they hold
//! here.
//!
//! Each function confines the process that calls it, for good. Nothing here opens anything for a
//! tool.
//!
//! # Layout
//!
//! * `layers`: Landlock, limits and capabilities.
//! * `seccomp/`: system call filters.
//! * `identity`: the uid and gid of tools.
//! * `forks`: the limit on the rate of new processes.
//! * `protection`: which layer is against what.
//! * `selftest`: each layer tried on this machine.

pub(crate) mod layers;
pub(crate) mod seccomp;
pub(crate) mod identity;
pub(crate) mod forks;
pub(crate) mod protection;
pub(crate) mod selftest;
