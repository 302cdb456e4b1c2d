/* The folder that a tool may write in: what it may not do there, and how it would lead out of it. */
#include "taken.h"
#include <sys/mman.h>
#include <sys/xattr.h>

static int hard_link(void) {
    HELD(link(OUTSIDE "/lure", BOX "/stolen"));
    HELD(linkat(AT_FDCWD, OUTSIDE "/lure", AT_FDCWD, BOX "/stolen-again", 0));
    return errno;
}
static int move_in(void) {
    HELD(rename(OUTSIDE "/moved", BOX "/moved"));
    HELD(renameat2(AT_FDCWD, OUTSIDE "/lure", AT_FDCWD, BOX "/inside", RENAME_EXCHANGE));
    return errno;
}
static int move_out(void) {
    HELD(rename(BOX "/leaving", OUTSIDE "/leaving"));
    return errno;
}
static int own_link(void) {
    if (symlink(OUTSIDE "/secret", BOX "/mine") < 0 && errno != EEXIST) return errno;
    HELD(open(BOX "/mine", O_RDONLY));
    HELD(open(BOX "/mine", O_WRONLY));
    return errno;
}
static int link_outside(void) {
    HELD(symlink("/", OUTSIDE "/planted"));
    return errno;
}
static int special_files(void) {
    HELD(mkfifo(BOX "/fifo", 0600));
    HELD(mknod(BOX "/socket", S_IFSOCK | 0600, 0));
    HELD(mknod(BOX "/device", S_IFCHR | 0600, 0x105));
    return errno;
}
/* A rename that leaves a device in its place. */
static int whiteout(void) {
    close(open(BOX "/covered", O_CREAT | O_WRONLY, 0600));
    HELD(renameat2(AT_FDCWD, BOX "/covered", AT_FDCWD, BOX "/moved-away", 4));
    HELD(renameat2(AT_FDCWD, BOX "/covered", AT_FDCWD, BOX "/moved-away", 4 | RENAME_NOREPLACE));
    return errno;
}
static int lent_rights(void) {
    HELD(open(BOX "/lent", O_CREAT | O_WRONLY, 04755));
    HELD(openat(AT_FDCWD, BOX "/lent", O_CREAT | O_WRONLY, 02755));
    HELD(creat(BOX "/lent", 04755));
    HELD(chmod(BOX "/inside", 04755));
    return errno;
}
static int own_modes(void) {
    HELD(chmod(BOX "/inside", 0777));
    HELD(fchmod(open(BOX "/inside", O_RDONLY), 0777));
    HELD(chown(BOX "/inside", getuid(), getgid()));
    return errno;
}
static int own_times(void) {
    struct timespec future[2] = {{.tv_sec = 1L << 32}, {.tv_sec = 1L << 32}};
    HELD(utimensat(AT_FDCWD, BOX "/inside", future, 0));
    HELD(futimens(open(BOX "/inside", O_RDONLY), future));
    HELD(setxattr(BOX "/inside", "user.par", "x", 1, 0));
    HELD(fsetxattr(open(BOX "/inside", O_RDONLY), "user.par", "x", 1, 0));
    return errno;
}
/* The content of a folder that cannot be read is not counted. */
static int closed_folder(void) {
    HELD(mkdir(BOX "/closed", 0300));
    HELD(mkdirat(AT_FDCWD, BOX "/closed-too", 0600));
    umask(0777);
    HELD(mkdir(BOX "/masked", 0700) < 0 || open(BOX "/masked", O_RDONLY) >= 0 ? -1 : 0);
    umask(022);
    return errno ? errno : EPERM;
}
/* A program of its own: a copy of the one that lies there, made with the mode to be run. */
static int drop(void) {
    char bytes[65536];
    long got;
    int from = open(BOX "/program", O_RDONLY), to = open(BOX "/dropped", O_CREAT | O_WRONLY | O_TRUNC, 0755);
    if (from < 0 || to < 0) return errno;
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, got) != got) return errno;
    close(to);
    return 0;
}
static int run_own(void) {
    char *argv[] = {"dropped", "gained", 0};
    if (drop()) return NOT_APPLICABLE;
    HELD(execve(BOX "/dropped", argv, environ));
    int fd = open(BOX "/dropped", O_PATH);
    HELD(syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH));
    return errno;
}
static int run_by_loader(void) {
    char *argv[] = {"loader", BOX "/program", "gained", 0};
#ifdef __x86_64__
    HELD(execve("/lib64/ld-linux-x86-64.so.2", argv, environ));
#else
    HELD(execve("/lib/ld-linux-aarch64.so.1", argv, environ));
#endif
    return errno;
}
static int map_own(void) {
    int fd = open(BOX "/program", O_RDONLY);
    if (fd < 0) return NOT_APPLICABLE;
    HELD(mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    return errno;
}
static int sparse(void) {
    int fd = open(BOX "/sparse", O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return errno;
    HELD(ftruncate(fd, 1L << 40));
    return errno;
}
/* Each file within its bound, all of them far above what a call may add; ends by itself if not stopped. */
static void many(int folder, const char *how, int count, long bytes) {
    char name[64], *full = calloc(1, bytes + 1);
    for (int made = 0; made < count; made++) {
        snprintf(name, sizeof name, "%s-%d", how, made);
        int fd = openat(folder, name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0 || write(fd, full, bytes) != bytes) exit(1);
        close(fd);
    }
}
void fill(const char *how) {
    if (!strcmp(how, "fill")) many(open(BOX, O_PATH), how, 20000, 60000);
    else if (!strcmp(how, "fill_files")) many(open(BOX, O_PATH), how, 1000000, 0);
    else if (!strcmp(how, "fill_moving")) {
        mkdir(BOX "/here", 0700);
        int folder = open(BOX "/here", O_PATH);
        pid_t child = fork();
        if (child == 0) for (;;) { rename(BOX "/here", BOX "/there"); rename(BOX "/there", BOX "/here"); }
        many(folder, how, 20000, 60000);
        kill(child, SIGKILL);
    } else if (!strcmp(how, "deep")) {
        char name[201] = {0};
        memset(name, 'd', 200);
        if (chdir(BOX)) exit(1);
        for (int depth = 0; depth < 30; depth++)
            if ((mkdir(name, 0700) && errno != EEXIST) || chdir(name)) exit(1);
    } else return;
    exit(0);
}
static int watch_lease(void) {
    int fd = open(BOX "/inside", O_RDONLY);
    HELD(fcntl(fd, F_SETLEASE, F_RDLCK));
    return errno;
}
const struct attempt box[] = {
    {"hard_link", hard_link, 'a'}, {"move_in", move_in, 'a'}, {"move_out", move_out, 'a'},
    {"own_link", own_link, 'a'}, {"link_outside", link_outside, 'a'}, {"special_files", special_files, 'a'},
    {"whiteout", whiteout, '-'},
    {"lent_rights", lent_rights, 'a'}, {"own_modes", own_modes, 'a'}, {"own_times", own_times, 'a'},
    {"run_own", run_own, 'a'}, {"run_by_loader", run_by_loader, 'a'}, {"map_own", map_own, 'a'},
    {"sparse", sparse, 'a'}, {"closed_folder", closed_folder, 'a'},
    {"watch_lease", watch_lease, 'a'}, {0},
};
