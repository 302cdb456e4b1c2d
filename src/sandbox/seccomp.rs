//! System call filters: what the launcher, a builtin, a program and the front may ask the kernel.
//!
//! Each filter is a flat table, compiled to a binary search over call numbers; the kernel walks every
//! number once when it loads a filter, so a tree loads several times faster than a list. A call of a
//! foreign architecture kills. In the allow-lists what is unknown is ENOSYS, so that a C library falls
//! back, and what is known to be dangerous is EPERM.

mod front;

use super::own_proc;
pub(super) use front::{front, serving};
use libc::{ENOSYS, ENOTTY, EPERM};
use seccompiler::{BpfProgram, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Call numbers from here on are the x32 calls of x86-64.
const X32_BIT: u32 = 0x4000_0000;
/// `CLONE_NEW*` of `clone`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// What a rule answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Errno(i32),
    Kill,
}

impl Verdict {
    fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// A call that is allowed for some values of an argument, compared in its low 32 bits: all that the
/// kernel looks at for these calls.
struct Condition {
    call: i64,
    argument: u32,
    test: Test,
    otherwise: Verdict,
}

enum Test {
    OneOf(&'static [u32]),
    NoneOf(&'static [u32]),
    NoBits(u32),
    AllBits(u32),
    /// Flags of an open: a file is emptied only by who opens it to write, which every Landlock knows. And of the
    /// argument behind, where there is one to look at: none of these bits.
    Open(Option<(u32, u32)>),
    /// Family, type and protocol of a socket.
    Socket(Sockets),
    /// The same, as one of these.
    Kind(&'static [Kind]),
    /// This value alone.
    Is(u32),
    /// Process, resource and new value of a limit: the caller's own limits, and no new value for [`KEPT_LIMIT`].
    OwnLimits,
}

/// Sockets of one family.
struct Kind {
    family: i32,
    types: &'static [i32],
    protocols: &'static [i32],
}

/// Sockets that a launcher lets its children make, each in a network of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sockets {
    /// Of programs that make their own connections.
    pub(super) tcp: bool,
    /// Of tools that are connected to a named one.
    pub(super) unix: bool,
}

/// The filter of the launcher, which every child inherits: what any of them needs. Of the `sockets` in it each child's
/// last filter leaves what that call may have; `clone3` is the launcher's alone: each last filter takes it away, and
/// `mount`, which is let through where calls have a `/proc` of their own (`mounts_proc`).
pub(super) fn base(sockets: Sockets, mounts_proc: bool) -> BpfProgram {
    let (tcp, ioctls) = match sockets.tcp {
        true => ([CONNECTING, &[libc::SYS_bind, libc::SYS_listen]].concat(), IOCTLS_AND_LOOPBACK),
        false => (Vec::new(), IOCTLS),
    };
    let unix = if sockets.unix { &[libc::SYS_connect][..] } else { &[] };
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
    compile(&allowed, &without(refused, &more), &conditions, Verdict::Errno(ENOSYS))
}

/// What is wanted is not refused.
fn without(mut refused: Vec<i64>, wanted: &[i64]) -> Vec<i64> {
    refused.retain(|call| !wanted.contains(call));
    refused
}

/// The last filter of a builtin: reading what it was given, writing its answer, memory, the clock.
pub(super) fn builtin() -> BpfProgram {
    compile(BUILTIN, &[], &[], Verdict::Errno(EPERM))
}

/// The last filter of a builtin that walks: it opens too, for reading alone. Where, Landlock says.
pub(super) fn walker() -> BpfProgram {
    let openat = Condition {
        call: libc::SYS_openat,
        argument: 2,
        test: Test::NoBits(OPEN_CHANGES.unsigned_abs()),
        otherwise: Verdict::Errno(EPERM),
    };
    // For the hash tables of a pattern.
    let allowed = [BUILTIN, &[libc::SYS_getrandom]].concat();
    compile(&allowed, &[], &[openat], Verdict::Errno(EPERM))
}

/// The last filter of the builtin that was given a connection: it opens nothing, and makes no other.
pub(super) fn fetcher() -> BpfProgram {
    // For the keys of TLS, and for its records.
    let allowed = [BUILTIN, &[libc::SYS_getrandom, libc::SYS_writev]].concat();
    compile(&allowed, &[], &[], Verdict::Errno(EPERM))
}

/// Flags of `openat` that ask for more than reading. Emptying a file is no write to every Landlock.
const OPEN_CHANGES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// What a program does beside reading and computing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Does {
    /// Changes folders.
    pub(super) writes: bool,
    /// Makes its own connections.
    pub(super) connects: bool,
    /// Is told that modes were changed, which they are not.
    pub(super) ignores_modes: bool,
}

/// The last filter of a program, on top of the base.
pub(super) fn of_program(does: Does) -> BpfProgram {
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
        // With this answer the kernel does nothing and returns success; of two filters that answer with a number
        // the one that was loaded last is heard.
        let told = |call: &i64| Condition {
            call: *call,
            argument: 0,
            test: Test::OneOf(&[]),
            otherwise: Verdict::Errno(0),
        };
        conditions.extend([MODES, MODES_LEGACY].concat().iter().map(told));
    }
    if does.writes { writer_and(more, conditions) } else { program_and(more, conditions) }
}

/// Of a program that changes nothing.
fn program_and(more: &[i64], mut conditions: Vec<Condition>) -> BpfProgram {
    let opens = OPENING.iter().map(|(call, flags)| opening(*call, *flags, None));
    conditions.extend(opens.chain([no_openat2(), fcntl_condition(Test::OneOf(FCNTL))]));
    program_with(more, &[WRITING, WRITING_LEGACY].concat(), conditions)
}

/// Calls that open by their numbers and the place of the flags; the mode is the argument behind.
#[cfg(target_arch = "x86_64")]
const OPENING: &[(i64, u32)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: &[(i64, u32)] = &[(libc::SYS_openat, 2)];

fn opening(call: i64, argument: u32, mode: Option<(u32, u32)>) -> Condition {
    Condition { call, argument, test: Test::Open(mode), otherwise: Verdict::Errno(EPERM) }
}

/// Its flags and mode are in memory, where no filter sees them. Who gets this answer takes openat.
fn no_openat2() -> Condition {
    Condition {
        call: libc::SYS_openat2,
        argument: 0,
        test: Test::OneOf(&[]),
        otherwise: Verdict::Errno(ENOSYS),
    }
}

/// Of a program with folders to change: names in them too, never modes, owners, times or hard links, which Landlock
/// does not keep within them. Nor may a file be made that lends its owner's rights: the tool's user is one that
/// another process could take. Nor a folder that its owner cannot look into, by its mode or by the mask: what lies in it
/// would be in no count (`quota.rs`).
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
        otherwise: Verdict::Errno(EPERM),
    }));
    conditions.push(Condition {
        call: libc::SYS_umask,
        argument: 0,
        test: Test::NoBits(libc::S_IRUSR | libc::S_IXUSR),
        otherwise: Verdict::Errno(EPERM),
    });
    conditions.extend(CREATING_LEGACY.iter().map(|(call, argument)| Condition {
        call: *call,
        argument: *argument,
        test: Test::NoBits(lending),
        otherwise: Verdict::Errno(EPERM),
    }));
    program_with(&[WRITING, WRITING_LEGACY, more].concat(), &[], conditions)
}

