//! The front's filters: one that is in force from its lock on, and one more once its own sockets
//! are open.
//!
//! Both list what is refused: the front runs a runtime, SQLite and a C library that resolves names,
//! and together these use a long list of calls. The second filter also refuses every call that is
//! newer than its list.

use crate::launcher::confine::seccomp::compile::{
    Condition, FilterAction, SocketKind, Test, compile, compile_table,
};
use crate::launcher::confine::seccomp::filters::{
    IOCTLS, OPENING, ioctl_condition, no_clone3, no_openat2, opening, own_limits,
};
use libc::{ENOSYS, EPERM};
use seccompiler::BpfProgram;

/// Local sockets that a front makes while it serves, in addition to those of the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dials {
    /// None: the supervisor hands over each launcher, or there is only one.
    Nothing,
    /// Connections to a socket at which every connection is a launcher.
    Launchers,
}

/// Refuses starting processes, and calls that reach into other processes or the kernel; allows the
/// rest.
pub(crate) fn front() -> BpfProgram {
    let thread = condition(libc::SYS_clone, 0, Test::AllBits(libc::CLONE_THREAD.unsigned_abs()));
    let refused = [NEVER, NEVER_LEGACY].concat();
    compile(&[], &refused, &[thread, no_clone3()], FilterAction::Allow)
}

/// The additional filter of the front with pid `pid` once its own sockets are open. The front opens
/// no further listener. It makes none of the requests that Landlock does not cover, about other
/// processes or about files outside `data/`: signals, limits and priorities, modes, owners, times
/// and attributes, watches, and memory and messages that are shared by a number. Its new sockets
/// are TCP and UDP only, and with `dials` also those that connect to a launcher.
pub(crate) fn serving(dials: Dials, pid: u32) -> BpfProgram {
    let refused = [SERVING, SERVING_LEGACY].concat();
    let refused = refused.iter().map(|call| (*call, FilterAction::Errno(EPERM)));
    let newer = NEWER.map(|call| (call, FilterAction::Errno(ENOSYS)));
    let table: Vec<(i64, FilterAction)> = refused.chain(newer).collect();
    let sockets = match dials {
        Dials::Nothing => INTERNET,
        Dials::Launchers => INTERNET_AND_LAUNCHERS,
    };
    let mut conditions = vec![
        condition(libc::SYS_socket, 0, Test::Kind(sockets)),
        condition(libc::SYS_socketpair, 0, Test::Kind(PAIRS)),
        condition(libc::SYS_fcntl, 1, Test::OneOf(FCNTLS)),
        condition(libc::SYS_prctl, 0, Test::OneOf(PRCTLS)),
        // A process that aborts signals its own thread.
        condition(libc::SYS_kill, 0, Test::Is(pid)),
        condition(libc::SYS_tgkill, 0, Test::Is(pid)),
        ioctl_condition(IOCTLS),
        own_limits(),
        no_openat2(),
    ];
    // Landlock does not cover truncation before its ABI 3.
    conditions.extend(OPENING.iter().map(|(call, flags)| opening(*call, *flags, None)));
    compile_table(&table, &conditions, FilterAction::Allow)
}

fn condition(call: i64, argument: u32, test: Test) -> Condition {
    Condition { call, argument, test, otherwise: FilterAction::Errno(EPERM) }
}

/// For outbound connections and name lookups. UDP is still sent from ephemeral ports.
const INTERNET: &[SocketKind] = &[internet(libc::AF_INET), internet(libc::AF_INET6)];
/// The same and launchers at a socket: hardly anything else on a host listens on this type.
const INTERNET_AND_LAUNCHERS: &[SocketKind] =
    &[internet(libc::AF_INET), internet(libc::AF_INET6), local(&[libc::SOCK_SEQPACKET])];
/// Wakes the runtime for signals. A datagram socket could send to any other socket.
const PAIRS: &[SocketKind] = &[local(&[libc::SOCK_STREAM])];

const fn internet(family: i32) -> SocketKind {
    SocketKind {
        family,
        types: &[libc::SOCK_STREAM, libc::SOCK_DGRAM],
        protocols: &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP],
    }
}

const fn local(types: &'static [i32]) -> SocketKind {
    SocketKind { family: libc::AF_UNIX, types, protocols: &[0] }
}

/// F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK,
/// F_OFD_SETLK, F_OFD_SETLKW, F_DUPFD_CLOEXEC: no owner to signal, no lease, no watch.
const FCNTLS: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030];
/// PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_GET_AUXV,
/// PR_SET_VMA.
const PRCTLS: &[u32] = &[3, 15, 16, 23, 39, 0x4155_5856, 0x5356_4d41];

/// Numbers after the newest call that is known here: lists of mounts and modules, attributes of
/// files, namespaces. From 424 on a number means the same on every architecture.
const NEWER: std::ops::Range<i64> = 457..1_024;

/// Missing from the `libc` crate on some architectures; the same number on all.
const SYS_FCHMODAT2: i64 = 452;
const SYS_PROCESS_MRELEASE: i64 = 448;
const SYS_SET_MEMPOLICY_HOME_NODE: i64 = 450;
const SYS_QUOTACTL_FD: i64 = 443;

