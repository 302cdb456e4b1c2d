/* Other processes, and what this one was given by those that started it. */
#include "taken.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* Opens `below` of each process outside the call. */
static int open_below(const char *below, int flags) {
    int whom[] = {1, 2, stranger};
    char name[128];
    for (int at = 0; at < 3; at++) {
        if (!whom[at]) continue;
        snprintf(name, sizeof name, "/proc/%d/%s", whom[at], below);
        HELD(open(name, flags));
    }
    return errno;
}
static int proc_root(void) {
    char to[64], name[64];
    open_below("root/etc/passwd", O_RDONLY);
    open_below("cwd", O_RDONLY | O_DIRECTORY);
    snprintf(name, sizeof name, "/proc/%d/exe", stranger);
    HELD(readlink(name, to, sizeof to));
    return errno;
}
static int proc_memory(void) {
    const char *names[] = {"environ", "mem", "maps", "fd", "stack", "syscall"};
    for (int at = 0; at < 6; at++) open_below(names[at], O_RDONLY);
    return errno;
}
static int proc_words(void) {
    open_below("cmdline", O_RDONLY);
    return open_below("status", O_RDONLY);
}
static int trace(void) {
    HELD(ptrace(PTRACE_SEIZE, stranger, 0, 0));
    return errno;
}
static int trace_init(void) {
    HELD(ptrace(PTRACE_ATTACH, getppid(), 0, 0));
    HELD(ptrace(PTRACE_TRACEME, 0, 0, 0));
    return errno;
}
static int peek(void) {
    char to[8];
    struct iovec here = {to, 1}, there = {to, 1};
    STOPPED(process_vm_readv(stranger, &here, 1, &there, 1, 0));
    STOPPED(process_vm_writev(stranger, &here, 1, &there, 1, 0));
    return errno;
}
static int steal_descriptor(void) {
    int fd = syscall(SYS_pidfd_open, stranger, 0);
    HELD(fd);
    HELD(syscall(438, fd, 0, 0)); /* pidfd_getfd */
    return errno;
}
static int signal_stranger(void) {
    HELD(kill(stranger, 0));
    HELD(syscall(SYS_tgkill, stranger, stranger, 0));
    HELD(syscall(SYS_tkill, stranger, 0));
    return errno;
}
/* Its own init, and everybody that it can reach: it goes on, and so does the call. Not where strangers are in
 * reach: there this would end them. */
