/* What clients in C that speak over sockets of their own have in common: big-endian numbers, connections, latencies. */
#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H
#include "../client.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { LENGTH_BYTES = 4, EVENTS_MAX = 256 };

static inline uint64_t read_number(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int index = 0; index < bytes; index++) value = value << 8 | at[index];
    return value;
}

static inline void write_number(uint8_t *at, int bytes, uint64_t value) {
    for (int index = bytes - 1; index >= 0; index--, value >>= 8) at[index] = (uint8_t)value;
}

static inline struct sockaddr_in address_of(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("%s is no IPv4 address", host);
    return address;
}

/* It blocks still. */
static inline int connect_to(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("port %d: %s", ntohs(address->sin_port), strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* It does not block from now on; what arrives on it is an event with this number. */
static inline void watch_answers(int epoll, int fd, uint32_t number) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* How many events came before this time. */
static inline int await_events(int epoll, struct epoll_event *events, uint64_t until_ns) {
    uint64_t now = now_ns();
    uint64_t left_ns = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {(time_t)(left_ns / 1000000000u), (long)(left_ns % 1000000000u)};
    int count = epoll_pwait2(epoll, events, EVENTS_MAX, &timeout, NULL);
    if (count < 0 && errno != EINTR) fail("epoll: %s", strerror(errno));
    return count;
}

static inline void keep_or_fail(Samples *samples, uint64_t due_ns, uint64_t now) {
    if (samples->count == samples->max) fail("more than %" PRIu64 " answers: measure a shorter time", samples->max);
    keep(samples, due_ns, now);
}

/* The end of the line of JSON. */
static inline void say_percentiles(Samples *samples) {
    sort(samples);
    printf(", \"latency_p50_us\": %u, \"latency_p99_us\": %u, \"latency_p999_us\": %u, \"latency_max_us\": %u}\n",
           percentile(samples, 0.5), percentile(samples, 0.99), percentile(samples, 0.999), percentile(samples, 1));
}
#endif
