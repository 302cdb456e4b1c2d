//! Canaries: for each layer a child that has the layer, and tries what the layer must refuse.
//!
//! If the layer can be left off, another child without it tries the same and must succeed:
//! otherwise the refusal would prove nothing about the layer. The namespaces and the view surround
//! every child of the launcher, so for them the host's side is checked instead: that the host has
//! what is missing inside. None of it changes the host: canaries write only to a file system that
//! no other process sees.
//!
//! Without a view that file system is missing, so Landlock's truncation cannot be tried and does
//! not count. Seccomp counts against signals only for builtins, since programs may signal their own
//! processes.

use super::identity::become_user;
use super::layers::{self, Landlock, PathRule};
use super::protection::{Layer, Protection, ProtectionTable, Runs};
use super::seccomp::compile::{Sockets, load};
use super::seccomp::filters::{Does, of_program};
use crate::launcher::sys::{self, SingleThread};
use crate::launcher::view::files::open_path;
use crate::launcher::view::host_tree::HostTree;
use crate::launcher::view::root::CANARY;
use crate::tools::Limits;
use landlock::AccessFs;
use nix::sched::CloneFlags;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ioctl_ficlone, memfd_create, mkdirat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, getsockname, listen, socket};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitId, WaitIdOptions, getppid, test_kill_process, waitid};
use rustix::thread::CapabilitySet;
use rustix::time::Timespec;
use seccompiler::BpfProgram;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Time limit for the tries of one child, in seconds.
const TRIES_S_MAX: i64 = 10;
/// An address without a host (RFC 5737).
const UNREACHABLE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
const ALL: &[Runs] = &[Runs::Builtin, Runs::Program, Runs::Proxied];

/// What the canaries use of the machine.
#[derive(Clone, Copy)]
pub(crate) struct CanaryContext<'a> {
    pub(crate) one: &'a SingleThread,
    pub(crate) landlock: Landlock,
    pub(crate) null: &'a OwnedFd,
    pub(crate) tree: &'a HostTree,
    /// Uid and gid of tools, if the launcher may change them.
    pub(crate) identity: Option<(u32, u32)>,
    /// The new namespaces that each call gets.
    pub(crate) per_call: CloneFlags,
    pub(crate) has_view: bool,
    /// Whether the limit of core dumps is as required.
    pub(crate) keeps_core: bool,
    /// Paths that hosts have and that no manifest names here.
    pub(crate) unnamed: &'a [&'static str],
    pub(crate) mapped_bytes: u64,
    pub(crate) sockets: Sockets,
    /// The builtins' filter that allows the most.
    pub(crate) walker_filter: &'a BpfProgram,
}

impl CanaryContext<'_> {
    fn has_namespaces(&self) -> bool {
        !self.per_call.is_empty()
    }
}

/// A try. It is passed the launcher's pid, since a filter may refuse to ask for it.
type Act<'a> = Box<dyn Fn(Option<Pid>) -> Result<(), Errno> + 'a>;

/// One try: the protection that it is about, the errors by which its layer refuses, and the act.
struct Try<'a> {
    about: Protection,
    refusals: &'a [Errno],
    act: Act<'a>,
}

fn a_try<'a>(about: Protection, refusals: &'a [Errno], act: impl Fn() -> Result<(), Errno> + 'a) -> Try<'a> {
    Try { about, refusals, act: Box::new(move |_| act()) }
}

/// The null signal to the launcher, which only checks for permission.
fn a_signal(refusals: &[Errno]) -> Try<'_> {
    let act = |launcher: Option<Pid>| test_kill_process(launcher.ok_or(Errno::SRCH)?);
    Try { about: Protection::Signals, refusals, act: Box::new(act) }
}

/// A local socket in the host's network namespace, under a name that only that namespace has.
#[derive(Debug)]
pub(crate) struct HostSocket {
    _listener: OwnedFd,
    address: SocketAddrUnix,
}