/// Calls that a serving front never makes.
const SERVING: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_get_robust_list,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
    libc::SYS_io_getevents,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_ioprio_set,
    libc::SYS_kcmp,
    libc::SYS_listen,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_mbind,
    libc::SYS_memfd_secret,
    libc::SYS_migrate_pages,
    libc::SYS_mknodat,
    libc::SYS_move_pages,
    libc::SYS_mq_getsetattr,
    libc::SYS_mq_notify,
    libc::SYS_mq_open,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_removexattr,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_set_mempolicy,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setpgid,
    libc::SYS_setpriority,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_setxattr,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_shmget,
    libc::SYS_syslog,
    libc::SYS_tkill,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_vhangup,
    SYS_FCHMODAT2,
    SYS_PROCESS_MRELEASE,
    SYS_SET_MEMPOLICY_HOME_NODE,
    SYS_QUOTACTL_FD,
];

/// Older spellings of the same.
#[cfg(target_arch = "x86_64")]
const SERVING_LEGACY: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_lchown,
    libc::SYS_mknod,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const SERVING_LEGACY: &[i64] = &[];

/// Calls that no front ever makes.
const NEVER: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_memfd_create,
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
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

#[cfg(target_arch = "x86_64")]
const NEVER_LEGACY: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_LEGACY: &[i64] = &[libc::SYS_kexec_file_load];

#[cfg(test)]
mod tests {
    use super::{Dials, NEWER, SERVING, SERVING_LEGACY, serving};
    use crate::launcher::confine::seccomp::compile::FilterAction;
    use crate::launcher::confine::seccomp::tests::check;
    use libc::{ENOSYS, ENOTTY, EPERM};

    const EPERMITTED: FilterAction = FilterAction::Errno(EPERM);

    #[test]
    fn open_sockets_keep_working_and_nothing_new_begins() {
        for dials in [Dials::Nothing, Dials::Launchers] {
            let filter = serving(dials, 7);
            for call in SERVING.iter().chain(SERVING_LEGACY) {
                check(&filter, *call, [0; 4], EPERMITTED);
            }
            for call in [NEWER.start, 463, 469, NEWER.end - 1] {
                check(&filter, call, [0; 4], FilterAction::Errno(ENOSYS));
            }
            for call in [libc::SYS_connect, libc::SYS_accept4, libc::SYS_sendmsg, libc::SYS_flock] {
                check(&filter, call, [0; 4], FilterAction::Allow);
            }
            for (pid, verdict) in
                [(7, FilterAction::Allow), (0, EPERMITTED), (8, EPERMITTED), (u32::MAX, EPERMITTED)]
            {
                check(&filter, libc::SYS_tgkill, [pid, 7, 6], verdict);
                check(&filter, libc::SYS_kill, [pid, 6], verdict);
            }
            check(&filter, libc::SYS_prlimit64, [0; 4], FilterAction::Allow);
            check(&filter, libc::SYS_prlimit64, [7, 0, 0, 0], EPERMITTED);
            check(&filter, libc::SYS_prctl, [4, 1], EPERMITTED);
            check(&filter, libc::SYS_prctl, [15, 0], FilterAction::Allow);
            check(&filter, libc::SYS_ioctl, [3, 0x4008_6602], FilterAction::Errno(ENOTTY));
            check(&filter, libc::SYS_fcntl, [3, 6], FilterAction::Allow);
            for owner in [8, 10, 15, 1024, 1026, 1031] {
                check(&filter, libc::SYS_fcntl, [3, owner], EPERMITTED);
            }
            check(&filter, libc::SYS_openat, [0, 0, 0x200, 0], EPERMITTED);
            check(&filter, libc::SYS_openat, [0, 0, 0x241, 0o600], FilterAction::Allow);
        }
    }

    #[test]
    fn sockets_are_of_the_internet_and_of_launchers() {
        let (nothing, launchers) = (serving(Dials::Nothing, 7), serving(Dials::Launchers, 7));
        for filter in [&nothing, &launchers] {
            for family in [2, 10] {
                for kind in [1, 2, 0x8_0801, 0x8_0802] {
                    for (protocol, verdict) in [
                        (0, FilterAction::Allow),
                        (6, FilterAction::Allow),
                        (17, FilterAction::Allow),
                        (1, EPERMITTED),
                        (262, EPERMITTED),
                    ] {
                        check(filter, libc::SYS_socket, [family, kind, protocol], verdict);
                    }
                }
                for kind in [3, 5, 10] {
                    check(filter, libc::SYS_socket, [family, kind, 0], EPERMITTED);
                }
            }
            for family in [0, 3, 16, 17, 38, 40, 44] {
                check(filter, libc::SYS_socket, [family, 1, 0], EPERMITTED);
            }
            for kind in [1, 2] {
                check(filter, libc::SYS_socket, [1, kind, 0], EPERMITTED);
            }
            for (kind, verdict) in
                [(1, FilterAction::Allow), (0x8_0801, FilterAction::Allow), (2, EPERMITTED), (5, EPERMITTED)]
            {
                check(filter, libc::SYS_socketpair, [1, kind, 0], verdict);
            }
        }
        check(&nothing, libc::SYS_socket, [1, 0x8_0005, 0], EPERMITTED);
        check(&launchers, libc::SYS_socket, [1, 0x8_0005, 0], FilterAction::Allow);
    }
}