/// Calls that make a folder by their numbers and the place of the mode.
#[cfg(target_arch = "x86_64")]
const FOLDERS: &[(i64, u32)] = &[(libc::SYS_mkdirat, 2), (libc::SYS_mkdir, 1)];
#[cfg(not(target_arch = "x86_64"))]
const FOLDERS: &[(i64, u32)] = &[(libc::SYS_mkdirat, 2)];

/// RENAME_WHITEOUT leaves a device node under the old name (renameat2(2)), which no Landlock counts as making one.
fn no_whiteout() -> Condition {
    const RENAME_WHITEOUT: u32 = 4;
    Condition {
        call: libc::SYS_renameat2,
        argument: 4,
        test: Test::NoBits(RENAME_WHITEOUT),
        otherwise: Verdict::Errno(EPERM),
    }
}

/// Other calls with a mode by their numbers and arguments, where the architecture has them.
#[cfg(target_arch = "x86_64")]
const CREATING_LEGACY: &[(i64, u32)] = &[(libc::SYS_creat, 1)];
#[cfg(not(target_arch = "x86_64"))]
const CREATING_LEGACY: &[(i64, u32)] = &[];

fn program_with(more: &[i64], less: &[i64], mut conditions: Vec<Condition>) -> BpfProgram {
    let allowed = [ORDINARY, LEGACY, PROCESSES, more].concat();
    let refused = without([DANGEROUS, DANGEROUS_LEGACY, LAUNCHER, less, &[libc::SYS_unshare]].concat(), more);
    let clone = Condition {
        call: libc::SYS_clone,
        argument: 0,
        test: Test::NoBits(NEW_NAMESPACES),
        otherwise: Verdict::Errno(EPERM),
    };
    let prctl = Condition {
        call: libc::SYS_prctl,
        argument: 0,
        // PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS
        test: Test::OneOf(&[3, 15, 16, 23, 39]),
        otherwise: Verdict::Errno(EPERM),
    };
    conditions.extend([clone, no_clone3(), prctl, ioctl_condition(IOCTLS), own_limits()]);
    compile(&allowed, &refused, &conditions, Verdict::Errno(ENOSYS))
}

/// Its flags are in memory, where no filter sees them. Who gets this answer takes clone.
fn no_clone3() -> Condition {
    Condition {
        call: libc::SYS_clone3,
        argument: 0,
        test: Test::OneOf(&[]),
        otherwise: Verdict::Errno(ENOSYS),
    }
}

/// Unsharing is for the user namespace of one call.
fn unshare_condition() -> Condition {
    Condition {
        call: libc::SYS_unshare,
        argument: 0,
        test: Test::OneOf(&[0x1000_0000]),
        otherwise: Verdict::Errno(EPERM),
    }
}

/// TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
const IOCTLS: &[u32] = &[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451];
/// And SIOCSIFFLAGS, which raises a loopback.
const IOCTLS_AND_LOOPBACK: &[u32] = &[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451, 0x8914];

/// Those of `listed`; the rest as on a descriptor that is no terminal.
fn ioctl_condition(listed: &'static [u32]) -> Condition {
    Condition {
        call: libc::SYS_ioctl,
        argument: 1,
        test: Test::OneOf(listed),
        otherwise: Verdict::Errno(ENOTTY),
    }
}

/// No socket but `sockets`: for streams by TCP, and local ones.
fn socket_condition(sockets: Sockets) -> Condition {
    let test = Test::Socket(sockets);
    Condition { call: libc::SYS_socket, argument: 0, test, otherwise: Verdict::Errno(EPERM) }
}