impl HostSocket {
    /// Called before there are namespaces. `None` if it cannot be connected to even here.
    pub(crate) fn listen() -> Option<Self> {
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).ok()?;
        // The kernel picks an unused name.
        bind(&listener, &SocketAddrUnix::new_unnamed()).ok()?;
        listen(&listener, 8).ok()?;
        let address = getsockname(&listener).ok()?.try_into().ok()?;
        let outside = Self { _listener: listener, address };
        outside.reach().ok().map(|()| outside)
    }

    fn reach(&self) -> Result<(), Errno> {
        connect(socket(AddressFamily::UNIX, SocketType::STREAM, None)?, &self.address)
    }
}

/// What each layer was seen to refuse here. Runs in the launcher's second stage, in its view,
/// before it confines itself.
pub(crate) fn probe(
    machine: &CanaryContext<'_>,
    ground: Option<&OwnedFd>,
    outside: Option<&HostSocket>,
) -> ProtectionTable {
    let mut held = ProtectionTable::default();
    // Its clock needs no canary: it ends a canary that hangs.
    held.add(ALL, Layer::Launcher, [Protection::Resources]);
    held.add(ALL, Layer::Landlock, landlock(machine, ground));
    held.add(&[Runs::Builtin], Layer::Seccomp, filter(machine, machine.walker_filter));
    let writes = Does { writes: true, ..Does::default() };
    held.add(&[Runs::Program], Layer::Seccomp, filter(machine, &of_program(writes)));
    if machine.sockets.tcp {
        let connects = Does { connects: true, ..writes };
        held.add(&[Runs::Proxied], Layer::Seccomp, filter(machine, &of_program(connects)));
    }
    held.add(ALL, Layer::Rlimits, rlimits(machine));
    held.add(ALL, Layer::NoCapabilities, capabilities(machine.one));
    if let Some((uid, gid)) = machine.identity {
        held.add(ALL, Layer::OwnUid, own_uid(machine.one, ground, uid, gid));
    }
    if machine.has_namespaces() {
        held.add(ALL, Layer::PidNamespace, pid_namespace(machine));
        held.add(ALL, Layer::NetNamespace, net_namespace(machine, outside));
    }
    if machine.has_view {
        held.add(ALL, Layer::MountView, mount_view(machine));
    }
    held
}

/// Why a call that takes another identity gets no user namespace of its own, which its process
/// limit depends on. `None` if it gets one.
pub(crate) fn no_user_namespace(machine: &CanaryContext<'_>) -> Option<String> {
    let (uid, gid) = machine.identity.filter(|_| machine.has_namespaces())?;
    let tried = sys::clone_call(machine.one, machine.per_call).map_err(|e| e.to_string()).and_then(|child| {
        let Some(pidfd) = child else {
            let entered =
                become_user(uid, gid, &[]).is_ok() && sys::unshare(CloneFlags::CLONE_NEWUSER).is_ok();
            sys::exit_now(u8::from(!entered));
        };
        let end = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| e.to_string())?;
        let is_entered = end.and_then(|end| end.exit_status()) == Some(0);
        if is_entered { Ok(()) } else { Err("the kernel refuses it".to_owned()) }
    });
    tried.err().map(|e| format!("user namespace of each call: {e}: calls share the limit of their processes"))
}

fn landlock(machine: &CanaryContext<'_>, ground: Option<&OwnedFd>) -> BTreeSet<Protection> {
    const DENIED: &[Errno] = &[Errno::ACCESS];
    let inside = HostSocket::listen();
    let mut tries = vec![
        a_try(Protection::Files, DENIED, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, "/", flags, Mode::empty()).map(drop)
        }),
        a_try(Protection::DeviceIoctl, DENIED, ask_a_device),
        a_try(Protection::Tcp, DENIED, || {
            let closed = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
            connect(socket(AddressFamily::INET, SocketType::STREAM, None)?, &closed)
        }),
        a_signal(&[Errno::PERM]),
    ];
    if let Some(ground) = ground {
        tries.push(a_try(Protection::Files, DENIED, move || {
            mkdirat(ground, format!("d{}", rustix::process::getpid().as_raw_nonzero()), Mode::RWXU)
        }));
        tries.push(a_try(Protection::Truncate, DENIED, move || empty(ground.as_fd(), OFlags::WRONLY)));
    }
    if let Some(inside) = &inside {
        tries.push(a_try(Protection::UnixSockets, &[Errno::PERM], || inside.reach()));
    }
    let confine = || {
        let rights = AccessFs::ReadFile | AccessFs::WriteFile;
        let null = PathRule { at: machine.null.as_fd(), rights };
        let own = ground.map(|at| PathRule { at: at.as_fd(), rights });
        layers::restrict(
            machine.landlock.ruleset(&[Some(null), own].into_iter().flatten().collect::<Vec<_>>())?,
        )
    };
    let mut refused = compared(machine.one, confine, &tries);
    // Sockets with a path are handled only from that version on; they count as a protection only
    // together with abstract ones.
    if !machine.landlock.knows_socket_paths() {
        refused.remove(&Protection::UnixSockets);
    }
    refused
}

