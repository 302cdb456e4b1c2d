//! What the launcher, a builtin and a program may ask of the kernel.
//!
//! In the allow-lists an unknown call returns ENOSYS, so that a C library falls back, and a call
//! known to be dangerous returns EPERM.

use super::compile::{Condition, FilterAction, Sockets, Test, compile};
use super::tables::{
    BUILTIN, CONNECTING, DANGEROUS, DANGEROUS_LEGACY, LAUNCHER, LEGACY, MODES, MODES_LEGACY, ORDINARY,
    PROCESSES, WRITING, WRITING_LEGACY,
};
use crate::launcher::view::own_proc;
use libc::{ENOSYS, ENOTTY, EPERM};
use seccompiler::BpfProgram;

/// `CLONE_NEW*` of `clone`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// The filter of the launcher, which every child inherits: what any of them needs. Each child's
/// last filter narrows the `sockets` of the base to what that call may have. `clone3` is for the
/// launcher alone, and so is `mount`, which is allowed if calls have their own `/proc`
/// (`mounts_proc`): every last filter refuses both.
pub(crate) fn base(sockets: Sockets, mounts_proc: bool) -> BpfProgram {
    let (tcp, ioctls) = match sockets.tcp {
        true => ([CONNECTING, &[libc::SYS_bind, libc::SYS_listen]].concat(), IOCTLS_AND_LOOPBACK),
        false => (Vec::new(), IOCTLS),
    };
    // A builtin's socket gets a time limit; every last filter refuses both.
    let unix = if sockets.unix { &[libc::SYS_connect, libc::SYS_setsockopt][..] } else { &[] };
    let more = [tcp.as_slice(), unix].concat();
    let fcntl = fcntl_condition(Test::NoneOf(FCNTL_REFUSED));
    let mut conditions = vec![unshare_condition(), fcntl, ioctl_condition(ioctls), own_limits()];
    if sockets.tcp || sockets.unix {
        conditions.push(socket_condition(sockets));
    }
    if mounts_proc {
        conditions.push(mount_condition());
    }
    let allowed = [ORDINARY, LEGACY, PROCESSES, LAUNCHER, WRITING, WRITING_LEGACY, &more].concat();
    let refused = [DANGEROUS, DANGEROUS_LEGACY].concat();
    compile(&allowed, &without(refused, &more), &conditions, FilterAction::Errno(ENOSYS))
}

/// Removes the wanted calls from the refused ones.
fn without(mut refused: Vec<i64>, wanted: &[i64]) -> Vec<i64> {
    refused.retain(|call| !wanted.contains(call));
    refused
}

/// The last filter of a builtin: reading what it was given, writing its answer, memory, the clock.
pub(crate) fn builtin() -> BpfProgram {
    compile(BUILTIN, &[], &[], FilterAction::Errno(EPERM))
}

/// The last filter of a builtin that walks: it also opens, for reading alone. Landlock decides
/// where.
pub(crate) fn walker() -> BpfProgram {
    let openat = Condition {
        call: libc::SYS_openat,
        argument: 2,
        test: Test::NoBits(OPEN_CHANGES.unsigned_abs()),
        otherwise: FilterAction::Errno(EPERM),
    };
    // For the hash tables of a pattern.
    let allowed = [BUILTIN, &[libc::SYS_getrandom]].concat();
    compile(&allowed, &[], &[openat], FilterAction::Errno(EPERM))
}

/// The last filter of the builtin that was given a connection: it opens nothing, and makes no other
/// connection.
pub(crate) fn fetcher() -> BpfProgram {
    // For the keys of TLS, and for its records.
    let allowed = [BUILTIN, &[libc::SYS_getrandom, libc::SYS_writev]].concat();
    compile(&allowed, &[], &[], FilterAction::Errno(EPERM))
}

/// Flags of `openat` that ask for more than reading. Emptying a file does not count as writing in
/// every Landlock version.
const OPEN_CHANGES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// What a program does in addition to reading and computing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Does {
    /// Changes folders.
    pub(crate) writes: bool,
    /// Makes its own connections.
    pub(crate) connects: bool,
    /// Gets the answer that modes were changed, although they are not.
    pub(crate) ignores_modes: bool,
}

/// The last filter of a program, on top of the base.
pub(crate) fn of_program(does: Does) -> BpfProgram {
    let (more, mut conditions) = if does.connects {
        (
            CONNECTING,
            [socket_condition(Sockets { tcp: true, unix: false })]
                .into_iter()
                .chain(no_fast_open())
                .collect(),
        )
    } else {
        (&[][..], Vec::new())
    };
    if does.ignores_modes {
        // With this answer the kernel does nothing and returns success. If two filters answer with
        // an errno, the one that was loaded last wins.
        let pretended = |call: &i64| Condition {
            call: *call,
            argument: 0,
            test: Test::OneOf(&[]),
            otherwise: FilterAction::Errno(0),
        };
        conditions.extend([MODES, MODES_LEGACY].concat().iter().map(pretended));
    }
    if does.writes { writer_and(more, conditions) } else { program_and(more, conditions) }
}

