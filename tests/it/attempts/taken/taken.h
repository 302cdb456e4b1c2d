/* A tool that was taken over: what its attempts share. Where things are is given by the compiler's
 * command line: OUTSIDE, a folder that no manifest grants, with files that anybody may change; BOX, the
 * folder that one of the tools may write in; ETC and DATA of the home; PORT and HIDDEN,
 * where somebody listens. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What an attempt returns: SUCCEEDED, the errno that held it, or NOT_APPLICABLE. */
enum { SUCCEEDED = 0, NOT_APPLICABLE = 255 };

/* One step: it is to fail. All steps of an attempt are made; one that goes through is enough to succeed. */
#define HELD(call) do { errno = 0; step((long)(call) >= 0, __LINE__); } while (0)
/* It is to be stopped before the kernel's own look at the arguments. */
#define STOPPED(call) do { errno = 0; long got = (long)(call); step(got >= 0 || !is_refusal(errno), __LINE__); } while (0)

/* Steps of one attempt, in memory that its process shares. */
struct steps { int made, through, stuck_line, stuck_errno, through_line; };
extern struct steps *steps;

static inline void step(int is_through, int line) {
    steps->made++;
    if (is_through) { steps->through++; steps->through_line = line; }
    else { steps->stuck_line = line; steps->stuck_errno = errno; }
}

static inline int is_refusal(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

struct attempt {
    const char *name;
    int (*act)(void);
    /* Who succeeds where nothing holds: 'a' anybody, 'r' root; '-' is not tried there. */
    char free;
};

/* A process outside of the call. */
extern int stranger;
/* Whether standard input came with what another call had left on it. */
extern int is_marked;
extern const struct attempt files[], box[], outward[], network[], kernel[], bounds[];

/* Does what never comes back as an outcome: ends, floods, stays. Returns where `how` is none of them. */
void harm(const char *how);
/* The same, of what fills a disk. */
void fill(const char *how);
