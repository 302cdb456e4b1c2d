/* withhold WHAT PROGRAM [ARGUMENT]…: starts a program from which the kernel withholds something, as an older kernel,
 * a container or a service manager would. What is withheld stays so for all that the program starts. WHAT is one of:
 *   user, pid, net, mount   that kind of namespace
 *   namespaces              every kind
 *   mounts                  calls that mount, in whatever namespace
 *   landlock, landlock=N    Landlock, or what came behind its version N
 *   seccomp                 filters
 * A filter can make a call fail and can say no number; the version is told by a process beside, which is asked. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define ALL (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
#define COUNT(list) (sizeof list / sizeof *list)

static struct sock_filter filter[128];
static unsigned short length;

static void say(unsigned short code, unsigned char yes, unsigned char no, unsigned value) {
    filter[length++] = (struct sock_filter){code, yes, no, value};
}
static void word(unsigned at) { say(BPF_LD | BPF_W | BPF_ABS, 0, 0, at); }
static void answer(unsigned value) { say(BPF_RET | BPF_K, 0, 0, value); }

static void begin(void) {
    word(offsetof(struct seccomp_data, arch));
    say(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    answer(SECCOMP_RET_KILL_PROCESS);
}
static void always(unsigned call, unsigned value) {
    word(offsetof(struct seccomp_data, nr));
    say(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call);
    answer(value);
}
/* Where an argument has one of these bits, or is this number. */
static void where(unsigned call, int argument, int compare, unsigned with, unsigned value) {
    word(offsetof(struct seccomp_data, nr));
    say(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, call);
    word(offsetof(struct seccomp_data, args) + 8 * argument);
    say(BPF_JMP | compare | BPF_K, 0, 1, with);
    answer(value);
}
static void no_namespace(unsigned flags) {
    /* Its flags are in memory. A caller that gets ENOSYS uses clone. */
    always(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    where(SYS_clone, 0, BPF_JSET, flags, SECCOMP_RET_ERRNO | EPERM);
    where(SYS_unshare, 0, BPF_JSET, flags, SECCOMP_RET_ERRNO | EPERM);
}

/* The whole filter for `what`; whether it needs a supervisor. */
static int build(const char *what) {
    const struct { const char *name; unsigned flags; } namespaces[] = {
        {"user", CLONE_NEWUSER}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"mount", CLONE_NEWNS}, {"namespaces", ALL},
    };
    const unsigned mounts[] = {SYS_mount, SYS_umount2, SYS_pivot_root, 428 /* open_tree */, 429 /* move_mount */,
                               430 /* fsopen */, 432 /* fsmount */, 442 /* mount_setattr */};
    const unsigned landlock[] = {444, 445, 446}; /* create_ruleset, add_rule, restrict_self */
    int asks = !strncmp(what, "landlock=", 9);
    begin();
    for (unsigned at = 0; at < COUNT(namespaces); at++)
        if (!strcmp(what, namespaces[at].name)) no_namespace(namespaces[at].flags);
    for (unsigned at = 0; at < COUNT(mounts) && !strcmp(what, "mounts"); at++)
        always(mounts[at], SECCOMP_RET_ERRNO | EPERM);
    for (unsigned at = 0; at < COUNT(landlock) && !strcmp(what, "landlock"); at++)
        always(landlock[at], SECCOMP_RET_ERRNO | ENOSYS);
    /* Flag 1 asks for the version. */
    if (asks) where(landlock[0], 2, BPF_JEQ, 1, SECCOMP_RET_USER_NOTIF);
    if (!strcmp(what, "seccomp")) {
        where(SYS_seccomp, 0, BPF_JEQ, SECCOMP_SET_MODE_FILTER, SECCOMP_RET_ERRNO | EINVAL);
        where(SYS_prctl, 0, BPF_JEQ, PR_SET_SECCOMP, SECCOMP_RET_ERRNO | EINVAL);
    }
    if (length == 3) { fprintf(stderr, "withhold: what is `%s`?\n", what); exit(64); }
    answer(SECCOMP_RET_ALLOW);
    return asks;
}

static int received(int socket) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}
static int sent(int socket, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec vector = {"l", 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1;
}

/* Answers each query with `version`, for as long as a process that could ask exists. */
static void tell(int listener, long version) {
    struct seccomp_notif asked;
    struct pollfd waits = {listener, POLLIN, 0};
    while (poll(&waits, 1, -1) > 0 && !(waits.revents & POLLHUP)) {
        memset(&asked, 0, sizeof asked);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) continue;
        struct seccomp_notif_resp told = {.id = asked.id, .val = version};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &told);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 64;
    int asks = build(argv[1]), two[2];
    struct sock_fprog program = {length, filter};
    if (asks) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, two) < 0) return 70;
        pid_t child = fork();
        if (child == 0) {
            /* Nobody's child, or it would be taken for one of the program's. */
            if (fork()) _exit(0);
            close(two[0]);
            int listener = received(two[1]);
            for (int fd = 0; fd < 3; fd++) close(fd);
            tell(listener, atol(argv[1] + 9));
            _exit(0);
        }
        waitpid(child, 0, 0);
        close(two[1]);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return 70;
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, asks ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program);
    if (listener < 0) { perror("withhold: seccomp"); return 70; }
    if (asks) {
        if (!sent(two[0], listener)) return 70;
        close(listener);
        close(two[0]);
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 70;
}