/// The last filter of a program that changes nothing.
fn program_and(more: &[i64], mut conditions: Vec<Condition>) -> BpfProgram {
    let opens = OPENING.iter().map(|(call, flags)| opening(*call, *flags, None));
    conditions.extend(opens.chain([no_openat2(), fcntl_condition(Test::OneOf(FCNTL))]));
    program_with(more, &[WRITING, WRITING_LEGACY].concat(), conditions)
}

/// Calls that open a file, with the position of the flags; the mode is the argument that follows.
#[cfg(target_arch = "x86_64")]
pub(crate) const OPENING: &[(i64, u32)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const OPENING: &[(i64, u32)] = &[(libc::SYS_openat, 2)];

pub(crate) fn opening(call: i64, argument: u32, mode: Option<(u32, u32)>) -> Condition {
    Condition { call, argument, test: Test::Open(mode), otherwise: FilterAction::Errno(EPERM) }
}

/// Its flags and mode are in memory, where no filter sees them. A program that gets this answer
/// falls back to openat.
pub(crate) fn no_openat2() -> Condition {
    Condition {
        call: libc::SYS_openat2,
        argument: 0,
        test: Test::OneOf(&[]),
        otherwise: FilterAction::Errno(ENOSYS),
    }
}

/// The last filter of a program with folders to change. It may also change the names in them, but
/// never modes, owners, times or hard links, which Landlock does not confine to the folders. It may
/// not make a file that lends its owner's rights: other processes may run as the tool's user. Nor
/// may it make a folder that its owner cannot read or search, by its mode or by the umask: what
/// lies in it would escape the count (`child/quota.rs`).
fn writer_and(more: &[i64], mut conditions: Vec<Condition>) -> BpfProgram {
    let lending = libc::S_ISUID | libc::S_ISGID;
    let opens = OPENING.iter().map(|(call, flags)| opening(*call, *flags, Some((*flags + 1, lending))));
    conditions.extend(opens.chain([
        no_openat2(),
        fcntl_condition(Test::OneOf(FCNTL_AND_LOCKS)),
        no_whiteout(),
    ]));
    conditions.extend(FOLDERS.iter().map(|(call, argument)| Condition {
        call: *call,
        argument: *argument,
        test: Test::AllBits(libc::S_IRUSR | libc::S_IXUSR),
        otherwise: FilterAction::Errno(EPERM),
    }));
    conditions.push(Condition {
        call: libc::SYS_umask,
        argument: 0,
        test: Test::NoBits(libc::S_IRUSR | libc::S_IXUSR),
        otherwise: FilterAction::Errno(EPERM),
    });
    conditions.extend(CREATING_LEGACY.iter().map(|(call, argument)| Condition {
        call: *call,
        argument: *argument,
        test: Test::NoBits(lending),
        otherwise: FilterAction::Errno(EPERM),
    }));
    program_with(&[WRITING, WRITING_LEGACY, more].concat(), &[], conditions)
}

/// Calls that make a folder, with the position of the mode.
#[cfg(target_arch = "x86_64")]
pub(crate) const FOLDERS: &[(i64, u32)] = &[(libc::SYS_mkdirat, 2), (libc::SYS_mkdir, 1)];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const FOLDERS: &[(i64, u32)] = &[(libc::SYS_mkdirat, 2)];

/// RENAME_WHITEOUT leaves a device node under the old name (renameat2(2)), which no Landlock
/// version counts as making one.
fn no_whiteout() -> Condition {
    const RENAME_WHITEOUT: u32 = 4;
    Condition {
        call: libc::SYS_renameat2,
        argument: 4,
        test: Test::NoBits(RENAME_WHITEOUT),
        otherwise: FilterAction::Errno(EPERM),
    }
}

/// Other calls that take a mode, with its position, if the architecture has them.
#[cfg(target_arch = "x86_64")]
pub(crate) const CREATING_LEGACY: &[(i64, u32)] = &[(libc::SYS_creat, 1)];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const CREATING_LEGACY: &[(i64, u32)] = &[];

fn program_with(more: &[i64], less: &[i64], mut conditions: Vec<Condition>) -> BpfProgram {
    let allowed = [ORDINARY, LEGACY, PROCESSES, more].concat();
    let refused = without([DANGEROUS, DANGEROUS_LEGACY, LAUNCHER, less, &[libc::SYS_unshare]].concat(), more);
    let clone = Condition {
        call: libc::SYS_clone,
        argument: 0,
        test: Test::NoBits(NEW_NAMESPACES),
        otherwise: FilterAction::Errno(EPERM),
    };
    let prctl = Condition {
        call: libc::SYS_prctl,
        argument: 0,
        // PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS
        test: Test::OneOf(&[3, 15, 16, 23, 39]),
        otherwise: FilterAction::Errno(EPERM),
    };
    conditions.extend([clone, no_clone3(), prctl, ioctl_condition(IOCTLS), own_limits()]);
    compile(&allowed, &refused, &conditions, FilterAction::Errno(ENOSYS))
}

/// Its flags are in memory, where no filter sees them. A program that gets this answer falls back
/// to clone.
pub(crate) fn no_clone3() -> Condition {
    Condition {
        call: libc::SYS_clone3,
        argument: 0,
        test: Test::OneOf(&[]),
        otherwise: FilterAction::Errno(ENOSYS),
    }
}

/// Unsharing is for the user namespace of one call.
fn unshare_condition() -> Condition {
    Condition {
        call: libc::SYS_unshare,
        argument: 0,
        test: Test::OneOf(&[0x1000_0000]),
        otherwise: FilterAction::Errno(EPERM),
    }
}

/// TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
pub(crate) const IOCTLS: &[u32] = &[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];
/// The same and SIOCSIFFLAGS, which raises a loopback.
const IOCTLS_AND_LOOPBACK: &[u32] = &[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451, 0x8914];

/// Allows those in `listed`; the rest are answered as on a descriptor that is not a terminal.
pub(crate) fn ioctl_condition(listed: &'static [u32]) -> Condition {
    Condition {
        call: libc::SYS_ioctl,
        argument: 1,
        test: Test::OneOf(listed),
        otherwise: FilterAction::Errno(ENOTTY),
    }
}

/// Allows no socket but `sockets`: TCP streams and local sockets.
fn socket_condition(sockets: Sockets) -> Condition {
    let test = Test::Socket(sockets);
    Condition { call: libc::SYS_socket, argument: 0, test, otherwise: FilterAction::Errno(EPERM) }
}

/// Allows mounting a new read-only file system, and nothing else about mounts: none is moved,
/// bound, changed or shared. Which file system, and where, are in memory, where no filter sees
/// them.
fn mount_condition() -> Condition {
    const FLAGS: &[u32] = &[own_proc::FLAGS.bits()];
    let otherwise = FilterAction::Errno(EPERM);
    Condition { call: libc::SYS_mount, argument: 3, test: Test::OneOf(FLAGS), otherwise }
}

/// A send with MSG_FASTOPEN connects, past Landlock's rule on ports.
fn no_fast_open() -> [Condition; 2] {
    const MSG_FASTOPEN: u32 = 0x2000_0000;
    [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2)].map(|(call, argument)| Condition {
        call,
        argument,
        test: Test::NoBits(MSG_FASTOPEN),
        otherwise: FilterAction::Errno(EPERM),
    })
}

