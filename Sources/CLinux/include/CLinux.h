// Linux functions that Glibc's Swift module leaves out: epoll, timerfd, accept4 and a few socket options.
//
// Every function that can fail returns a negated errno (`-EAGAIN`), so that Swift never reads the thread-local `errno`.
// EINTR is retried here.
#ifndef VIGLA_CLINUX_H
#define VIGLA_CLINUX_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

// epoll

int vigla_epoll_create(void);
/// `op` is EPOLL_CTL_ADD, _MOD or _DEL; `tag` is returned with each event.
int vigla_epoll_control(int epoll, int op, int fd, uint32_t events, uint64_t tag);
int vigla_epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms);

/// The event structure is packed on x86-64; these accessors hide its layout from Swift.
static inline uint64_t vigla_event_tag(const struct epoll_event *event) { return event->data.u64; }
static inline uint32_t vigla_event_bits(const struct epoll_event *event) { return event->events; }

static const uint32_t vigla_epollin = EPOLLIN;
static const uint32_t vigla_epollout = EPOLLOUT;
static const uint32_t vigla_epollerr = EPOLLERR;
static const uint32_t vigla_epollhup = EPOLLHUP;
static const int vigla_epoll_add = EPOLL_CTL_ADD;
static const int vigla_epoll_mod = EPOLL_CTL_MOD;
static const int vigla_epoll_del = EPOLL_CTL_DEL;

// eventfd and timerfd

int vigla_eventfd_create(void);
int vigla_eventfd_signal(int fd);
/// Resets the counter to zero. -EAGAIN when it already was.
int vigla_eventfd_clear(int fd);

/// A non-blocking CLOCK_MONOTONIC timer.
int vigla_timerfd_create(void);
/// Fires once at `deadline_ns` of `vigla_monotonic_ns`; 0 disarms.
int vigla_timerfd_arm(int fd, uint64_t deadline_ns);
int vigla_timerfd_clear(int fd);
uint64_t vigla_monotonic_ns(void);
/// Sleeps without timer slack: the 50 µs that Linux may add to wake several threads together.
void vigla_sleep_us(unsigned microseconds);

/// Whether the network keeps the kernel's clock right (adjtimex): 1 yes, 0 no, negative if unknown.
int vigla_clock_is_synchronized(void);

/// The kind of a path's file system, a magic number of statfs(2); negative if unknown.
int64_t vigla_file_system(const char *path);

// sockets: all non-blocking and close-on-exec

int vigla_socket(int family);
/// Bind with SO_REUSEADDR (IPv6 sockets are IPv6 only) and listen.
int vigla_bind_listen(int fd, const struct sockaddr *address, socklen_t length, int backlog);
/// A descriptor that only reserves a number.
int vigla_reserve(void);
int vigla_accept(int fd, struct sockaddr_storage *peer);
/// 0 when connected, -EINPROGRESS while connecting.
int vigla_connect(int fd, const struct sockaddr *address, socklen_t length);
/// The result of a pending connect, or the error of a broken connection, as a positive errno; 0 for none.
int vigla_socket_error(int fd);
int vigla_local_address(int fd, struct sockaddr_storage *address);
ssize_t vigla_receive(int fd, void *into, size_t capacity);
/// `send` for one vector, `sendmsg` for more; never raises SIGPIPE.
ssize_t vigla_send(int fd, struct iovec *vectors, size_t count);
int vigla_shutdown_write(int fd);
int vigla_close(int fd);
/// Closes with a reset: output queued in the kernel is discarded.
int vigla_close_reset(int fd);
int vigla_set_no_delay(int fd);
int vigla_set_send_buffer(int fd, int bytes);
int vigla_set_receive_buffer(int fd, int bytes);

/// Stream addresses for a name, in the order to try. A `getaddrinfo` code (not an errno) on failure.
int vigla_resolve(const char *host, uint16_t port, bool numeric_only, bool passive, struct addrinfo **result);

#endif
