/* Preloaded: the name `model.test` leads to 127.0.0.1 and to 169.254.169.254 by turns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    static int calls;
    look_up *real = (look_up *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (name != NULL && strcmp(name, "model.test") == 0) {
        name = __sync_fetch_and_add(&calls, 1) % 2 == 0 ? "127.0.0.1" : "169.254.169.254";
    }
    return real(name, service, hints, found);
}
