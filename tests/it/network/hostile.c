/* What a program with a network of its own tries beside asking its proxy: a line for each, `name errno`, 0 where it
 * went through. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(const char *name, long done) { printf("%s %d\n", name, done < 0 ? errno : 0); }
static struct sockaddr_in at(const char *ip, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &to.sin_addr);
    return to;
}
static int tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static long reach(const char *ip, int port) {
    struct sockaddr_in to = at(ip, port);
    return connect(tcp(), (void *)&to, sizeof to);
}
/* What the proxy says to `words`, in its first line. */
static void ask(const char *name, const char *words) {
    char line[256] = {0};
    struct sockaddr_in to = at("127.0.0.1", 3128);
    int fd = tcp();
    if (connect(fd, (void *)&to, sizeof to) < 0) { tell(name, -1); return; }
    write(fd, words, strlen(words));
    read(fd, line, sizeof line - 1);
    line[strcspn(line, "\r\n")] = 0;
    printf("%s %s\n", name, line);
    close(fd);
}

int main(void) {
    struct sockaddr_in host = at("127.0.0.1", PORT);
    tell("host_by_loopback", reach("127.0.0.1", PORT));
    tell("host_by_address", reach("192.0.2.1", 80));
    tell("metadata", reach("169.254.169.254", 80));
    tell("open_first", sendto(tcp(), "x", 1, MSG_FASTOPEN, (void *)&host, sizeof host));
    tell("udp", socket(AF_INET, SOCK_DGRAM, 0));
    tell("raw", socket(AF_INET, SOCK_RAW, 1));
    tell("sctp", socket(AF_INET, SOCK_STREAM, 132));
    tell("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    tell("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    tell("packet", socket(AF_PACKET, SOCK_RAW, 0));
    tell("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    struct sockaddr_in any = at("127.0.0.1", 0);
    int fd = tcp();
    tell("bind", bind(fd, (void *)&any, sizeof any));
    tell("listen", listen(fd, 1));
    tell("accept", accept4(fd, 0, 0, 0));
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = 0};
    tell("interface", ioctl(fd, SIOCSIFFLAGS, &request));
    ask("other", "CONNECT 127.0.0.1:" PORT_TEXT " HTTP/1.1\r\n\r\n");
    ask("spelled", "CONNECT 2130706433:" PORT_TEXT " HTTP/1.1\r\n\r\n");
    ask("get", "GET http://localhost:" PORT_TEXT "/ HTTP/1.1\r\n\r\n");
    ask("nonsense", "\x16\x03\x01 nonsense\r\n\r\n");
    return 0;
}