/// A new file system that is only read, and nothing else of mounts: none is moved, bound, changed or shared. Which one,
/// and where, are in memory, where no filter sees them.
fn mount_condition() -> Condition {
    const FLAGS: &[u32] = &[own_proc::FLAGS.bits()];
    let otherwise = Verdict::Errno(EPERM);
    Condition { call: libc::SYS_mount, argument: 3, test: Test::OneOf(FLAGS), otherwise }
}

/// Who sends with MSG_FASTOPEN connects by that, past Landlock's rule on ports.
fn no_fast_open() -> [Condition; 2] {
    const MSG_FASTOPEN: u32 = 0x2000_0000;
    [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2)].map(|(call, argument)| Condition {
        call,
        argument,
        test: Test::NoBits(MSG_FASTOPEN),
        otherwise: Verdict::Errno(EPERM),
    })
}

/// The one limit that nobody below the launcher sets, lower ones included: with RLIMIT_CORE at 1 the kernel does not start
/// the program that `core_pattern` names, and with 0 it does (core(5)).
const KEPT_LIMIT: u32 = 4;

/// The caller's own limits but that one, and not those of the init, which is under the same uid.
fn own_limits() -> Condition {
    let otherwise = Verdict::Errno(EPERM);
    Condition { call: libc::SYS_prlimit64, argument: 0, test: Test::OwnLimits, otherwise }
}

fn fcntl_condition(test: Test) -> Condition {
    Condition { call: libc::SYS_fcntl, argument: 1, test, otherwise: Verdict::Errno(EPERM) }
}

/// Commands of fcntl(2) that nobody below the launcher has: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY and
/// F_SETDELEG send signals to others, or hold others up.
const FCNTL_REFUSED: &[u32] = &[8, 10, 15, 1024, 1026, 1040];

/// Those of a program, which change nothing that outlives its call or is for others to have: F_DUPFD, F_GETFD, F_SETFD,
/// F_GETFL, F_SETFL, F_GETLK, F_GETOWN, F_GETSIG, F_GETOWN_EX, F_OFD_GETLK, F_GETLEASE, F_DUPFD_QUERY, F_CREATED_QUERY,
/// F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_GET_SEALS and the hints F_GET_RW_HINT and F_GET_FILE_RW_HINT. No F_SETPIPE_SZ: large pipes
/// of one call leave small ones to all others of the user (pipe(7)).
const FCNTL: &[u32] = &[0, 1, 2, 3, 4, 5, 9, 11, 16, 36, 1025, 1027, 1028, 1030, 1032, 1034, 1035, 1037];

/// And F_SETLK, F_SETLKW, F_OFD_SETLK and F_OFD_SETLKW, for a program with folders to change. The lock of one that only
/// reads would hold up whoever writes what it reads.
const FCNTL_AND_LOCKS: &[u32] =
    &[0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 36, 37, 38, 1025, 1027, 1028, 1030, 1032, 1034, 1035, 1037];

/// Loads `filter` on the calling thread; its children inherit it.
pub(super) fn load(filter: &BpfProgram) -> Result<(), String> {
    seccompiler::apply_filter(filter).map_err(|e| format!("seccomp: {e}"))
}

/// Loads `filter` on every thread of the process.
pub(super) fn load_everywhere(filter: &BpfProgram) -> Result<(), String> {
    seccompiler::apply_filter_all_threads(filter).map_err(|e| format!("seccomp: {e}"))
}

fn compile(allowed: &[i64], refused: &[i64], conditions: &[Condition], default: Verdict) -> BpfProgram {
    let verdicts = |calls: &[i64], verdict| calls.iter().map(|call| (*call, verdict)).collect::<Vec<_>>();
    let table = [verdicts(allowed, Verdict::Allow), verdicts(refused, Verdict::Errno(EPERM))].concat();
    compile_table(&table, conditions, default)
}

/// A filter of any verdicts. Where a call stands in the table twice the refusal wins.
fn compile_table(table: &[(i64, Verdict)], conditions: &[Condition], default: Verdict) -> BpfProgram {
    let mut out = head();
    for condition in conditions {
        let body = condition_body(condition);
        // Bodies are a handful of instructions.
        let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
        out.push(jump_if_equal(number(condition.call), 0, skip));
        out.extend(body);
    }
    let mut table: Vec<(u32, Verdict)> =
        table.iter().map(|(call, verdict)| (number(*call), *verdict)).collect();
    // A refusal sorts first, and the first stays.
    table.sort_by_key(|(call, verdict)| (*call, *verdict == Verdict::Allow));
    table.dedup_by_key(|(call, _)| *call);
    out.extend(search(&steps(&table, default)));
    out
}

/// Every call's verdict as steps: from this number on, until the next step.
fn steps(table: &[(u32, Verdict)], default: Verdict) -> Vec<(u32, Verdict)> {
    let mut steps = vec![(0, default)];
    for (call, verdict) in table {
        steps.retain(|(from, _)| from != call);
        steps.push((*call, *verdict));
        steps.push((*call + 1, default));
    }
    steps.dedup_by_key(|(_, verdict)| *verdict);
    steps
}

