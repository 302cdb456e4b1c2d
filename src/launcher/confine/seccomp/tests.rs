//! What each filter answers, when run as the kernel runs it.

use super::compile::{ARCH, FilterAction, KEPT_LIMIT, Sockets};
use super::filters::{CREATING_LEGACY, Does, FOLDERS, base, builtin, fetcher, of_program, walker};
use crate::sandbox::filter::front;
use libc::{ENOSYS, EPERM};
use seccompiler::BpfProgram;

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

pub(crate) fn check<const N: usize>(
    filter: &BpfProgram,
    call: i64,
    arguments: [u32; N],
    expect: FilterAction,
) {
    check_wide(filter, call, arguments.map(u64::from), expect);
}

fn check_wide<const N: usize>(filter: &BpfProgram, call: i64, arguments: [u64; N], expect: FilterAction) {
    let call = u32::try_from(call).expect("a number");
    assert_eq!(run(filter, ARCH, call, arguments), expect.code(), "call {call} {arguments:x?}");
}

#[test]
fn connecting_programs_have_only_tcp_and_ignored_modes_change_nothing() {
    let eperm = FilterAction::Errno(EPERM);
    let connects = Does { connects: true, ..Does::default() };
    for filter in [base(TCP, false), of_program(connects), of_program(Does { writes: true, ..connects })] {
        check(&filter, libc::SYS_connect, [0; 3], FilterAction::Allow);
        for family in [2, 10] {
            check(&filter, libc::SYS_socket, [family, 0x8_0801, 6], FilterAction::Allow);
            check(&filter, libc::SYS_socket, [family, 1, 0], FilterAction::Allow);
            // Datagram, raw and SCTP sockets.
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
        check(&of_program(connects), call, flags.map(|word| word & 0xffff), FilterAction::Allow);
    }
    check(&of_program(connects), libc::SYS_bind, [0; 3], eperm);
    check(&of_program(connects), libc::SYS_listen, [0; 3], eperm);
    check(&of_program(connects), libc::SYS_accept4, [0; 3], eperm);
    check(&base(TCP, false), libc::SYS_ioctl, [1, 0x8914], FilterAction::Allow);
    check(&of_program(connects), libc::SYS_ioctl, [1, 0x8914], FilterAction::Errno(libc::ENOTTY));
    let ignores = of_program(Does { writes: true, ignores_modes: true, ..Does::default() });
    check(&ignores, libc::SYS_fchmodat, [0; 2], FilterAction::Errno(0));
    check(&ignores, libc::SYS_fchownat, [0; 2], eperm);
}

#[test]
fn last_filters_allow_no_call_with_hidden_flags() {
    check(&base(Sockets::default(), false), libc::SYS_clone3, [0; 2], FilterAction::Allow);
    let answers = [(program(), ENOSYS), (writer(), ENOSYS), (builtin(), EPERM), (walker(), EPERM)];
    for (filter, errno) in answers {
        check(&filter, libc::SYS_clone3, [0; 2], FilterAction::Errno(errno));
    }
}

#[test]
fn no_folder_is_made_that_its_owner_cannot_read() {
    let eperm = FilterAction::Errno(EPERM);
    for mode in [0, 0o300, 0o477, 0o677] {
        for (call, argument) in FOLDERS {
            let mut arguments = [0; 4];
            arguments[*argument as usize] = mode;
            check(&writer(), *call, arguments, eperm);
        }
        check(&writer(), libc::SYS_umask, [0o777 & !mode], eperm);
    }
    check(&writer(), libc::SYS_umask, [0o277], FilterAction::Allow);
}

#[test]
fn lists_answer_as_they_say() {
    let eperm = FilterAction::Errno(EPERM);
    let enosys = FilterAction::Errno(ENOSYS);
    for filter in [base(Sockets::default(), false), program(), writer()] {
        check(&filter, libc::SYS_read, [0; 2], FilterAction::Allow);
        check(&filter, libc::SYS_execveat, [0; 2], FilterAction::Allow);
        check(&filter, libc::SYS_socket, [0; 2], eperm);
        check(&filter, libc::SYS_ptrace, [0; 2], eperm);
        check(&filter, libc::SYS_mount, [0; 2], eperm);
        check(&filter, 4000, [0; 2], enosys);
        check(&filter, libc::SYS_ioctl, [1, 0x5401], FilterAction::Allow);
        check(&filter, libc::SYS_ioctl, [1, 0x5412], FilterAction::Errno(libc::ENOTTY));
        check(&filter, libc::SYS_fcntl, [1, 8], eperm);
        check(&filter, libc::SYS_fcntl, [1, 3], FilterAction::Allow);
    }
    check(&program(), libc::SYS_unshare, [0x1000_0000, 0], eperm);
    check(&program(), libc::SYS_clone, [0x2000_0000, 0], eperm);
    check(&program(), libc::SYS_clone, [0x11, 0], FilterAction::Allow);
    check(&program(), libc::SYS_sendmsg, [0; 2], eperm);
    check(&program(), libc::SYS_flock, [3, 2], eperm);
    check(&writer(), libc::SYS_flock, [3, 2], FilterAction::Allow);
    check(&program(), libc::SYS_seccomp, [0; 2], eperm);
    check(&program(), libc::SYS_prctl, [15, 0], FilterAction::Allow);
    check(&program(), libc::SYS_prctl, [4, 0], eperm);
    for call in [libc::SYS_mkdirat, libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_symlinkat] {
        check(&writer(), call, [0, 0, 0o700, 0, 0], FilterAction::Allow);
        check(&program(), call, [0, 0, 0o700, 0, 0], eperm);
        check(&builtin(), call, [0, 0, 0o700, 0, 0], eperm);
    }
    for call in
        [libc::SYS_truncate, libc::SYS_fchmodat, libc::SYS_fchownat, libc::SYS_linkat, libc::SYS_utimensat]
    {
        check(&writer(), call, [0; 2], eperm);
    }
    for mode in [0o4755, 0o2755, 0o6000] {
        check(&writer(), libc::SYS_openat, [0, 0, 0x41, mode], eperm);
        for (call, argument) in CREATING_LEGACY {
            let mut arguments = [0; 4];
            arguments[*argument as usize] = mode;
            check(&writer(), *call, arguments, eperm);
        }
    }
    check(&writer(), libc::SYS_openat, [0, 0, 0x41, 0o1777], FilterAction::Allow);
    check(&writer(), libc::SYS_openat2, [0; 2], enosys);
    check(&builtin(), libc::SYS_pread64, [0; 2], FilterAction::Allow);
    check(&walker(), libc::SYS_openat, [3, 0, 0x80000, 0], FilterAction::Allow);
    for flags in [0x1, 0x2, 0x40, 0x200, 0x400, 0x41_0002] {
        check(&walker(), libc::SYS_openat, [3, 0, flags, 0], eperm);
    }
    for call in [libc::SYS_openat2, libc::SYS_execve, libc::SYS_clone, libc::SYS_unlinkat, libc::SYS_socket] {
        check(&walker(), call, [0; 4], eperm);
    }
    for call in [libc::SYS_openat, libc::SYS_clone, libc::SYS_execve, libc::SYS_sendmsg, libc::SYS_prctl] {
        check(&builtin(), call, [0; 2], eperm);
    }
    check(&front(), libc::SYS_openat, [0; 2], FilterAction::Allow);
    check(&front(), libc::SYS_socket, [0; 2], FilterAction::Allow);
    check(&front(), libc::SYS_clone, [0x3d_0f00, 0], FilterAction::Allow);
    check(&front(), libc::SYS_clone, [0x11, 0], eperm);
    check(&front(), libc::SYS_clone3, [0; 2], enosys);
    check(&front(), libc::SYS_execve, [0; 2], eperm);
}

#[test]
fn no_process_below_the_launcher_sets_the_core_limit() {
    const POINTER: u64 = 0x7ffe_0000_1000;
    let (eperm, enosys) = (FilterAction::Errno(EPERM), FilterAction::Errno(ENOSYS));
    let core = u64::from(KEPT_LIMIT);
    for filter in [base(Sockets::default(), true), program(), writer()] {
        for new in [POINTER, 0x1000, 1 << 32, 1 << 63] {
            check_wide(&filter, libc::SYS_prlimit64, [0, core, new, 0], eperm);
            // The kernel uses the low half of the resource.
            check_wide(&filter, libc::SYS_prlimit64, [0, core | 1 << 32, new, 0], eperm);
        }
        check_wide(&filter, libc::SYS_prlimit64, [0, core, 0, POINTER], FilterAction::Allow);
        for resource in (0..16).filter(|resource| *resource != core) {
            check_wide(&filter, libc::SYS_prlimit64, [0, resource, POINTER, 0], FilterAction::Allow);
        }
        // No other process's limits, whatever the resource.
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
    let eperm = FilterAction::Errno(EPERM);
    // F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
    for command in [6, 7, 37, 38] {
        check(&program(), libc::SYS_fcntl, [1, command], eperm);
        check(&writer(), libc::SYS_fcntl, [1, command], FilterAction::Allow);
    }
    // F_NOTIFY, F_SETPIPE_SZ, F_ADD_SEALS, F_SETDELEG, and commands that are not known yet
    for command in [1026, 1031, 1033, 1040, 39, 1041, 4000, u32::MAX] {
        for filter in [program(), writer()] {
            check(&filter, libc::SYS_fcntl, [1, command], eperm);
        }
    }
    // F_DUPFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_OFD_GETLK, F_DUPFD_CLOEXEC, F_GETPIPE_SZ
    for command in [0, 2, 3, 4, 5, 36, 1030, 1032] {
        for filter in [program(), writer(), base(Sockets::default(), false)] {
            check(&filter, libc::SYS_fcntl, [1, command], FilterAction::Allow);
        }
    }
    // The arguments on standard input may take a larger pipe, which the child makes.
    check(&base(Sockets::default(), false), libc::SYS_fcntl, [1, 1031], FilterAction::Allow);
    for filter in [program(), builtin(), walker(), fetcher()] {
        check(&filter, libc::SYS_flock, [1, 2], eperm);
    }
}

#[test]
fn a_rename_makes_no_device_and_no_program_comes_before_others() {
    let (eperm, enosys) = (FilterAction::Errno(EPERM), FilterAction::Errno(ENOSYS));
    // RENAME_NOREPLACE, RENAME_EXCHANGE
    for flags in [0, 1, 2] {
        check(&writer(), libc::SYS_renameat2, [0, 0, 0, 0, flags], FilterAction::Allow);
    }
    for flags in [4, 5, 6, 7] {
        check(&writer(), libc::SYS_renameat2, [0, 0, 0, 0, flags], eperm);
    }
    for call in [libc::SYS_setpriority, libc::SYS_sched_setscheduler] {
        check(&base(Sockets::default(), false), call, [0; 3], FilterAction::Allow);
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
fn the_base_allows_unix_sockets_only_on_request() {
    let eperm = FilterAction::Errno(EPERM);
    for base in [base(Sockets::default(), false), base(UNIX, false)] {
        check(&base, libc::SYS_clone, [0x2000_0000, 0], FilterAction::Allow);
        check(&base, libc::SYS_unshare, [0x1000_0000, 0], FilterAction::Allow);
        check(&base, libc::SYS_unshare, [0x4000_0000, 0], eperm);
        check(&base, libc::SYS_bind, [0; 2], eperm);
        check(&base, libc::SYS_socket, [2, 1], eperm);
    }
    check(&base(Sockets::default(), false), libc::SYS_socket, [1, 1], eperm);
    check(&base(Sockets::default(), false), libc::SYS_connect, [1, 1], eperm);
    check(&base(UNIX, false), libc::SYS_socket, [1, 1], FilterAction::Allow);
    check(&base(UNIX, false), libc::SYS_connect, [7, 1], FilterAction::Allow);
}

#[test]
fn nothing_is_emptied_that_is_not_written() {
    let (eperm, enosys) = (FilterAction::Errno(EPERM), FilterAction::Errno(ENOSYS));
    for filter in [program(), writer()] {
        for (flags, verdict) in [
            (libc::O_RDONLY, FilterAction::Allow),
            (libc::O_RDONLY | libc::O_TRUNC, eperm),
            (libc::O_RDONLY | libc::O_TRUNC | libc::O_CREAT, eperm),
            (libc::O_WRONLY | libc::O_TRUNC | libc::O_CREAT, FilterAction::Allow),
            (libc::O_RDWR | libc::O_TRUNC, FilterAction::Allow),
            (libc::O_WRONLY, FilterAction::Allow),
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
    let (eperm, enosys) = (FilterAction::Errno(EPERM), FilterAction::Errno(ENOSYS));
    let flags = [libc::MS_RDONLY, libc::MS_NOSUID, libc::MS_NODEV, libc::MS_NOEXEC];
    let flags = flags.into_iter().fold(0, |all, flag| all | u32::try_from(flag).expect("32 bits"));
    let own = base(Sockets::default(), true);
    check(&own, libc::SYS_mount, [1, 2, 3, flags], FilterAction::Allow);
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
        assert_eq!(run(&filter, 0x4000_0003, 11, [0_u64; 2]), FilterAction::Kill.code());
        if cfg!(target_arch = "x86_64") {
            assert_eq!(run(&filter, ARCH, 0x4000_0000, [0; 2]), FilterAction::Kill.code());
        }
    }
}
