/* Sockets of every family, and what could be passed over them. */
#include "taken.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/un.h>

static struct sockaddr_in here(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return to;
}
static int made(int family, int type, int protocol) {
    HELD(socket(family, type, protocol));
    return errno;
}
static int tcp_connect(void) {
    struct sockaddr_in to = here();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    HELD(fd);
    HELD(connect(fd, (void *)&to, sizeof to));
    return errno;
}
static int tcp_listen(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    HELD(fd);
    HELD(bind(socket(AF_INET, SOCK_STREAM, 0), (void *)&any, sizeof any));
    return errno;
}
static int udp_send(void) {
    struct sockaddr_in to = here();
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    HELD(fd);
    HELD(sendto(fd, "x", 1, 0, (void *)&to, sizeof to));
    return errno;
}
/* On whatever descriptor there is: none of them may be a socket that takes an address. */
static int send_on_any(void) {
    struct sockaddr_in to = here();
    for (int fd = 0; fd < 64; fd++) {
        HELD(sendto(fd, "x", 1, 0, (void *)&to, sizeof to));
        HELD(connect(fd, (void *)&to, sizeof to));
    }
    return errno;
}
static int unix_socket(int fd, const char *name, int hidden) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path + hidden, name);
    HELD(fd);
    HELD(connect(fd, (void *)&to, offsetof(struct sockaddr_un, sun_path) + hidden + strlen(name)));
    return errno;
}
static int unix_hidden(void) { return unix_socket(socket(AF_UNIX, SOCK_STREAM, 0), HIDDEN, 1); }
static int unix_named(void) { return unix_socket(socket(AF_UNIX, SOCK_STREAM, 0), OUTSIDE "/socket", 0); }
static int ping(void) { return made(AF_INET, SOCK_DGRAM, IPPROTO_ICMP); }
static int raw(void) {
    made(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    return made(AF_PACKET, SOCK_RAW, 0);
}
static int netlink(void) { return made(AF_NETLINK, SOCK_RAW, 0); }
static int families(void) {
    int all[] = {AF_VSOCK, AF_ALG, AF_BLUETOOTH, 44 /* XDP */, AF_TIPC, AF_CAN, AF_KEY, AF_RXRPC};
    for (int at = 0; at < 8; at++) {
        STOPPED(socket(all[at], SOCK_RAW, 0));
        STOPPED(socket(all[at], SOCK_STREAM, 0));
    }
    return errno;
}
static int pair(void) {
    int two[2];
    HELD(socketpair(AF_UNIX, SOCK_STREAM, 0, two));
    HELD(socketpair(AF_UNIX, SOCK_DGRAM, 0, two));
    return errno;
}
static int receive_descriptor(void) {
    char byte, room[128];
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    for (int fd = 0; fd < 64; fd++) {
        HELD(recvmsg(fd, &message, MSG_DONTWAIT));
        HELD(sendmsg(fd, &message, MSG_DONTWAIT));
    }
    return errno == EBADF || errno == ENOTSOCK || is_refusal(errno) ? errno : SUCCEEDED;
}
static int metadata(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_aton("169.254.169.254", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    HELD(fd);
    return connect(fd, (void *)&to, sizeof to) == 0 || errno == EINPROGRESS ? SUCCEEDED : errno;
}
const struct attempt network[] = {
    {"tcp_connect", tcp_connect, 'a'}, {"tcp_listen", tcp_listen, 'a'}, {"udp_send", udp_send, 'a'},
    {"send_on_any", send_on_any, '-'}, {"unix_hidden", unix_hidden, 'a'}, {"unix_named", unix_named, 'a'},
    {"ping", ping, '-'}, {"raw", raw, 'r'}, {"netlink", netlink, 'a'}, {"families", families, 'a'},
    {"pair", pair, 'a'}, {"receive_descriptor", receive_descriptor, '-'}, {"metadata", metadata, '-'}, {0},
};