/// Tries `filter`, which must be the one that allows the most among those that such calls may get.
fn filter(machine: &CanaryContext<'_>, filter: &BpfProgram) -> BTreeSet<Protection> {
    const NO: &[Errno] = &[Errno::PERM];
    let a_socket = |family, kind| socket(family, kind, None).map(drop);
    let mut tries = vec![
        a_try(Protection::Truncate, NO, || {
            // A device is not emptied; the filter sees only the flags.
            let flags = OFlags::RDONLY | OFlags::TRUNC | OFlags::CLOEXEC;
            openat(CWD, "/dev/null", flags, Mode::empty()).map(drop)
        }),
        a_try(Protection::DeviceIoctl, &[Errno::PERM, Errno::NOTTY], || {
            // No ioctl on the lists; without a filter the kernel answers that it does not apply to
            // such a file.
            let input = std::io::stdin();
            match ioctl_ficlone(&input, &input) {
                Err(e @ (Errno::PERM | Errno::NOTTY)) => Err(e),
                _ => Ok(()),
            }
        }),
        a_try(Protection::Tcp, NO, || a_socket(AddressFamily::INET, SocketType::STREAM)),
        a_try(Protection::OtherNetwork, NO, || a_socket(AddressFamily::INET, SocketType::DGRAM)),
        a_try(Protection::OtherNetwork, NO, || a_socket(AddressFamily::NETLINK, SocketType::RAW)),
        a_try(Protection::UnixSockets, NO, || a_socket(AddressFamily::UNIX, SocketType::STREAM)),
        a_signal(NO),
        a_try(Protection::KernelSurface, NO, || memfd_create("canary", MemfdFlags::CLOEXEC).map(drop)),
        a_try(Protection::Death, NO, || start_another(machine.one)),
    ];
    // The try sets the limit to its present value, so it needs the required value in place.
    if machine.keeps_core {
        tries.push(a_try(Protection::CoreHandler, NO, layers::set_core));
    }
    compared(machine.one, || load(filter), &tries)
}

fn rlimits(machine: &CanaryContext<'_>) -> BTreeSet<Protection> {
    let limits = Limits {
        wall_ms_max: 1_000,
        output_bytes_max: 1,
        memory_bytes_max: 64 << 20,
        processes_max: 1,
        file_bytes_max: 0,
        network_bytes_max: 0,
        written_bytes_max: 0,
        written_files_max: 0,
    };
    let open_many = || {
        let all: Result<Vec<OwnedFd>, Errno> = (0..80).map(|_| rustix::io::dup(std::io::stdin())).collect();
        all.map(drop)
    };
    let tries = [a_try(Protection::Resources, &[Errno::MFILE], open_many)];
    let mut refused =
        compared(machine.one, || layers::limit_resources(&limits, machine.mapped_bytes, 64), &tries);
    // A real crash would start a program on the host, so the limit is read back instead, in a child
    // like those of calls.
    let kept = [a_try(Protection::CoreHandler, &[Errno::PERM], || {
        if layers::keeps_core() { Err(Errno::PERM) } else { Ok(()) }
    })];
    if machine.keeps_core {
        refused.extend(refused_by_all(machine.one, &kept));
    }
    refused
}

