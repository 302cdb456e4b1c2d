/* Files that were not granted: by name, by link, by another name for the same thing. */
#include "taken.h"
#include <sys/mman.h>
#include <sys/xattr.h>

static int dotdot(void) {
    HELD(open(BOX "/../../../outside/secret", O_RDONLY));
    HELD(open("../../../outside/secret", O_RDONLY));
    return errno;
}
static int absolute(void) {
    HELD(open(OUTSIDE "/secret", O_RDONLY));
    HELD(open("/etc/passwd", O_RDONLY));
    return errno;
}
static int list(void) {
    HELD(open(OUTSIDE, O_RDONLY | O_DIRECTORY));
    HELD(open("/", O_RDONLY | O_DIRECTORY));
    return errno;
}
static int change(void) {
    HELD(open(OUTSIDE "/lure", O_WRONLY));
    HELD(open(OUTSIDE "/lure", O_RDONLY | O_TRUNC));
    HELD(truncate(OUTSIDE "/lure", 0));
    HELD(open(OUTSIDE "/new", O_CREAT | O_WRONLY, 0600));
    HELD(mkdir(OUTSIDE "/folder", 0700));
    HELD(unlink(OUTSIDE "/gone"));
    HELD(open("/tmp/" HIDDEN, O_CREAT | O_WRONLY, 0600));
    return errno;
}
static int link_out(void) {
    HELD(open(BOX "/out", O_RDONLY));
    HELD(open(BOX "/folder/secret", O_RDONLY));
    return errno;
}
static int by_number(void) {
    char name[64];
    int fd = open(OUTSIDE "/secret", O_PATH);
    if (fd < 0) return errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    HELD(open(name, O_RDONLY));
    return errno;
}
static int by_folder(void) {
    int fd = open(OUTSIDE, O_PATH | O_DIRECTORY);
    if (fd < 0) return errno;
    HELD(openat(fd, "secret", O_RDONLY));
    HELD(fchdir(fd) < 0 ? -1 : open("secret", O_RDONLY));
    return errno;
}
static int own_proc(void) {
    HELD(open("/proc/self/root" OUTSIDE "/secret", O_RDONLY));
    HELD(open("/proc/thread-self/root" OUTSIDE "/secret", O_RDONLY));
    return errno;
}
static int own_memory(void) {
    HELD(open("/proc/self/mem", O_RDWR));
    return errno;
}
static int kernel_memory(void) {
    HELD(open("/proc/kcore", O_RDONLY));
    HELD(open("/proc/kallsyms", O_RDONLY));
    HELD(open("/proc/kmsg", O_RDONLY | O_NONBLOCK));
    HELD(open("/dev/mem", O_RDONLY));
    HELD(open("/dev/kmsg", O_RDONLY | O_NONBLOCK));
    return errno;
}
static int kernel_words(void) {
    HELD(open("/proc/meminfo", O_RDONLY));
    HELD(open("/proc/version", O_RDONLY));
    HELD(open("/proc/sys/kernel/ostype", O_RDONLY));
    return errno;
}
static int kernel_settings(void) {
    HELD(open("/proc/sys/kernel/core_pattern", O_WRONLY));
    HELD(open("/proc/sys/kernel/modprobe", O_WRONLY));
    HELD(open("/proc/sysrq-trigger", O_WRONLY));
    return errno;
}
static int sysfs(void) {
    HELD(open("/sys", O_RDONLY | O_DIRECTORY));
    HELD(open("/sys/kernel/debug", O_RDONLY | O_DIRECTORY));
    HELD(open("/sys/fs/cgroup/cgroup.procs", O_WRONLY));
    HELD(open("/sys/kernel/uevent_helper", O_WRONLY));
    return errno;
}
static int passwords(void) {
    HELD(open("/etc/shadow", O_RDONLY));
    HELD(open("/root/.ssh", O_RDONLY));
    return errno;
}
static int keys(void) {
    HELD(open(DATA "/pepper", O_RDONLY));
    HELD(open(DATA "/ledger.db", O_RDONLY));
    HELD(open(ETC "/par.toml", O_RDONLY));
    return errno;
}
static int keys_written(void) {
    HELD(open(ETC "/par.toml", O_WRONLY));
    HELD(open(ETC "/tools.d/new.toml", O_CREAT | O_WRONLY, 0644));
    HELD(open(DATA "/ledger.db", O_WRONLY));
    return errno;
}
/* Names alone: which files there are, how long, of whom. */
static int look(void) {
    struct stat found;
    HELD(stat(OUTSIDE "/secret", &found));
    return errno;
}
static int modes(void) {
    HELD(chmod(OUTSIDE "/lure", 0777));
    HELD(syscall(SYS_fchmodat, AT_FDCWD, OUTSIDE "/lure", 0777));
    HELD(syscall(452, AT_FDCWD, OUTSIDE "/lure", 0777, 0)); /* fchmodat2 */
    HELD(chown(OUTSIDE "/lure", getuid(), getgid()));
    HELD(fchownat(AT_FDCWD, OUTSIDE "/lure", getuid(), getgid(), 0));
    return errno;
}
static int times(void) {
    HELD(utimensat(AT_FDCWD, OUTSIDE "/lure", 0, 0));
    HELD(setxattr(OUTSIDE "/lure", "user.par", "x", 1, 0));
    STOPPED(setxattr(OUTSIDE "/lure", "system.posix_acl_access", "x", 1, 0));
    STOPPED(syscall(463, AT_FDCWD, OUTSIDE "/lure", 0, "user.par", 0, 0)); /* setxattrat */
    STOPPED(syscall(469, AT_FDCWD, OUTSIDE "/lure", 0, 0, 0)); /* file_setattr */
    return errno;
}
static int run_other(void) {
    char *argv[] = {"true", 0};
    HELD(execve("/bin/true", argv, environ));
    HELD(execve("/usr/bin/true", argv, environ));
    return errno;
}
static int run_set_id(void) {
    char *argv[] = {"su", "--version", 0};
    HELD(execve("/bin/su", argv, environ));
    HELD(execve("/bin/mount", argv, environ));
    return errno;
}
static int run_dropped(void) {
    char *argv[] = {"program", "gained", 0};
    HELD(execve(BOX "/program", argv, environ));
    return errno;
}
static int run_script(void) {
    char *argv[] = {"script", 0};
    HELD(execve(BOX "/script", argv, environ));
    return errno;
}
/* It says whether it was lent its owner's rights. */
static int run_lent(void) {
    char *argv[] = {"lender", "lent", 0};
    HELD(execve(BOX "/lender", argv, environ));
    return errno;
}
static int by_handle(void) {
    struct { struct file_handle head; char rest[128]; } found = {.head.handle_bytes = 128};
    int mount;
    STOPPED(name_to_handle_at(AT_FDCWD, "/", &found.head, &mount, 0));
    return errno;
}
static int open_handle(void) {
    struct { struct file_handle head; char rest[128]; } found = {.head.handle_bytes = 0};
    STOPPED(open_by_handle_at(-1, &found.head, O_RDONLY));
    return errno;
}
static int devices(void) {
    HELD(open("/dev/urandom", O_WRONLY));
    HELD(open("/dev/zero", O_RDONLY));
    HELD(open("/dev/full", O_RDONLY));
    return errno;
}
static int terminals(void) {
    HELD(open("/dev/tty", O_RDWR | O_NOCTTY));
    return errno;
}
static int blocking_devices(void) {
    HELD(open("/dev/ptmx", O_RDWR | O_NOCTTY));
    HELD(open("/dev/tty0", O_RDONLY | O_NOCTTY | O_NONBLOCK));
    HELD(open("/dev/ppp", O_RDWR));
    return errno;
}
static int server_lock(void) {
    int fd = open(DATA "/ledger.db", O_RDONLY);
    if (fd < 0) return errno;
    HELD(fcntl(fd, F_SETLEASE, F_RDLCK));
    return SUCCEEDED;
}
static int shared_memory(void) {
    HELD(open("/dev/shm/" HIDDEN, O_CREAT | O_RDWR, 0600));
    return errno;
}
const struct attempt files[] = {
    {"dotdot", dotdot, 'a'}, {"absolute", absolute, 'a'}, {"list", list, 'a'}, {"change", change, 'a'},
    {"link_out", link_out, 'a'}, {"by_number", by_number, 'a'}, {"by_folder", by_folder, 'a'},
    {"own_proc", own_proc, 'a'}, {"own_memory", own_memory, 'a'}, {"kernel_memory", kernel_memory, 'r'},
    {"kernel_words", kernel_words, 'a'}, {"kernel_settings", kernel_settings, 'r'}, {"sysfs", sysfs, 'a'}, {"passwords", passwords, 'r'},
    {"keys", keys, 'a'}, {"keys_written", keys_written, 'a'}, {"look", look, 'a'}, {"modes", modes, 'a'},
    {"times", times, 'a'}, {"run_other", run_other, 'a'}, {"run_set_id", run_set_id, 'a'},
    {"run_lent", run_lent, '-'}, {"run_dropped", run_dropped, 'a'}, {"run_script", run_script, 'a'}, {"by_handle", by_handle, 'a'},
    {"open_handle", open_handle, 'r'}, {"devices", devices, 'a'}, {"terminals", terminals, '-'},
    {"blocking_devices", blocking_devices, 'a'}, {"server_lock", server_lock, 'a'},
    {"shared_memory", shared_memory, 'a'}, {0},
};
