/* Calls that reach deep into the kernel, and tricks to get them past a filter. */
#include "taken.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <grp.h>

static long cloned(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    return pid;
}
static int io_uring(void) {
    char parameters[120] = {0};
    STOPPED(syscall(425, 1, parameters));
    STOPPED(syscall(426, -1, 0, 0, 0, 0, 0));
    STOPPED(syscall(427, -1, 0, 0, 0));
    return errno;
}
static int bpf(void) { STOPPED(syscall(SYS_bpf, 9999, 0, 0)); return errno; }
static int perf(void) { STOPPED(syscall(SYS_perf_event_open, 0, 0, -1, -1, 0)); return errno; }
static int page_faults(void) { STOPPED(syscall(SYS_userfaultfd, 0)); return errno; }
static int keyrings(void) {
    STOPPED(syscall(SYS_keyctl, 0, -3, 0));
    STOPPED(syscall(SYS_add_key, "user", "par", "x", 1, -1));
    STOPPED(syscall(SYS_request_key, "user", "par", 0, 0));
    return errno;
}
static int memory_program(void) {
    STOPPED(syscall(SYS_memfd_create, "x", 0));
    return errno;
}
static int odd_memory(void) {
    STOPPED(syscall(447, 0)); /* memfd_secret */
    STOPPED(syscall(SYS_pkey_alloc, 0, 0));
    STOPPED(syscall(SYS_personality, 0xffffffff));
#ifdef __x86_64__
    STOPPED(syscall(SYS_modify_ldt, 0, 0, 0));
#endif
    return errno;
}
static int watches(void) {
    STOPPED(syscall(SYS_inotify_init1, 0));
    STOPPED(syscall(SYS_inotify_add_watch, -1, OUTSIDE, 2));
    return errno;
}
static int whole_watches(void) {
    STOPPED(syscall(SYS_fanotify_init, 0, 0));
    STOPPED(syscall(SYS_quotactl, 0, 0, 0, 0));
    STOPPED(syscall(SYS_acct, "/nonexistent"));
    STOPPED(syscall(SYS_swapon, "/nonexistent", 0));
    return errno;
}
/* With harmless arguments: each call must be stopped before they are read. */
static int whole_machine(void) {
    STOPPED(syscall(SYS_reboot, 0, 0, 0, 0));
    STOPPED(syscall(SYS_kexec_load, 0, 0, 0, -1));
    STOPPED(syscall(SYS_init_module, 0, 0, ""));
    STOPPED(syscall(SYS_finit_module, -1, "", 0));
    STOPPED(syscall(SYS_delete_module, "par-nonexistent", 0));
    STOPPED(syscall(SYS_settimeofday, 1, 0));
    STOPPED(syscall(SYS_clock_settime, -1, 0));
    STOPPED(syscall(SYS_sethostname, 0, -1));
    STOPPED(syscall(SYS_syslog, 10, 0, 0));
#ifdef __x86_64__
    STOPPED(syscall(SYS_ioperm, 0, 1, 1));
    STOPPED(syscall(SYS_iopl, 3));
#endif
    return errno;
}
static int other_numbers(void) {
#ifdef __x86_64__
    long got = syscall(0x40000000 + 39);
    return got > 0 ? SUCCEEDED : errno == ENOSYS ? SUCCEEDED : errno;
#else
    return NOT_APPLICABLE;
#endif
}
static int other_machine(void) {
#ifdef __x86_64__
    int got;
    __asm__ volatile("int $0x80" : "=a"(got) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    return SUCCEEDED;
#else
    return NOT_APPLICABLE;
#endif
}
/* The kernel looks at the low half of these arguments; so must a filter. */
static int high_bits(void) {
    const unsigned long high = 1UL << 32;
    HELD(syscall(SYS_fcntl, 1, high | F_SETOWN, getpid()));
    HELD(syscall(SYS_prctl, high | PR_SET_DUMPABLE, 1, 0, 0, 0));
    HELD(cloned(high | CLONE_NEWUSER));
    HELD(syscall(SYS_unshare, high | CLONE_NEWUSER));
    HELD(syscall(SYS_ioctl, 1, high | 0x5412, "x"));
    return errno;
}
static int hidden_flags(void) { STOPPED(syscall(435, 0, 0)); return errno; } /* clone3 */
static int namespaces(void) {
    unsigned long all[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS,
                           CLONE_NEWCGROUP, CLONE_NEWTIME};
    for (int at = 0; at < 8; at++) {
        HELD(unshare(all[at]));
        if (all[at] != CLONE_NEWTIME) HELD(cloned(all[at]));
    }
    return errno;
}
static int enter_namespace(void) {
    STOPPED(setns(open("/proc/self/ns/user", O_RDONLY), 0));
    STOPPED(setns(-1, 0));
    return errno;
}
static int mounts(void) {
    STOPPED(mount("none", OUTSIDE, "par-nonexistent", 0, 0));
    STOPPED(umount2("/nonexistent", 0));
    STOPPED(syscall(428, -1, "", 0x80000000)); /* open_tree */
    STOPPED(syscall(429, -1, "", -1, "", 0));  /* move_mount */
    STOPPED(syscall(430, "par-nonexistent", 0)); /* fsopen */
    STOPPED(syscall(431, -1, 0, 0, 0, 0));     /* fsconfig */
    STOPPED(syscall(432, -1, 0, 0));           /* fsmount */
    STOPPED(syscall(433, -1, "", 0));          /* fspick */
    STOPPED(syscall(442, -1, "", 0, 0, 0));    /* mount_setattr */
    STOPPED(syscall(467, -1, "", 0, 0, 0));    /* open_tree_attr */
    return errno;
}
static int take_away(void) { HELD(umount2(BOX, MNT_DETACH)); return errno; }
static int host_name(void) { HELD(sethostname("par-taken", 9)); return errno; }
static int new_root(void) {
    STOPPED(chroot("/nonexistent"));
    STOPPED(syscall(SYS_pivot_root, "/nonexistent", "/nonexistent"));
    return errno;
}
static int become_root(void) {
    HELD(setresuid(0, 0, 0));
    HELD(setuid(0));
    HELD(setgid(0));
    HELD(setgroups(0, 0));
    HELD(syscall(SYS_setreuid, 0, 0));
    STOPPED(syscall(SYS_setfsuid, 0));
    return errno;
}
static int own_filter(void) {
    unsigned action = 0x7fff0000;
    STOPPED(syscall(SYS_seccomp, 2, 0, &action));
    STOPPED(prctl(PR_SET_SECCOMP, 9, 0));
    return errno;
}
static int unknown(void) { STOPPED(syscall(999)); return errno; }

const struct attempt kernel[] = {
    {"io_uring", io_uring, 'a'}, {"bpf", bpf, 'r'}, {"perf", perf, 'r'}, {"page_faults", page_faults, 'r'},
    {"keyrings", keyrings, 'a'}, {"memory_program", memory_program, 'a'}, {"odd_memory", odd_memory, 'a'},
    {"watches", watches, 'a'}, {"whole_watches", whole_watches, 'r'}, {"whole_machine", whole_machine, 'r'},
    {"other_numbers", other_numbers, 'a'}, {"other_machine", other_machine, '-'}, {"high_bits", high_bits, 'a'},
    {"hidden_flags", hidden_flags, 'a'}, {"namespaces", namespaces, 'r'},
    {"enter_namespace", enter_namespace, 'a'}, {"mounts", mounts, 'r'},
    {"take_away", take_away, '-'}, {"host_name", host_name, '-'}, {"new_root", new_root, 'r'},
    {"become_root", become_root, 'r'}, {"own_filter", own_filter, 'a'}, {"unknown", unknown, '-'}, {0},
};