fn search(steps: &[(u32, Verdict)]) -> Vec<sock_filter> {
    if let [] | [_] = steps {
        return vec![answer(steps.first().map_or(Verdict::Kill, |(_, verdict)| *verdict))];
    }
    let (low, high) = steps.split_at(steps.len() / 2);
    let middle = high.first().map_or(0, |(from, _)| *from);
    let low = search(low);
    let mut out = match u8::try_from(low.len()) {
        Ok(skip) => vec![instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, skip, 0, middle)],
        Err(_) => vec![
            instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, middle),
            instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, u32::try_from(low.len()).unwrap_or(u32::MAX)),
        ],
    };
    out.extend(low);
    out.extend(search(high));
    out
}

/// Kills foreign architectures and leaves the call's number in the accumulator.
fn head() -> BpfProgram {
    const ARCH_AT: u32 = 4;
    const NUMBER_AT: u32 = 0;
    let mut out =
        vec![load_word(ARCH_AT), jump_if_equal(ARCH, 1, 0), answer(Verdict::Kill), load_word(NUMBER_AT)];
    if cfg!(target_arch = "x86_64") {
        out.push(instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT));
        out.push(answer(Verdict::Kill));
    }
    out
}

fn condition_body(condition: &Condition) -> Vec<sock_filter> {
    let mut out = vec![load_word(16 + 8 * condition.argument)];
    let rest = match condition.test {
        Test::OneOf(values) => {
            out.extend(listed(values, Verdict::Allow));
            condition.otherwise
        }
        Test::NoneOf(values) => {
            out.extend(listed(values, condition.otherwise));
            Verdict::Allow
        }
        Test::NoBits(bits) => {
            out.push(instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits));
            out.push(answer(condition.otherwise));
            Verdict::Allow
        }
        Test::Open(mode) => {
            let jump_if_any = |bits: i32, yes, no| {
                let bits = bits.unsigned_abs();
                instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, yes, no, bits)
            };
            out.push(jump_if_any(libc::O_TRUNC, 0, 2));
            out.push(jump_if_any(libc::O_WRONLY | libc::O_RDWR, 1, 0));
            out.push(answer(condition.otherwise));
            if let Some((argument, bits)) = mode {
                out.push(load_word(16 + 8 * argument));
                out.push(instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits));
                out.push(answer(condition.otherwise));
            }
            Verdict::Allow
        }
        Test::Socket(sockets) => {
            out.extend(socket_body(sockets, condition.otherwise));
            condition.otherwise
        }
        Test::Kind(kinds) => {
            out.extend(kinds.iter().flat_map(|kind| kind_body(kind, condition.otherwise)));
            condition.otherwise
        }
        Test::Is(value) => {
            out.extend(listed(&[value], Verdict::Allow));
            condition.otherwise
        }
        Test::OwnLimits => {
            const NEW_VALUE: u32 = 2;
            out.extend([jump_if_equal(0, 1, 0), answer(condition.otherwise)]);
            out.push(load_word(16 + 8));
            out.extend([jump_if_equal(KEPT_LIMIT, 1, 0), answer(Verdict::Allow)]);
            // A pointer, both halves of which are looked at: asking for the limit gives none.
            for half in [0, 4] {
                out.push(load_word(16 + 8 * NEW_VALUE + half));
                out.extend([jump_if_equal(0, 1, 0), answer(condition.otherwise)]);
            }
            Verdict::Allow
        }
        Test::AllBits(bits) => {
            out.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits));
            out.extend(listed(&[bits], Verdict::Allow));
            condition.otherwise
        }
    };
    out.push(answer(rest));
    out
}

/// Answers where the family, which is in the accumulator, is that of `kind`; leaves it there otherwise.
fn kind_body(kind: &Kind, otherwise: Verdict) -> Vec<sock_filter> {
    let mut body = vec![load_word(16 + 8)];
    // SOCK_CLOEXEC and SOCK_NONBLOCK beside the type.
    let bits = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).unsigned_abs();
    body.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits));
    // Each jumps over the rest of them and the answer behind. There are a handful.
    let over = |at: usize| u8::try_from(kind.types.len() - at).unwrap_or(u8::MAX);
    let types = kind.types.iter().enumerate();
    body.extend(types.map(|(at, kind)| jump_if_equal(kind.unsigned_abs(), over(at), 0)));
    body.push(answer(otherwise));
    body.push(load_word(16 + 16));
    let protocols = kind.protocols.iter();
    body.extend(
        protocols.flat_map(|protocol| [jump_if_equal(protocol.unsigned_abs(), 0, 1), answer(Verdict::Allow)]),
    );
    body.push(answer(otherwise));
    let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [vec![jump_if_equal(kind.family.unsigned_abs(), 0, skip)], body].concat()
}

/// The family is loaded. What comes to its end is refused.
fn socket_body(Sockets { tcp, unix }: Sockets, otherwise: Verdict) -> Vec<sock_filter> {
    let [inet, inet6, local] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX].map(i32::unsigned_abs);
    let mut out = Vec::new();
    if unix {
        out.extend([jump_if_equal(local, 0, 1), answer(Verdict::Allow)]);
    }
    if tcp {
        out.extend([jump_if_equal(inet, 2, 0), jump_if_equal(inet6, 1, 0), answer(otherwise)]);
        out.push(load_word(16 + 8));
        // SOCK_CLOEXEC and SOCK_NONBLOCK beside the type.
        let kind = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).unsigned_abs();
        out.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, kind));
        out.extend([jump_if_equal(libc::SOCK_STREAM.unsigned_abs(), 1, 0), answer(otherwise)]);
        out.push(load_word(16 + 16));
        out.extend(listed(&[0, libc::IPPROTO_TCP.unsigned_abs()], Verdict::Allow));
    }
    out
}

