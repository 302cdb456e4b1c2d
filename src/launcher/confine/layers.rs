//! The layers of protection, each as one step that either holds or says why not.

use crate::tools::Limits;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use std::os::fd::BorrowedFd;

/// Limit on the open files of one child.
const OPEN_FILES_MAX: u64 = 64;
/// Size limit of core dumps, in bytes. A file of one byte is not a dump, and with 1 the kernel does
/// not start the program of `core_pattern` either; with 0 it does, as root and outside every
/// namespace, on what the tool left in its memory (core(5)).
const CORE_BYTES_MAX: u64 = 1;

/// Landlock as this kernel has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landlock {
    version: i32,
    abi: ABI,
}

/// A descriptor, and what may be done with what lies there or below.
#[derive(Clone, Copy)]
pub(crate) struct PathRule<'a> {
    pub(crate) at: BorrowedFd<'a>,
    pub(crate) rights: BitFlags<AccessFs>,
}

/// The connections that a ruleset allows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connects {
    /// TCP to this port.
    pub(crate) port: Option<u16>,
    /// Unix sockets that have a path.
    pub(crate) unix: bool,
}

impl Landlock {
    /// Reads the kernel's Landlock version. An error without Landlock, which is always demanded.
    ///
    /// Rights of a version above `abi_max` are not handled, as on a kernel of that version.
    pub(crate) fn probe(abi_max: Option<u32>) -> Result<Self, String> {
        let there = crate::launcher::sys::landlock_abi()
            .ok_or("landlock: not in this kernel, or hidden by a filter")?;
        let most = abi_max.and_then(|most| i32::try_from(most).ok()).unwrap_or(i32::MAX);
        let version = there.min(most);
        Ok(Self { version, abi: ABI::from(version) })
    }

    /// Whether it handles unix sockets that have a path.
    pub(crate) fn knows_socket_paths(self) -> bool {
        AccessFs::from_all(self.abi).contains(AccessFs::ResolveUnix)
    }

    /// The layer's name in records.
    pub(crate) fn name(self) -> String {
        format!("landlock abi {}", self.version)
    }

    /// A ruleset that handles every right, port and scope that this kernel knows, and allows only
    /// `grants`.
    pub(crate) fn ruleset(self, grants: &[PathRule<'_>]) -> Result<RulesetCreated, String> {
        self.ruleset_of(grants, Connects::default())
    }

    /// The same, and allows the connections in `connects`.
    pub(crate) fn ruleset_of(
        self,
        grants: &[PathRule<'_>],
        connects: Connects,
    ) -> Result<RulesetCreated, String> {
        let (mut files, ports) = (AccessFs::from_all(self.abi), AccessNet::from_all(self.abi));
        if connects.unix {
            files &= !BitFlags::from(AccessFs::ResolveUnix);
        }
        let created = self.build(files, ports, grants).map_err(refuse)?;
        match connects.port.filter(|_| ports.contains(AccessNet::ConnectTcp)) {
            Some(port) => created.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(refuse),
            None => Ok(created),
        }
    }

    /// A ruleset against changing, executing and binding a TCP port: reading and connecting stay
    /// allowed.
    pub(crate) fn ruleset_against_writes(self, grants: &[PathRule<'_>]) -> Result<RulesetCreated, String> {
        let handled = AccessFs::from_write(self.abi) & !BitFlags::from(AccessFs::ResolveUnix);
        let ports = AccessNet::from_all(self.abi) & AccessNet::BindTcp;
        self.build(handled | AccessFs::Execute, ports, grants).map_err(refuse)
    }

    /// Rights to change files and folders below a folder, without device ioctls and execution.
    pub(crate) fn write_rights(self) -> BitFlags<AccessFs> {
        AccessFs::from_write(self.abi)
            & !(AccessFs::ResolveUnix | AccessFs::IoctlDev | AccessFs::MakeChar | AccessFs::MakeBlock)
    }

    /// Rights of a tool that writes, on its folder and below: no device, socket or FIFO, and no
    /// execution.
    pub(crate) fn work_rights(self) -> BitFlags<AccessFs> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        read | (self.write_rights() & !(AccessFs::MakeSock | AccessFs::MakeFifo))
    }

    /// The subset of [`Self::write_rights`] that applies to a file.
    pub(crate) fn file_write_rights(self) -> BitFlags<AccessFs> {
        self.write_rights() & AccessFs::from_file(self.abi)
    }

    fn build(
        self,
        files: BitFlags<AccessFs>,
        ports: BitFlags<AccessNet>,
        grants: &[PathRule<'_>],
    ) -> Result<RulesetCreated, landlock::RulesetError> {
        let mut ruleset =
            Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(files)?;
        if !ports.is_empty() {
            ruleset = ruleset.handle_access(ports)?;
        }
        let scopes = Scope::from_all(self.abi);
        if !scopes.is_empty() {
            ruleset = ruleset.scope(scopes)?;
        }
        let mut created = ruleset.create()?;
        for grant in grants {
            created = created.add_rule(PathBeneath::new(grant.at, grant.rights))?;
        }
        Ok(created)
    }
}

/// Confines the calling thread and what it starts. Anything but full enforcement is an error.
pub(crate) fn restrict(ruleset: RulesetCreated) -> Result<(), String> {
    let status = ruleset.restrict_self().map_err(refuse)?;
    if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
        Ok(())
    } else {
        Err("landlock: not fully enforced".to_owned())
    }
}

fn refuse(error: impl std::fmt::Display) -> String {
    format!("landlock: {error}")
}

/// Locks the paths back to privilege: no capability through uid 0, exec or the ambient set.
pub(crate) fn lock_secure_bits() -> Result<(), String> {
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).map_err(|e| format!("securebits: {e}"))
}

/// Keeps exactly the capabilities in `kept`, for good; if it is empty, none can come back.
pub(crate) fn keep_capabilities(kept: CapabilitySet) -> Result<(), String> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|e| format!("capabilities: {e}"))
}