/// What every child of the launcher is refused.
fn refused_by_all(one: &SingleThread, tries: &[Try<'_>]) -> BTreeSet<Protection> {
    refused(one, CloneFlags::empty(), || Ok(()), tries).unwrap_or_default()
}

/// Reads back that no capability is left; what capabilities allow, a machine may refuse anyway.
fn capabilities(one: &SingleThread) -> BTreeSet<Protection> {
    let held = || if layers::holds_capabilities() == Ok(false) { Err(Errno::PERM) } else { Ok(()) };
    let tries = [a_try(Protection::KernelSurface, &[Errno::PERM], held)];
    let confine = || layers::keep_capabilities(CapabilitySet::empty());
    refused(one, CloneFlags::empty(), confine, &tries).unwrap_or_default()
}

fn own_uid(one: &SingleThread, ground: Option<&OwnedFd>, uid: u32, gid: u32) -> BTreeSet<Protection> {
    let mut tries = vec![a_signal(&[Errno::PERM])];
    if let Some(ground) = ground {
        tries.push(a_try(Protection::Files, &[Errno::ACCESS], move || {
            openat(ground, CANARY, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)
        }));
    }
    compared(one, || become_user(uid, gid, &[]), &tries)
}

fn pid_namespace(machine: &CanaryContext<'_>) -> BTreeSet<Protection> {
    let tries = [a_signal(&[Errno::SRCH])];
    let plain = refused(machine.one, CloneFlags::empty(), || Ok(()), &tries);
    let own = refused(machine.one, machine.per_call, || Ok(()), &tries);
    let mut out = BTreeSet::new();
    if let (Ok(plain), Ok(own)) = (plain, own) {
        out.extend(own.difference(&plain).copied());
    }
    if ends_with_its_first(machine.one, machine.per_call).unwrap_or(false) {
        out.insert(Protection::Death);
    }
    out
}

fn net_namespace(machine: &CanaryContext<'_>, outside: Option<&HostSocket>) -> BTreeSet<Protection> {
    // If a service manager refuses the whole family, nothing of it can be reached either.
    const FAR: &[Errno] = &[Errno::NETUNREACH, Errno::AFNOSUPPORT];
    let go = |kind| connect(socket(AddressFamily::INET, kind, None)?, &UNREACHABLE);
    let mut tries = vec![
        a_try(Protection::Tcp, FAR, move || go(SocketType::STREAM)),
        a_try(Protection::OtherNetwork, FAR, move || go(SocketType::DGRAM)),
    ];
    // Names of abstract sockets belong to a network namespace; those with a path are names of a
    // view.
    if let Some(outside) = outside.filter(|_| machine.has_view) {
        tries.push(a_try(Protection::UnixSockets, &[Errno::CONNREFUSED], || outside.reach()));
    }
    refused_by_all(machine.one, &tries)
}

fn mount_view(machine: &CanaryContext<'_>) -> BTreeSet<Protection> {
    // A path that the host has and that no manifest names.
    let away = machine.unnamed.iter().find(|path| machine.tree.find(path).is_ok());
    let zero = Some(&"/dev/zero").filter(|path| machine.tree.find(path).is_ok());
    let gone = |path: Option<&&'static str>| path.map_or(Ok(()), |path| open_path(*path).map(drop));
    let tries = [
        a_try(Protection::Files, &[Errno::NOENT], move || gone(away)),
        a_try(Protection::Files, &[Errno::ROFS], || mkdirat(CWD, "/canary", Mode::RWXU)),
        a_try(Protection::Truncate, &[Errno::ROFS], || empty(CWD, OFlags::RDONLY)),
        a_try(Protection::DeviceIoctl, &[Errno::NOENT], move || gone(zero)),
    ];
    refused_by_all(machine.one, &tries)
}

fn empty(at: BorrowedFd<'_>, how: OFlags) -> Result<(), Errno> {
    let path = if how == OFlags::RDONLY { format!("/{CANARY}") } else { CANARY.to_owned() };
    openat(at, path, how | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty()).map(drop)
}

fn ask_a_device() -> Result<(), Errno> {
    let device = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let _ = device.is_terminal();
    // The null device is not a terminal, which is the answer to an unconfined question.
    match std::io::Error::last_os_error().raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS) => Err(Errno::ACCESS),
        _ => Ok(()),
    }
}