static int signal_all(void) {
    if (!stranger || kill(stranger, 0) == 0) return NOT_APPLICABLE;
    kill(-1, SIGTERM);
    kill(1, SIGKILL);
    for (int turn = 0; turn < 1000; turn++) sched_yield();
    return kill(1, 0) == 0 ? EPERM : SUCCEEDED;
}
static int owner_signals(void) {
    HELD(fcntl(1, F_SETOWN, stranger));
    struct f_owner_ex owner = {F_OWNER_PID, stranger};
    HELD(fcntl(1, F_SETOWN_EX, &owner));
    return errno;
}
static int queued_signals(void) {
    siginfo_t info = {.si_code = SI_QUEUE};
    HELD(syscall(SYS_rt_sigqueueinfo, stranger, 0, &info));
    HELD(syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, stranger, 0), 0, 0, 0));
    return errno;
}
static int scheduling(void) {
    struct sched_param param = {0};
    HELD(setpriority(PRIO_PROCESS, stranger, 19));
    HELD(sched_setscheduler(stranger, SCHED_OTHER, &param));
    return errno;
}
static int descriptors(void) {
    for (int fd = 3; fd < 1024; fd++) {
        struct stat found;
        if (fstat(fd, &found) == 0 && !S_ISDIR(found.st_mode)) return SUCCEEDED;
    }
    return EBADF;
}
static int folder_descriptors(void) {
    for (int fd = 3; fd < 1024; fd++) {
        struct stat found;
        if (fstat(fd, &found) < 0 || !S_ISDIR(found.st_mode)) continue;
        HELD(openat(fd, "..", O_RDONLY | O_DIRECTORY));
        HELD(openat(fd, "../../../outside/secret", O_RDONLY));
    }
    return EBADF;
}
static int standard_input(void) {
    char got;
    struct stat found;
    if (fstat(0, &found) < 0) return errno;
    return S_ISCHR(found.st_mode) && !isatty(0) && read(0, &got, 1) == 0 ? ENOTTY : SUCCEEDED;
}
/* Flags and locks on standard input, for the next call to find. */
static int left_input(void) {
    struct flock shared = {.l_type = F_RDLCK};
    fcntl(0, F_SETFL, O_NONBLOCK);
    fcntl(0, F_OFD_SETLK, &shared);
    return is_marked ? SUCCEEDED : ENOENT;
}
/* A reader cannot delay a writer, and cannot watch one. */
static int file_locks(void) {
    struct flock shared = {.l_type = F_RDLCK};
    int fd = open("/dev/null", O_RDONLY), own = open(BOX "/probe", O_CREAT | O_RDWR, 0600);
    if (fd < 0) return errno;
    HELD(fcntl(fd, F_NOTIFY, DN_MULTISHOT));
    if (own >= 0) { unlink(BOX "/probe"); return errno; }
    HELD(fcntl(fd, F_SETLK, &shared));
    HELD(fcntl(fd, F_SETLKW, &shared));
    HELD(fcntl(fd, F_OFD_SETLK, &shared));
    HELD(fcntl(fd, F_OFD_SETLKW, &shared));
    HELD(syscall(SYS_flock, fd, 1));
    return errno;
}
static int terminal_words(void) {
    HELD(syscall(SYS_ioctl, 0, 0x5412, "x")); /* TIOCSTI */
    HELD(syscall(SYS_ioctl, 0, 0x541c, "\3")); /* TIOCLINUX */
    HELD(syscall(SYS_ioctl, 1, 0x5412, "x"));
    return errno;
}
static int environment(void) {
    for (char **one = environ; *one; one++)
        if (strcmp(*one, "PATH=/usr/bin") && strcmp(*one, "LANG=C.UTF-8")) return SUCCEEDED;
    return ENOENT;
}
/* Where among the host's control groups this process is. */
static int own_group(void) {
    char line[4096];
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups && fgets(line, sizeof line, groups))
        if (strcmp(strchr(strchr(line, ':') + 1, ':'), ":/\n")) return SUCCEEDED;
    return groups ? ENOENT : errno;
}
static int death_signal(void) {
    HELD(prctl(PR_SET_PDEATHSIG, 0));
    HELD(prctl(PR_SET_DUMPABLE, 1));
    HELD(prctl(PR_SET_CHILD_SUBREAPER, 1));
    return errno;
}
const struct attempt outward[] = {
    {"proc_root", proc_root, 'r'}, {"proc_memory", proc_memory, 'r'}, {"proc_words", proc_words, 'a'},
    {"trace", trace, 'r'}, {"trace_init", trace_init, '-'}, {"peek", peek, 'r'},
    {"steal_descriptor", steal_descriptor, 'a'}, {"signal_stranger", signal_stranger, 'a'},
    {"signal_all", signal_all, '-'}, {"owner_signals", owner_signals, 'a'},
    {"queued_signals", queued_signals, 'a'}, {"scheduling", scheduling, 'a'}, {"descriptors", descriptors, '-'},
    {"folder_descriptors", folder_descriptors, '-'}, {"standard_input", standard_input, '-'},
    {"left_input", left_input, '-'}, {"file_locks", file_locks, '-'},
    {"terminal_words", terminal_words, '-'}, {"environment", environment, 'a'}, {"own_group", own_group, '-'},
    {"death_signal", death_signal, 'a'}, {0},
};