/// Whether any capability is held.
pub(crate) fn holds_capabilities() -> Result<bool, String> {
    let sets = rustix::thread::capabilities(None).map_err(|e| format!("capabilities: {e}"))?;
    Ok(!(sets.effective.is_empty() && sets.permitted.is_empty()))
}

/// The limits of one child that the kernel enforces. `mapped_bytes` is the size of the launcher's
/// own image and `processes_max` the limit of the uid; files grow as far as the tool may write,
/// nothing is locked or queued. The limit on core dumps is inherited from the launcher
/// ([`limit_core`]).
pub(crate) fn limit_resources(limits: &Limits, mapped_bytes: u64, processes_max: u64) -> Result<(), String> {
    let cpu_s = limits.wall_ms_max.div_ceil(1_000) + 1;
    let bounds = [
        (Resource::Fsize, limits.file_bytes_max),
        (Resource::Nofile, OPEN_FILES_MAX),
        (Resource::Cpu, cpu_s),
        (Resource::As, limits.memory_bytes_max.saturating_add(mapped_bytes)),
        (Resource::Nproc, processes_max),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Sigpending, OPEN_FILES_MAX),
    ];
    bounds.into_iter().try_for_each(|(resource, most)| limit(resource, most))
}

/// Sets the limit of core dumps for this process and all that it starts; their filters let none of
/// them set another. Called with the rights of the start, since root raises a hard limit of 0.
///
/// An error means that a crash of a tool would still reach a process outside its sandbox. With any
/// limit but exactly 1 the kernel starts the program of `core_pattern`, which ignores the limit;
/// and if `core_pattern` names a socket, the kernel passes it the dump whatever the limit is.
pub(crate) fn limit_core(core_pattern: Option<&str>) -> Result<(), String> {
    limit(Resource::Core, CORE_BYTES_MAX)?;
    let whom = match core_pattern.map(str::as_bytes) {
        Some([b'@', ..]) => {
            return Err(
                "core dumps: `core_pattern` names a socket, which receives them whatever the limit is"
                    .to_owned(),
            );
        }
        Some([b'|', ..]) => "`core_pattern` names a program now",
        Some(_) => "`core_pattern` names no program now, and can change",
        None => "`core_pattern` cannot be read",
    };
    if keeps_core() {
        return Ok(());
    }
    Err(format!(
        "core dumps: the hard limit is 0 (`ulimit -Hc`), with which a crash starts the program of `core_pattern`; it must be 1; {whom}"
    ))
}

/// Whether a crash of this process starts no program of `core_pattern`.
pub(crate) fn keeps_core() -> bool {
    getrlimit(Resource::Core).current == Some(CORE_BYTES_MAX)
}

/// Sets the limit of core dumps to the value of [`limit_core`]: used to test whether it can be set
/// at all.
pub(crate) fn set_core() -> Result<(), rustix::io::Errno> {
    let kept = Some(CORE_BYTES_MAX);
    setrlimit(Resource::Core, Rlimit { current: kept, maximum: kept })
}

/// Sets both the soft and the hard limit, never above the current hard limit.
pub(crate) fn limit(resource: Resource, most: u64) -> Result<(), String> {
    let set = |most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    let done = match set(most) {
        // The current hard limit is lower, and cannot be raised.
        Err(rustix::io::Errno::PERM) => set(getrlimit(resource).maximum.map_or(most, |hard| hard.min(most))),
        done => done,
    };
    done.map_err(|e| format!("rlimit {resource:?}: {e}"))
}