fn listed(values: &[u32], verdict: Verdict) -> Vec<sock_filter> {
    values.iter().flat_map(|value| [jump_if_equal(*value, 0, 1), answer(verdict)]).collect()
}

fn load_word(at: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

fn jump_if_equal(value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value)
}

fn answer(verdict: Verdict) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, verdict.code())
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    // Every opcode above is below 256.
    sock_filter { code: u16::try_from(code).unwrap_or(u16::MAX), jt, jf, k }
}

fn number(call: i64) -> u32 {
    // Call numbers are small and positive.
    u32::try_from(call).unwrap_or(X32_BIT - 1)
}

/// Files, memory, time and a process's own affairs: what any program does.
const ORDINARY: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_chdir,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fchdir,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getitimer,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsid,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendfile,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setitimer,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_sigaltstack,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_tee,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older spellings that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[i64] = &[
    libc::SYS_access,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_fork,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[i64] = &[];

/// Starting, ending and waiting for processes within the call.
const PROCESSES: &[i64] = &[
    libc::SYS_clone,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_prctl,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// The launcher's own work, and a child's last steps.
const LAUNCHER: &[i64] = &[
    libc::SYS_capset,
    libc::SYS_capget,
    libc::SYS_clone3,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sched_setscheduler,
    libc::SYS_seccomp,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setgroups,
    libc::SYS_setpriority,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_signalfd4,
    libc::SYS_socketpair,
];

/// Being connected by TCP, on sockets that [`socket_condition`] lets be made.
const CONNECTING: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Changing modes.
const MODES: &[i64] = &[libc::SYS_fchmod, libc::SYS_fchmodat];
#[cfg(target_arch = "x86_64")]
const MODES_LEGACY: &[i64] = &[libc::SYS_chmod];
#[cfg(not(target_arch = "x86_64"))]
const MODES_LEGACY: &[i64] = &[];

/// Changing what names a folder holds and how long its files are. Where, is for Landlock to say. And locking: who changes
/// nothing would only hold up who does, by a lock on its folder.
const WRITING: &[i64] = &[
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_mkdirat,
    libc::SYS_renameat2,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
];

/// Older spellings of the same.
#[cfg(target_arch = "x86_64")]
const WRITING_LEGACY: &[i64] = &[
    libc::SYS_creat,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_unlink,
];
#[cfg(target_arch = "aarch64")]
const WRITING_LEGACY: &[i64] = &[libc::SYS_renameat];

/// All that a builtin does behind its last step.
const BUILTIN: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_rt_sigreturn,
    libc::SYS_statx,
    libc::SYS_write,
];

/// Known, and refused to everybody below the launcher: EPERM rather than ENOSYS.
const DANGEROUS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_connect,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_finit_module,
    libc::SYS_fsetxattr,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_lsetxattr,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setgid,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setregid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_setxattr,
    libc::SYS_socket,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_truncate,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_utimensat,
];

/// Older spellings of the same.
#[cfg(target_arch = "x86_64")]
const DANGEROUS_LEGACY: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_inotify_init,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_lchown,
    libc::SYS_link,
    libc::SYS_mknod,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const DANGEROUS_LEGACY: &[i64] = &[libc::SYS_kexec_file_load];

/// A machine that gives an ordinary user no namespaces, and root neither.
#[cfg(test)]
pub(super) fn without_namespaces() -> BpfProgram {
    compile(&[], &[libc::SYS_unshare], &[], Verdict::Allow)
}

#[cfg(test)]
mod tests {
    use super::{
        ARCH, BpfProgram, Does, Sockets, Verdict, base, builtin, fetcher, front, of_program, walker,
    };
    use libc::{ENOSYS, EPERM};

    const TCP: Sockets = Sockets { tcp: true, unix: false };
    const UNIX: Sockets = Sockets { tcp: false, unix: true };

    fn program() -> BpfProgram {
        of_program(Does::default())
    }

    fn writer() -> BpfProgram {
        of_program(Does { writes: true, ..Does::default() })
    }