/// Allows the caller's own limits except `KEPT_LIMIT`, and not those of the init, which runs
/// under the same uid.
pub(crate) fn own_limits() -> Condition {
    let otherwise = FilterAction::Errno(EPERM);
    Condition { call: libc::SYS_prlimit64, argument: 0, test: Test::OwnLimits, otherwise }
}

fn fcntl_condition(test: Test) -> Condition {
    Condition { call: libc::SYS_fcntl, argument: 1, test, otherwise: FilterAction::Errno(EPERM) }
}

/// Commands of fcntl(2) that no process below the launcher may use: F_SETOWN, F_SETSIG,
/// F_SETOWN_EX, F_SETLEASE, F_NOTIFY and F_SETDELEG send signals to other processes, or block them.
const FCNTL_REFUSED: &[u32] = &[8, 10, 15, 1024, 1026, 1040];

/// Commands for a program, none of which outlives its call or affects other processes: F_DUPFD,
/// F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_GETOWN, F_GETSIG, F_GETOWN_EX, F_OFD_GETLK,
/// F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_GET_SEALS and the
/// hints F_GET_RW_HINT and F_GET_FILE_RW_HINT. F_SETPIPE_SZ is not among them: large pipes of one
/// call leave small ones for every other call of the user (pipe(7)).
const FCNTL: &[u32] = &[0, 1, 2, 3, 4, 5, 9, 11, 16, 36, 1025, 1027, 1028, 1030, 1032, 1034, 1035, 1037];

/// The same and F_SETLK, F_SETLKW, F_OFD_SETLK and F_OFD_SETLKW, for a program with folders to
/// change. A lock of a program that only reads would block the writers of what it reads.
const FCNTL_AND_LOCKS: &[u32] =
    &[0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 36, 37, 38, 1025, 1027, 1028, 1030, 1032, 1034, 1035, 1037];

/// A machine that gives namespaces neither to an ordinary user nor to root.
#[cfg(test)]
pub(crate) fn without_namespaces() -> BpfProgram {
    compile(&[], &[libc::SYS_unshare], &[], FilterAction::Allow)
}
