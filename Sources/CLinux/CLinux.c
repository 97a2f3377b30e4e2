#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define RETRY(result, call)                     \
    do {                                        \
        (result) = (call);                      \
    } while ((result) < 0 && errno == EINTR);   \
    if ((result) < 0) (result) = -errno

int vigla_epoll_create(void) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int vigla_epoll_control(int epoll, int op, int fd, uint32_t events, uint64_t tag) {
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(epoll, op, fd, &event) < 0 ? -errno : 0;
}

int vigla_epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms) {
    int count;
    RETRY(count, epoll_wait(epoll, events, capacity, timeout_ms));
    return count;
}

int vigla_eventfd_create(void) {
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int vigla_eventfd_signal(int fd) {
    uint64_t one = 1;
    ssize_t count;
    RETRY(count, write(fd, &one, sizeof one));
    return count < 0 ? (int)count : 0;
}

int vigla_eventfd_clear(int fd) {
    uint64_t value;
    ssize_t count;
    RETRY(count, read(fd, &value, sizeof value));
    return count < 0 ? (int)count : 0;
}

int vigla_timerfd_create(void) {
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int vigla_timerfd_arm(int fd, uint64_t deadline_ns) {
    struct itimerspec when = {0};
    when.it_value.tv_sec = (time_t)(deadline_ns / 1000000000u);
    when.it_value.tv_nsec = (long)(deadline_ns % 1000000000u);
    return timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}

int vigla_timerfd_clear(int fd) { return vigla_eventfd_clear(fd); }

uint64_t vigla_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void vigla_sleep_us(unsigned microseconds) {
    struct timespec left = {microseconds / 1000000u, (long)(microseconds % 1000000u) * 1000L};
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    nanosleep(&left, NULL);
    prctl(PR_SET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);
}

int vigla_socket(int family) {
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static int set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) < 0 ? -errno : 0;
}

int vigla_bind_listen(int fd, const struct sockaddr *address, socklen_t length, int backlog) {
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (bind(fd, address, length) < 0) return -errno;
    return listen(fd, backlog) < 0 ? -errno : 0;
}

int vigla_reserve(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int vigla_accept(int fd, struct sockaddr_storage *peer) {
    socklen_t length = sizeof *peer;
    int accepted;
    RETRY(accepted, accept4(fd, (struct sockaddr *)peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    return accepted;
}

int vigla_connect(int fd, const struct sockaddr *address, socklen_t length) {
    return connect(fd, address, length) < 0 ? -errno : 0;
}

int vigla_socket_error(int fd) {
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0 ? errno : error;
}

int vigla_local_address(int fd, struct sockaddr_storage *address) {
    socklen_t length = sizeof *address;
    return getsockname(fd, (struct sockaddr *)address, &length) < 0 ? -errno : 0;
}

ssize_t vigla_receive(int fd, void *into, size_t capacity) {
    ssize_t count;
    RETRY(count, recv(fd, into, capacity, 0));
    return count;
}

ssize_t vigla_send(int fd, struct iovec *vectors, size_t count) {
    ssize_t sent;
    if (count == 1) {
        RETRY(sent, send(fd, vectors[0].iov_base, vectors[0].iov_len, MSG_NOSIGNAL));
    } else {
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = count};
        RETRY(sent, sendmsg(fd, &message, MSG_NOSIGNAL));
    }
    return sent;
}

int vigla_shutdown_write(int fd) { return shutdown(fd, SHUT_WR) < 0 ? -errno : 0; }

int vigla_close(int fd) { return close(fd) < 0 ? -errno : 0; }

int vigla_close_reset(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    return vigla_close(fd);
}

int vigla_set_no_delay(int fd) { return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }
int vigla_set_send_buffer(int fd, int bytes) { return set_option(fd, SOL_SOCKET, SO_SNDBUF, bytes); }
int vigla_set_receive_buffer(int fd, int bytes) { return set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes); }

int vigla_resolve(const char *host, uint16_t port, bool numeric_only, bool passive, struct addrinfo **result) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    hints.ai_flags = AI_NUMERICSERV | (numeric_only ? AI_NUMERICHOST : 0) | (passive ? AI_PASSIVE : 0);
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    return getaddrinfo(host, service, &hints, result);
}

int vigla_clock_is_synchronized(void) {
    struct timex state = { .modes = 0 };
    int result = adjtimex(&state);
    return result < 0 ? -errno : result != TIME_ERROR && !(state.status & STA_UNSYNC);
}

int64_t vigla_file_system(const char *path) {
    struct statfs info;
    return statfs(path, &info) == 0 ? (int64_t)(uint32_t)info.f_type : -errno;
}
