//! Compiles a flat table to a filter: a binary search over call numbers.
//!
//! When it loads a filter, the kernel evaluates it for every call number, so a tree loads several
//! times faster than a list. A call of a foreign architecture kills.

use libc::EPERM;
use seccompiler::{BpfProgram, sock_filter};

#[cfg(target_arch = "x86_64")]
pub(crate) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCH: u32 = 0xc000_00b7;

/// Call numbers from here on are the x32 calls of x86-64.
const X32_BIT: u32 = 0x4000_0000;

/// The verdict of a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterAction {
    Allow,
    Errno(i32),
    Kill,
}

impl FilterAction {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// A call that is allowed for some values of an argument. Only the low 32 bits are compared, which
/// is all that the kernel uses for these calls.
pub(crate) struct Condition {
    pub(crate) call: i64,
    pub(crate) argument: u32,
    pub(crate) test: Test,
    pub(crate) otherwise: FilterAction,
}

pub(crate) enum Test {
    OneOf(&'static [u32]),
    NoneOf(&'static [u32]),
    NoBits(u32),
    AllBits(u32),
    /// Flags of an open: a file may be emptied only by opening it for writing, which every Landlock
    /// version covers. If given: the bits that the argument after the flags must not have.
    Open(Option<(u32, u32)>),
    /// Family, type and protocol of a socket.
    Socket(Sockets),
    /// Family, type and protocol of a socket: one of these.
    Kind(&'static [SocketKind]),
    /// This value alone.
    Is(u32),
    /// Process, resource and new value of a limit: only the caller's own limits, and no new value
    /// for [`KEPT_LIMIT`].
    OwnLimits,
}

/// Sockets of one family.
pub(crate) struct SocketKind {
    pub(crate) family: i32,
    pub(crate) types: &'static [i32],
    pub(crate) protocols: &'static [i32],
}

/// Sockets that a launcher lets its children make, each in its own network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sockets {
    /// For programs that make their own connections.
    pub(crate) tcp: bool,
    /// For tools that are connected to a named socket.
    pub(crate) unix: bool,
}

/// The one limit that no process below the launcher may set, not even to a lower value: with
/// RLIMIT_CORE at 1 the kernel does not start the program that `core_pattern` names, and with 0 it
/// does (core(5)).
pub(crate) const KEPT_LIMIT: u32 = 4;

/// Loads `filter` on the calling thread; its children inherit it.
pub(crate) fn load(filter: &BpfProgram) -> Result<(), String> {
    seccompiler::apply_filter(filter).map_err(|e| format!("seccomp: {e}"))
}

/// Loads `filter` on every thread of the process.
pub(crate) fn load_everywhere(filter: &BpfProgram) -> Result<(), String> {
    seccompiler::apply_filter_all_threads(filter).map_err(|e| format!("seccomp: {e}"))
}

pub(crate) fn compile(
    allowed: &[i64],
    refused: &[i64],
    conditions: &[Condition],
    default: FilterAction,
) -> BpfProgram {
    let verdicts = |calls: &[i64], verdict| calls.iter().map(|call| (*call, verdict)).collect::<Vec<_>>();
    let table =
        [verdicts(allowed, FilterAction::Allow), verdicts(refused, FilterAction::Errno(EPERM))].concat();
    compile_table(&table, conditions, default)
}

/// A filter of any verdicts. If the table contains a call twice, the refusal wins.
pub(crate) fn compile_table(
    table: &[(i64, FilterAction)],
    conditions: &[Condition],
    default: FilterAction,
) -> BpfProgram {
    let mut out = head();
    for condition in conditions {
        let body = condition_body(condition);
        // Bodies are a handful of instructions.
        let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
        out.push(jump_if_equal(number(condition.call), 0, skip));
        out.extend(body);
    }
    let mut table: Vec<(u32, FilterAction)> =
        table.iter().map(|(call, verdict)| (number(*call), *verdict)).collect();
    // A refusal sorts first, and the first entry stays.
    table.sort_by_key(|(call, verdict)| (*call, *verdict == FilterAction::Allow));
    table.dedup_by_key(|(call, _)| *call);
    out.extend(search(&steps(&table, default)));
    out
}

/// Every call's verdict as steps: each applies from its number on, until the next step.
fn steps(table: &[(u32, FilterAction)], default: FilterAction) -> Vec<(u32, FilterAction)> {
    let mut steps = vec![(0, default)];
    for (call, verdict) in table {
        steps.retain(|(from, _)| from != call);
        steps.push((*call, *verdict));
        steps.push((*call + 1, default));
    }
    steps.dedup_by_key(|(_, verdict)| *verdict);
    steps
}

fn search(steps: &[(u32, FilterAction)]) -> Vec<sock_filter> {
    if let [] | [_] = steps {
        return vec![answer(steps.first().map_or(FilterAction::Kill, |(_, verdict)| *verdict))];
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
        vec![load_word(ARCH_AT), jump_if_equal(ARCH, 1, 0), answer(FilterAction::Kill), load_word(NUMBER_AT)];
    if cfg!(target_arch = "x86_64") {
        out.push(instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT));
        out.push(answer(FilterAction::Kill));
    }
    out
}

fn condition_body(condition: &Condition) -> Vec<sock_filter> {
    let mut out = vec![load_word(16 + 8 * condition.argument)];
    let rest = match condition.test {
        Test::OneOf(values) => {
            out.extend(listed(values, FilterAction::Allow));
            condition.otherwise
        }
        Test::NoneOf(values) => {
            out.extend(listed(values, condition.otherwise));
            FilterAction::Allow
        }
        Test::NoBits(bits) => {
            out.push(instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits));
            out.push(answer(condition.otherwise));
            FilterAction::Allow
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
            FilterAction::Allow
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
            out.extend(listed(&[value], FilterAction::Allow));
            condition.otherwise
        }
        Test::OwnLimits => {
            const NEW_VALUE: u32 = 2;
            out.extend([jump_if_equal(0, 1, 0), answer(condition.otherwise)]);
            out.push(load_word(16 + 8));
            out.extend([jump_if_equal(KEPT_LIMIT, 1, 0), answer(FilterAction::Allow)]);
            // A pointer, so both halves are checked: reading the limit passes none.
            for half in [0, 4] {
                out.push(load_word(16 + 8 * NEW_VALUE + half));
                out.extend([jump_if_equal(0, 1, 0), answer(condition.otherwise)]);
            }
            FilterAction::Allow
        }
        Test::AllBits(bits) => {
            out.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits));
            out.extend(listed(&[bits], FilterAction::Allow));
            condition.otherwise
        }
    };
    out.push(answer(rest));
    out
}

