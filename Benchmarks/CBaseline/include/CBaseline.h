// The baseline servers for Vigla's measurements: one thread, one epoll, no more code than needed.
// They speak enough WebSocket (RFC 6455) for the load generator to drive them as it drives Vigla:
// the handshake for one known key, text frames under 64 KiB, no fragments.
#ifndef VIGLA_CBASELINE_H
#define VIGLA_CBASELINE_H

#include <stdint.h>

/// Every frame is sent back to its sender.
#define CBASELINE_ECHO 0
/// A frame from any connection goes to every connection that asked for /observe: one `send` per delivery.
#define CBASELINE_FANOUT 1
/// The same, but the frames of one batch of events leave with one `send` per observer at its end.
#define CBASELINE_FANOUT_CORKED 2

/// Every frame is sent back to its sender when it is on the disk: each batch of events is appended to a file, in whole pages, with
/// one `pwrite` and one `fdatasync`.
#define CBASELINE_DURABLE 3

/// Serves on a free port of 127.0.0.1, prints `ready PORT` and does not return; a negated errno if it cannot begin.
/// With the files of a certificate and its key (PEM), every `send` is an `SSL_write`; both NULL without TLS.
/// The log is the file of CBASELINE_DURABLE, which is created; NULL for the others.
int cbaseline_serve(int form, const char *certificate, const char *key, const char *log);

/// Has the calling process killed when its parent ends, so that no server outlives a benchmark.
void cbaseline_end_with_parent(void);

/// User and system time of a process and all its threads, ended ones too, in nanoseconds; 0 if it does not exist.
uint64_t cbaseline_cpu_ns(int pid);

/// Does nothing: a symbol that a profiler can recognise by its name.
void cbaseline_mark(void);

#endif