fn start_another(one: &SingleThread) -> Result<(), Errno> {
    match sys::clone_call(one, CloneFlags::empty()) {
        Ok(None) => sys::exit_now(0),
        // No other process would reap it: the launcher is its PID namespace's first process.
        Ok(Some(pidfd)) => waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map(drop),
        Err(e) => Err(e.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error)),
    }
}

/// What is refused with `confine` and not without it.
fn compared(
    one: &SingleThread,
    confine: impl Fn() -> Result<(), String>,
    tries: &[Try<'_>],
) -> BTreeSet<Protection> {
    let plain = outcomes(one, CloneFlags::empty(), || Ok(()), tries);
    let with = outcomes(one, CloneFlags::empty(), confine, tries);
    let (Ok(plain), Ok(with)) = (plain, with) else { return BTreeSet::new() };
    let both = with.iter().zip(plain).map(|(with, plain)| *with && !plain);
    all_refused(tries, both)
}

fn refused(
    one: &SingleThread,
    namespaces: CloneFlags,
    confine: impl Fn() -> Result<(), String>,
    tries: &[Try<'_>],
) -> Result<BTreeSet<Protection>, String> {
    Ok(all_refused(tries, outcomes(one, namespaces, confine, tries)?.into_iter()))
}

/// The protections of which every try was refused.
fn all_refused(tries: &[Try<'_>], outcomes: impl Iterator<Item = bool>) -> BTreeSet<Protection> {
    let mut all: BTreeMap<Protection, bool> = BTreeMap::new();
    for (one, was_refused) in tries.iter().zip(outcomes) {
        *all.entry(one.about).or_insert(true) &= was_refused;
    }
    all.into_iter().filter(|(_, refused)| *refused).map(|(about, _)| about).collect()
}

/// Whether each try was refused in the way of its layer, in its own child that is confined first.
fn outcomes(
    thread: &SingleThread,
    namespaces: CloneFlags,
    confine: impl Fn() -> Result<(), String>,
    tries: &[Try<'_>],
) -> Result<Vec<bool>, String> {
    let (report, reporter) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| format!("canary: {e}"))?;
    let Some(pidfd) = sys::clone_call(thread, namespaces).map_err(|e| format!("canary: {e}"))? else {
        let launcher = getppid();
        if confine().is_err() {
            sys::exit_now(1);
        }
        let one = |one: &Try<'_>| u8::from((one.act)(launcher).is_err_and(|e| one.refusals.contains(&e)));
        let bytes: Vec<u8> = tries.iter().map(one).collect();
        sys::exit_now(u8::from(rustix::io::write(&reporter, &bytes) != Ok(bytes.len())));
    };
    drop(reporter);
    let mut bytes = vec![0_u8; tries.len()];
    let whole = wait_for_end(&report) && rustix::io::read(&report, bytes.as_mut_slice()) == Ok(tries.len());
    // One that hangs is not waited for.
    let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
    let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    if whole {
        Ok(bytes.into_iter().map(|byte| byte == 1).collect())
    } else {
        Err("canary: silent".to_owned())
    }
}

/// Whether what the first process of a namespace started is gone with it.
fn ends_with_its_first(one: &SingleThread, namespaces: CloneFlags) -> Result<bool, String> {
    let (held, hold) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| format!("canary: {e}"))?;
    let Some(pidfd) = sys::clone_call(one, namespaces).map_err(|e| format!("canary: {e}"))? else {
        match sys::clone_call(one, CloneFlags::empty()) {
            Ok(None) => loop {
                // Holds its end of the pipe for as long as it lives.
                let never = Timespec { tv_sec: 60, tv_nsec: 0 };
                let _ = rustix::thread::nanosleep(&never);
            },
            Ok(Some(_)) => sys::exit_now(0),
            Err(_) => sys::exit_now(1),
        }
    };
    drop(hold);
    let end =
        waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).map_err(|e| format!("canary: {e}"))?;
    Ok(end.and_then(|end| end.exit_status()) == Some(0) && wait_for_end(&held))
}

/// Whether the pipe has data, or has lost its last writer, in time.
fn wait_for_end(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: TRIES_S_MAX, tv_nsec: 0 })), Ok(1))
}
