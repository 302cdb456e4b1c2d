/* taken WHAT [PID]: `all` makes each attempt but those on the own folder, `box` these, a name makes one,
 * and `free` those that succeed where nothing holds. A line of JSON for each. */
#include "taken.h"
#include <sys/mman.h>

int stranger, is_marked;
struct steps *steps;

static void make(const struct attempt *one) {
    memset(steps, 0, sizeof *steps);
    pid_t child = fork();
    if (child == 0) _exit(one->act());
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    int through = code == SUCCEEDED || steps->through;
    const char *outcome = through ? "SUCCEEDED" : code == NOT_APPLICABLE ? "not applicable" : "held";
    printf("{\"attempt\":\"%s\",\"outcome\":\"%s\",\"errno\":%d,\"signal\":%d,\"steps\":%d,\"through\":%d,"
           "\"through_line\":%d,\"stuck_line\":%d,\"stuck_errno\":%d}\n", one->name, outcome,
           code > 0 && code < 255 ? code : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0, steps->made, steps->through,
           steps->through_line, steps->stuck_line, steps->stuck_errno);
}

int main(int argc, char **argv) {
    const struct attempt *tables[] = {files, outward, network, kernel, bounds, box};
    const char *what = argc > 1 ? argv[1] : "";
    stranger = argc > 2 ? atoi(argv[2]) : 0;
    steps = mmap(0, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, 0, _IOLBF, 0);
    struct flock any = {.l_type = F_WRLCK};
    is_marked = (fcntl(0, F_GETFL) & O_NONBLOCK) || (fcntl(0, F_OFD_GETLK, &any) == 0 && any.l_type != F_UNLCK);
    /* One that signals everybody is to leave this process to tell of it. */
    signal(SIGTERM, SIG_IGN);
    harm(what);
    int made = 0;
    for (unsigned at = 0; at < sizeof tables / sizeof *tables; at++) {
        for (const struct attempt *one = tables[at]; one->name; one++) {
            int is_box = tables[at] == box;
            int wanted = !strcmp(what, "all") ? !is_box : !strcmp(what, "box") ? is_box
                : !strcmp(what, "free") ? one->free == 'a' || (one->free == 'r' && geteuid() == 0)
                : !strcmp(what, "outward") ? tables[at] == outward : !strcmp(what, one->name);
            if (wanted) { make(one); made++; }
        }
    }
    return made ? 0 : 64;
}