    /// Runs a filter as the kernel would, on a call with its first arguments.
    fn run<const N: usize>(filter: &BpfProgram, arch: u32, call: u32, arguments: [u64; N]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let step = &filter[at];
            at += 1;
            let skip = |yes: bool| usize::from(if yes { step.jt } else { step.jf });
            match u32::from(step.code) {
                0x20 => {
                    word = match step.k {
                        0 => call,
                        4 => arch,
                        at => (arguments[(at as usize - 16) / 8] >> (at % 8 * 8)) as u32,
                    }
                }
                0x15 => at += skip(word == step.k),
                0x35 => at += skip(word >= step.k),
                0x45 => at += skip(word & step.k != 0),
                0x54 => word &= step.k,
                0x05 => at += step.k as usize,
                0x06 => return step.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    pub(super) fn check<const N: usize>(
        filter: &BpfProgram,
        call: i64,
        arguments: [u32; N],
        expect: Verdict,
    ) {
        check_wide(filter, call, arguments.map(u64::from), expect);
    }

    fn check_wide<const N: usize>(filter: &BpfProgram, call: i64, arguments: [u64; N], expect: Verdict) {
        let call = u32::try_from(call).expect("a number");
        assert_eq!(run(filter, ARCH, call, arguments), expect.code(), "call {call} {arguments:x?}");
    }

    #[test]
    fn who_connects_has_tcp_alone_and_who_is_told_of_modes_changes_none() {
        let eperm = Verdict::Errno(EPERM);
        let connects = Does { connects: true, ..Does::default() };
        for filter in [base(TCP, false), of_program(connects), of_program(Does { writes: true, ..connects })]
        {
            check(&filter, libc::SYS_connect, [0; 3], Verdict::Allow);
            for family in [2, 10] {
                check(&filter, libc::SYS_socket, [family, 0x8_0801, 6], Verdict::Allow);
                check(&filter, libc::SYS_socket, [family, 1, 0], Verdict::Allow);
                // Datagrams, raw ones, SCTP.
                check(&filter, libc::SYS_socket, [family, 2, 0], eperm);
                check(&filter, libc::SYS_socket, [family, 3, 1], eperm);
                check(&filter, libc::SYS_socket, [family, 1, 132], eperm);
            }
            for family in [1, 16, 17, 38, 40] {
                check(&filter, libc::SYS_socket, [family, 1, 0], eperm);
            }
        }
        for (call, flags) in
            [(libc::SYS_sendto, [3, 0, 9, 0x2000_4000]), (libc::SYS_sendmsg, [3, 0, 0x2000_4000, 0])]
        {
            check(&of_program(connects), call, flags, eperm);
            check(&of_program(connects), call, flags.map(|word| word & 0xffff), Verdict::Allow);
        }
        check(&of_program(connects), libc::SYS_bind, [0; 3], eperm);
        check(&of_program(connects), libc::SYS_listen, [0; 3], eperm);
        check(&of_program(connects), libc::SYS_accept4, [0; 3], eperm);
        check(&base(TCP, false), libc::SYS_ioctl, [1, 0x8914], Verdict::Allow);
        check(&of_program(connects), libc::SYS_ioctl, [1, 0x8914], Verdict::Errno(libc::ENOTTY));
        let ignores = of_program(Does { writes: true, ignores_modes: true, ..Does::default() });
        check(&ignores, libc::SYS_fchmodat, [0; 2], Verdict::Errno(0));
        check(&ignores, libc::SYS_fchownat, [0; 2], eperm);
    }

    #[test]
    fn who_has_a_last_filter_has_no_call_whose_flags_no_filter_sees() {
        check(&base(Sockets::default(), false), libc::SYS_clone3, [0; 2], Verdict::Allow);
        let answers = [(program(), ENOSYS), (writer(), ENOSYS), (builtin(), EPERM), (walker(), EPERM)];
        for (filter, errno) in answers {
            check(&filter, libc::SYS_clone3, [0; 2], Verdict::Errno(errno));
        }
    }

    #[test]
    fn no_folder_is_made_that_its_owner_cannot_look_into() {
        let eperm = Verdict::Errno(EPERM);
        for mode in [0, 0o300, 0o477, 0o677] {
            for (call, argument) in super::FOLDERS {
                let mut arguments = [0; 4];
                arguments[*argument as usize] = mode;
                check(&writer(), *call, arguments, eperm);
            }
            check(&writer(), libc::SYS_umask, [0o777 & !mode], eperm);
        }
        check(&writer(), libc::SYS_umask, [0o277], Verdict::Allow);
    }

    #[test]
    fn lists_answer_as_they_say() {
        let eperm = Verdict::Errno(EPERM);
        let enosys = Verdict::Errno(ENOSYS);
        for filter in [base(Sockets::default(), false), program(), writer()] {
            check(&filter, libc::SYS_read, [0; 2], Verdict::Allow);
            check(&filter, libc::SYS_execveat, [0; 2], Verdict::Allow);
            check(&filter, libc::SYS_socket, [0; 2], eperm);
            check(&filter, libc::SYS_ptrace, [0; 2], eperm);
            check(&filter, libc::SYS_mount, [0; 2], eperm);
            check(&filter, 4000, [0; 2], enosys);
            check(&filter, libc::SYS_ioctl, [1, 0x5401], Verdict::Allow);
            check(&filter, libc::SYS_ioctl, [1, 0x5412], Verdict::Errno(libc::ENOTTY));
            check(&filter, libc::SYS_fcntl, [1, 8], eperm);
            check(&filter, libc::SYS_fcntl, [1, 3], Verdict::Allow);
        }
        check(&program(), libc::SYS_unshare, [0x1000_0000, 0], eperm);
        check(&program(), libc::SYS_clone, [0x2000_0000, 0], eperm);
        check(&program(), libc::SYS_clone, [0x11, 0], Verdict::Allow);
        check(&program(), libc::SYS_sendmsg, [0; 2], eperm);
        check(&program(), libc::SYS_flock, [3, 2], eperm);
        check(&writer(), libc::SYS_flock, [3, 2], Verdict::Allow);
        check(&program(), libc::SYS_seccomp, [0; 2], eperm);
        check(&program(), libc::SYS_prctl, [15, 0], Verdict::Allow);
        check(&program(), libc::SYS_prctl, [4, 0], eperm);
        for call in [libc::SYS_mkdirat, libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_symlinkat] {
            check(&writer(), call, [0, 0, 0o700, 0, 0], Verdict::Allow);
            check(&program(), call, [0, 0, 0o700, 0, 0], eperm);
            check(&builtin(), call, [0, 0, 0o700, 0, 0], eperm);
        }
        for call in [
            libc::SYS_truncate,
            libc::SYS_fchmodat,
            libc::SYS_fchownat,
            libc::SYS_linkat,
            libc::SYS_utimensat,
        ] {
            check(&writer(), call, [0; 2], eperm);
        }
        for mode in [0o4755, 0o2755, 0o6000] {
            check(&writer(), libc::SYS_openat, [0, 0, 0x41, mode], eperm);
            for (call, argument) in super::CREATING_LEGACY {
                let mut arguments = [0; 4];
                arguments[*argument as usize] = mode;
                check(&writer(), *call, arguments, eperm);
            }
        }
        check(&writer(), libc::SYS_openat, [0, 0, 0x41, 0o1777], Verdict::Allow);
        check(&writer(), libc::SYS_openat2, [0; 2], enosys);
        check(&builtin(), libc::SYS_pread64, [0; 2], Verdict::Allow);
        check(&walker(), libc::SYS_openat, [3, 0, 0x80000, 0], Verdict::Allow);
        for flags in [0x1, 0x2, 0x40, 0x200, 0x400, 0x41_0002] {
            check(&walker(), libc::SYS_openat, [3, 0, flags, 0], eperm);
        }
        for call in
            [libc::SYS_openat2, libc::SYS_execve, libc::SYS_clone, libc::SYS_unlinkat, libc::SYS_socket]
        {
            check(&walker(), call, [0; 4], eperm);
        }
        for call in [libc::SYS_openat, libc::SYS_clone, libc::SYS_execve, libc::SYS_sendmsg, libc::SYS_prctl]
        {
            check(&builtin(), call, [0; 2], eperm);
        }
        check(&front(), libc::SYS_openat, [0; 2], Verdict::Allow);
        check(&front(), libc::SYS_socket, [0; 2], Verdict::Allow);
        check(&front(), libc::SYS_clone, [0x3d_0f00, 0], Verdict::Allow);
        check(&front(), libc::SYS_clone, [0x11, 0], eperm);
        check(&front(), libc::SYS_clone3, [0; 2], enosys);
        check(&front(), libc::SYS_execve, [0; 2], eperm);
    }

    #[test]
    fn nobody_below_the_launcher_sets_another_limit_of_cores() {
        const POINTER: u64 = 0x7ffe_0000_1000;
        let (eperm, enosys) = (Verdict::Errno(EPERM), Verdict::Errno(ENOSYS));
        let core = u64::from(super::KEPT_LIMIT);
        for filter in [base(Sockets::default(), true), program(), writer()] {
            for new in [POINTER, 0x1000, 1 << 32, 1 << 63] {
                check_wide(&filter, libc::SYS_prlimit64, [0, core, new, 0], eperm);
                // The kernel looks at the low half of the resource.
                check_wide(&filter, libc::SYS_prlimit64, [0, core | 1 << 32, new, 0], eperm);
            }
            check_wide(&filter, libc::SYS_prlimit64, [0, core, 0, POINTER], Verdict::Allow);
            for resource in (0..16).filter(|resource| *resource != core) {
                check_wide(&filter, libc::SYS_prlimit64, [0, resource, POINTER, 0], Verdict::Allow);
            }
            // Nobody else's, whatever it is.
            for resource in 0..16 {
                check_wide(&filter, libc::SYS_prlimit64, [1, resource, POINTER, 0], eperm);
                check_wide(&filter, libc::SYS_prlimit64, [1, resource, 0, POINTER], eperm);
            }
            if cfg!(target_arch = "x86_64") {
                check_wide(&filter, 160, [core, POINTER, 0, 0], enosys);
            }
        }
        for filter in [builtin(), walker(), fetcher()] {
            check_wide(&filter, libc::SYS_prlimit64, [0, core, POINTER, 0], eperm);
        }
    }

    #[test]
    fn nothing_of_a_call_is_locked_enlarged_or_watched_for_others() {
        let eperm = Verdict::Errno(EPERM);
        // F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
        for command in [6, 7, 37, 38] {
            check(&program(), libc::SYS_fcntl, [1, command], eperm);
            check(&writer(), libc::SYS_fcntl, [1, command], Verdict::Allow);
        }
        // F_NOTIFY, F_SETPIPE_SZ, F_ADD_SEALS, F_SETDELEG, and what is not known yet
        for command in [1026, 1031, 1033, 1040, 39, 1041, 4000, u32::MAX] {
            for filter in [program(), writer()] {
                check(&filter, libc::SYS_fcntl, [1, command], eperm);
            }
        }
        // F_DUPFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_OFD_GETLK, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
        for command in [0, 2, 3, 4, 5, 36, 1030, 1032] {
            for filter in [program(), writer(), base(Sockets::default(), false)] {
                check(&filter, libc::SYS_fcntl, [1, command], Verdict::Allow);
            }
        }
        // The arguments on standard input may take a larger pipe, which the child makes.
        check(&base(Sockets::default(), false), libc::SYS_fcntl, [1, 1031], Verdict::Allow);
        for filter in [program(), builtin(), walker(), fetcher()] {
            check(&filter, libc::SYS_flock, [1, 2], eperm);
        }
    }

    #[test]
    fn a_rename_makes_no_device_and_no_program_comes_before_others() {
        let (eperm, enosys) = (Verdict::Errno(EPERM), Verdict::Errno(ENOSYS));
        // RENAME_NOREPLACE, RENAME_EXCHANGE
        for flags in [0, 1, 2] {
            check(&writer(), libc::SYS_renameat2, [0, 0, 0, 0, flags], Verdict::Allow);
        }
        for flags in [4, 5, 6, 7] {
            check(&writer(), libc::SYS_renameat2, [0, 0, 0, 0, flags], eperm);
        }
        for call in [libc::SYS_setpriority, libc::SYS_sched_setscheduler] {
            check(&base(Sockets::default(), false), call, [0; 3], Verdict::Allow);
            for filter in [program(), writer(), builtin(), walker(), fetcher()] {
                check(&filter, call, [0; 3], eperm);
            }
        }
        for call in [libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_ioprio_set] {
            check(&program(), call, [0; 3], enosys);
            check(&builtin(), call, [0; 3], eperm);
        }
    }

    #[test]
    fn the_base_knows_unix_sockets_only_where_it_is_told() {
        let eperm = Verdict::Errno(EPERM);
        for base in [base(Sockets::default(), false), base(UNIX, false)] {
            check(&base, libc::SYS_clone, [0x2000_0000, 0], Verdict::Allow);
            check(&base, libc::SYS_unshare, [0x1000_0000, 0], Verdict::Allow);
            check(&base, libc::SYS_unshare, [0x4000_0000, 0], eperm);
            check(&base, libc::SYS_bind, [0; 2], eperm);
            check(&base, libc::SYS_socket, [2, 1], eperm);
        }
        check(&base(Sockets::default(), false), libc::SYS_socket, [1, 1], eperm);
        check(&base(Sockets::default(), false), libc::SYS_connect, [1, 1], eperm);
        check(&base(UNIX, false), libc::SYS_socket, [1, 1], Verdict::Allow);
        check(&base(UNIX, false), libc::SYS_connect, [7, 1], Verdict::Allow);
    }

    #[test]
    fn nothing_is_emptied_that_is_not_written() {
        let (eperm, enosys) = (Verdict::Errno(EPERM), Verdict::Errno(ENOSYS));
        for filter in [program(), writer()] {
            for (flags, verdict) in [
                (libc::O_RDONLY, Verdict::Allow),
                (libc::O_RDONLY | libc::O_TRUNC, eperm),
                (libc::O_RDONLY | libc::O_TRUNC | libc::O_CREAT, eperm),
                (libc::O_WRONLY | libc::O_TRUNC | libc::O_CREAT, Verdict::Allow),
                (libc::O_RDWR | libc::O_TRUNC, Verdict::Allow),
                (libc::O_WRONLY, Verdict::Allow),
            ] {
                let flags = flags.unsigned_abs();
                check(&filter, libc::SYS_openat, [0, 0, flags, 0o644], verdict);
                if cfg!(target_arch = "x86_64") {
                    check(&filter, libc::SYS_open, [0, flags, 0o644, 0], verdict);
                }
            }
        }
        check(&program(), libc::SYS_openat2, [0; 2], enosys);
    }

    #[test]
    fn a_proc_is_mounted_by_the_base_alone_and_nothing_else_is() {
        let (eperm, enosys) = (Verdict::Errno(EPERM), Verdict::Errno(ENOSYS));
        let flags = [libc::MS_RDONLY, libc::MS_NOSUID, libc::MS_NODEV, libc::MS_NOEXEC];
        let flags = flags.into_iter().fold(0, |all, flag| all | u32::try_from(flag).expect("32 bits"));
        let own = base(Sockets::default(), true);
        check(&own, libc::SYS_mount, [1, 2, 3, flags], Verdict::Allow);
        check(&base(Sockets::default(), false), libc::SYS_mount, [1, 2, 3, flags], eperm);
        for other in [
            0,
            flags & !u32::try_from(libc::MS_RDONLY).expect("32 bits"),
            flags | u32::try_from(libc::MS_REMOUNT).expect("32 bits"),
            flags | u32::try_from(libc::MS_BIND).expect("32 bits"),
            flags | u32::try_from(libc::MS_MOVE).expect("32 bits"),
            u32::try_from(libc::MS_SHARED).expect("32 bits"),
        ] {
            check(&own, libc::SYS_mount, [1, 2, 3, other], eperm);
        }
        // Every last filter, whatever its program does.
        let mut last = vec![builtin(), walker(), fetcher()];
        for bits in 0..8 {
            let [writes, connects, ignores_modes] = [1, 2, 4].map(|bit| bits & bit != 0);
            last.push(of_program(Does { writes, connects, ignores_modes }));
        }
        for filter in &last {
            check(filter, libc::SYS_mount, [1, 2, 3, flags], eperm);
        }
        for filter in last.iter().chain([&own]) {
            for call in [
                libc::SYS_umount2,
                libc::SYS_move_mount,
                libc::SYS_open_tree,
                libc::SYS_mount_setattr,
                libc::SYS_fsopen,
                libc::SYS_fsmount,
                libc::SYS_pivot_root,
                libc::SYS_chroot,
                libc::SYS_setns,
            ] {
                check(filter, call, [0; 4], eperm);
            }
            let newer = run(filter, ARCH, u32::try_from(libc::SYS_fsconfig).expect("a number"), [0; 4]);
            assert!(newer == eperm.code() || newer == enosys.code(), "fsconfig: {newer:#x}");
        }
    }

    #[test]
    fn foreign_calls_kill() {
        for filter in [
            base(Sockets::default(), false),
            base(UNIX, false),
            builtin(),
            walker(),
            program(),
            writer(),
            front(),
        ] {
            assert_eq!(run(&filter, 0x4000_0003, 11, [0_u64; 2]), Verdict::Kill.code());
            if cfg!(target_arch = "x86_64") {
                assert_eq!(run(&filter, ARCH, 0x4000_0000, [0; 2]), Verdict::Kill.code());
            }
        }
    }
}
