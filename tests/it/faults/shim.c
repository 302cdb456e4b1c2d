/* Faults of a disk, preloaded into the program under test: each call that changes a file below one folder is
 * counted, by all of its processes together, and the n-th of them fails, is cut short, or is the last.
 *
 * PAR_FAULT_FOLDER: the folder. PAR_FAULT_STATE: a file of 4096 bytes, shared with whoever watches:
 * eight 64-bit words (see the enum below), and behind them the name of the call that was hit. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CALLS, AT, FAULT, IS_FULL, HITS, WORDS };
enum fault { NONE, FULL, IO, SHORT, KILL_BEFORE, KILL_AFTER };

static _Atomic uint64_t *state;
static char folder[4096];
static size_t folder_len;
#define FDS 4096
static _Atomic char watched[FDS];
static char names[FDS][32];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PAR_FAULT_STATE"), *below = getenv("PAR_FAULT_FOLDER");
    if (!path || !below) return;
    snprintf(folder, sizeof folder, "%s", below);
    folder_len = strlen(folder);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED) state = at;
}

static int is_below(const char *path) {
    return state && path && !strncmp(path, folder, folder_len) && (!path[folder_len] || path[folder_len] == '/');
}

static void die(void) {
    kill(getpid(), SIGKILL);
    /* Where a filter forbids that: every thread ends here just as well. */
    syscall(SYS_exit_group, 137);
}

/* Counts a call; `grows` where it needs space. Dies where it is the last, and sets errno where it fails. */
static enum fault strike(const char *call, const char *name, int grows) {
    uint64_t n = atomic_fetch_add(&state[CALLS], 1) + 1;
    enum fault fault = NONE;
    if (n == atomic_load(&state[AT])) {
        fault = atomic_load(&state[FAULT]);
        snprintf((char *)(state + WORDS), 256, "%s %s", call, name);
        atomic_fetch_add(&state[HITS], 1);
        if (fault == FULL) atomic_store(&state[IS_FULL], 1);
    }
    if (atomic_load(&state[IS_FULL])) fault = grows ? FULL : NONE;
    if (fault == KILL_BEFORE) die();
    if (fault == FULL) errno = ENOSPC;
    if (fault == IO) errno = EIO;
    return fault;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define IS_WATCHED(fd) ((fd) >= 0 && (fd) < FDS && atomic_load(&watched[fd]))
#define FAILS(fault) ((fault) == FULL || (fault) == IO)
/* The end of every interposed call. */
#define DONE(fault, result) do { if ((fault) == KILL_AFTER) die(); return (result); } while (0)

static const char *last(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int opened(int fd, const char *path, int is_below) {
    if (fd < 0 || fd >= FDS) return fd;
    if (is_below) snprintf(names[fd], sizeof names[fd], "%s", last(path));
    atomic_store(&watched[fd], is_below);
    return fd;
}

#define OPEN(name, parameters, path, ...)                                              \
    int name parameters {                                                              \
        REAL(name);                                                                    \
        mode_t mode = 0;                                                               \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                         \
            va_list more;                                                              \
            va_start(more, flags);                                                     \
            mode = va_arg(more, mode_t);                                               \
            va_end(more);                                                              \
        }                                                                              \
        int below = is_below(path);                                                    \
        enum fault fault = NONE;                                                       \
        if (below && flags & O_CREAT) {                                                \
            fault = strike("open", last(path), syscall(SYS_access, path, F_OK) != 0);  \
            if (FAILS(fault)) return -1;                                               \
        }                                                                              \
        int fd = opened(real(__VA_ARGS__, flags, mode), path, below);                  \
        DONE(fault, fd);                                                               \
    }
OPEN(open, (const char *path, int flags, ...), path, path)
OPEN(open64, (const char *path, int flags, ...), path, path)
OPEN(openat, (int at, const char *path, int flags, ...), path, at, path)
OPEN(openat64, (int at, const char *path, int flags, ...), path, at, path)

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < FDS) atomic_store(&watched[fd], 0);
    return real(fd);
}

#define WRITE(name, parameters, ...)                                                   \
    ssize_t name parameters {                                                          \
        REAL(name);                                                                    \
        enum fault fault = NONE;                                                       \
        if (IS_WATCHED(fd)) {                                                          \
            fault = strike(#name, names[fd], 1);                                       \
            if (FAILS(fault)) return -1;                                               \
            if (fault == SHORT && count > 1) count /= 2;                               \
        }                                                                              \
        ssize_t written = real(__VA_ARGS__);                                           \
        DONE(fault, written);                                                          \
    }
WRITE(write, (int fd, const void *bytes, size_t count), fd, bytes, count)
WRITE(pwrite, (int fd, const void *bytes, size_t count, off_t at), fd, bytes, count, at)
WRITE(pwrite64, (int fd, const void *bytes, size_t count, off64_t at), fd, bytes, count, at)
WRITE(writev, (int fd, const struct iovec *bytes, int count), fd, bytes, count)
WRITE(pwritev, (int fd, const struct iovec *bytes, int count, off_t at), fd, bytes, count, at)

#define CHANGE(name, parameters, is_watched, what, grows, ...)                         \
    int name parameters {                                                              \
        REAL(name);                                                                    \
        enum fault fault = NONE;                                                       \
        if (is_watched) {                                                              \
            fault = strike(#name, what, grows);                                        \
            if (FAILS(fault)) return -1;                                               \
        }                                                                              \
        int result = real(__VA_ARGS__);                                                \
        DONE(fault, result);                                                           \
    }
CHANGE(fsync, (int fd), IS_WATCHED(fd), names[fd], 0, fd)
CHANGE(fdatasync, (int fd), IS_WATCHED(fd), names[fd], 0, fd)
CHANGE(ftruncate, (int fd, off_t size), IS_WATCHED(fd), names[fd], 0, fd, size)
CHANGE(ftruncate64, (int fd, off64_t size), IS_WATCHED(fd), names[fd], 0, fd, size)
CHANGE(unlink, (const char *path), is_below(path), last(path), 0, path)
CHANGE(rename, (const char *from, const char *to), is_below(to), last(to), 0, from, to)

/* Its error is its result. */
int posix_fallocate(int fd, off_t at, off_t size) {
    REAL(posix_fallocate);
    enum fault fault = NONE;
    if (IS_WATCHED(fd)) {
        fault = strike("posix_fallocate", names[fd], 1);
        if (FAILS(fault)) return errno;
    }
    int result = real(fd, at, size);
    DONE(fault, result);
}