/// Answers if the family, which is in the accumulator, is that of `kind`; otherwise leaves it
/// there.
fn kind_body(kind: &SocketKind, otherwise: FilterAction) -> Vec<sock_filter> {
    let mut body = vec![load_word(16 + 8)];
    // The type argument also carries SOCK_CLOEXEC and SOCK_NONBLOCK.
    let bits = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).unsigned_abs();
    body.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits));
    // Each jumps over the remaining comparisons and the answer after them. There are a handful.
    let over = |at: usize| u8::try_from(kind.types.len() - at).unwrap_or(u8::MAX);
    let types = kind.types.iter().enumerate();
    body.extend(types.map(|(at, kind)| jump_if_equal(kind.unsigned_abs(), over(at), 0)));
    body.push(answer(otherwise));
    body.push(load_word(16 + 16));
    let protocols = kind.protocols.iter();
    body.extend(
        protocols
            .flat_map(|protocol| [jump_if_equal(protocol.unsigned_abs(), 0, 1), answer(FilterAction::Allow)]),
    );
    body.push(answer(otherwise));
    let skip = u8::try_from(body.len()).unwrap_or(u8::MAX);
    [vec![jump_if_equal(kind.family.unsigned_abs(), 0, skip)], body].concat()
}

/// The family is loaded. A socket that reaches the end of the body is refused.
fn socket_body(Sockets { tcp, unix }: Sockets, otherwise: FilterAction) -> Vec<sock_filter> {
    let [inet, inet6, local] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX].map(i32::unsigned_abs);
    let mut out = Vec::new();
    if unix {
        out.extend([jump_if_equal(local, 0, 1), answer(FilterAction::Allow)]);
    }
    if tcp {
        out.extend([jump_if_equal(inet, 2, 0), jump_if_equal(inet6, 1, 0), answer(otherwise)]);
        out.push(load_word(16 + 8));
        // The type argument also carries SOCK_CLOEXEC and SOCK_NONBLOCK.
        let kind = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).unsigned_abs();
        out.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, kind));
        out.extend([jump_if_equal(libc::SOCK_STREAM.unsigned_abs(), 1, 0), answer(otherwise)]);
        out.push(load_word(16 + 16));
        out.extend(listed(&[0, libc::IPPROTO_TCP.unsigned_abs()], FilterAction::Allow));
    }
    out
}

fn listed(values: &[u32], verdict: FilterAction) -> Vec<sock_filter> {
    values.iter().flat_map(|value| [jump_if_equal(*value, 0, 1), answer(verdict)]).collect()
}

fn load_word(at: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

fn jump_if_equal(value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value)
}

fn answer(verdict: FilterAction) -> sock_filter {
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
