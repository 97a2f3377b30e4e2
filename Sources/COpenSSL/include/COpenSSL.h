// OpenSSL 3's TLS for DispatchNet, without sockets. Ciphertext is read from and written to a `vigla_tls_wire` that all connections of a thread
// share; between two calls it holds no bytes of a connection. Hashes, key derivation and signatures for Cryptography are in `primitives.h`.
//
// OpenSSL's types are not in this header: Swift sees opaque pointers and never compiles OpenSSL's headers.
#ifndef VIGLA_COPENSSL_H
#define VIGLA_COPENSSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "primitives.h"

struct ssl_st;
struct ssl_ctx_st;
struct bio_st;

// the wire

/// The largest plaintext of one record (RFC 8446 §5.1).
#define VIGLA_TLS_RECORD_BYTES 16384

struct vigla_tls_wire {
    /// Bytes received from the peer but not consumed yet. Set before a call, empty after it.
    const uint8_t *in;
    size_t in_count;
    /// Bytes to send to the peer. The caller takes them (`out_count = 0`) after a call.
    uint8_t *out;
    size_t out_count, out_capacity;
    /// Buffer for joining small frames into one record.
    uint8_t joint[VIGLA_TLS_RECORD_BYTES];
    struct bio_st *bio;
};

/// NULL if out of memory.
struct vigla_tls_wire *vigla_tls_wire_new(void);
/// Existing connections must not be used afterwards, only freed.
void vigla_tls_wire_free(struct vigla_tls_wire *wire);

// session tickets (RFC 5077, RFC 8446 §4.6.1)

struct vigla_tls_tickets;
/// Keys for tickets, shared by any number of contexts and threads. A new key is created every `key_seconds`, and the previous key still opens
/// tickets. So a ticket is valid for `key_seconds` to twice that.
struct vigla_tls_tickets *vigla_tls_tickets_new(uint32_t key_seconds);
void vigla_tls_tickets_free(struct vigla_tls_tickets *tickets);
/// Creates the new key now.
void vigla_tls_tickets_rotate(struct vigla_tls_tickets *tickets);

// contexts: settings, and a certificate with its key (server) or trusted authorities (client); used by any number of threads at once

/// TLS 1.2 and 1.3, ALPN `http/1.1`. The tickets must outlive the context. NULL if out of memory.
struct ssl_ctx_st *vigla_tls_server_context(struct vigla_tls_tickets *tickets);
/// Verifies the server's chain against the system's authorities.
struct ssl_ctx_st *vigla_tls_client_context(void);
void vigla_tls_context_free(struct ssl_ctx_st *context);

enum {
    VIGLA_TLS_FINE = 0,
    /// No certificate, or no private key, in PEM form.
    VIGLA_TLS_NOTHING_THERE = 1,
    VIGLA_TLS_KEY_ENCRYPTED = 2,
    VIGLA_TLS_KEY_MISMATCH = 3,
    /// OpenSSL refuses it; see `vigla_tls_error_text`.
    VIGLA_TLS_REFUSED = 4,
};

/// The server's certificate, followed by the chain to its authority, as PEM.
int vigla_tls_use_certificate(struct ssl_ctx_st *context, const void *pem, size_t count);
/// The private key of the certificate set before, as PEM.
int vigla_tls_use_key(struct ssl_ctx_st *context, const void *pem, size_t count);
/// The certificate's expiry in seconds since 1970; 0 if unknown.
int64_t vigla_tls_certificate_end(struct ssl_ctx_st *context);
/// Trusts these authorities (PEM) in addition to the system's.
int vigla_tls_trust(struct ssl_ctx_st *context, const void *pem, size_t count);
/// OpenSSL's text for the last refusal on this thread.
const char *vigla_tls_error_text(void);

// connections: each used by one thread at a time, the one that owns its wire

/// NULL if out of memory.
struct ssl_st *vigla_tls_new(struct ssl_ctx_st *context, struct vigla_tls_wire *wire, bool is_server);
void vigla_tls_free(struct ssl_st *tls);
/// For a client: requests this host (SNI, RFC 6066 §3) and accepts only a certificate for it (RFC 6125).
bool vigla_tls_expect_host(struct ssl_st *tls, const char *host, bool is_address);

/// 1 if the handshake is done, 0 if more input is needed, -1 if it has failed; then `out` may contain an alert.
int vigla_tls_handshake(struct ssl_st *tls);
/// The number of plaintext bytes; 0 if more input is needed, -1 after the peer's close_notify, -2 on failure.
ssize_t vigla_tls_read(struct ssl_st *tls, void *into, size_t capacity);
/// Encrypts the vectors from the start, joined into full records, until all, or at least `limit` bytes of them, are in `out`. Returns the number
/// of plaintext bytes taken; -1 on failure.
ssize_t vigla_tls_write(
    struct ssl_st *tls, struct vigla_tls_wire *wire, const struct iovec *vectors, size_t count, size_t limit);
/// Appends our close_notify to `out`.
void vigla_tls_send_close_notify(struct ssl_st *tls);

/// The reason why the last call failed; clears it.
struct vigla_tls_failure {
    /// The peer spoke HTTP without TLS.
    bool is_plain_http;
    /// OpenSSL's text.
    const char *text;
};
struct vigla_tls_failure vigla_tls_take_failure(struct ssl_st *tls);

bool vigla_tls_is_resumed(const struct ssl_st *tls);
/// `TLSv1.3`
const char *vigla_tls_version(const struct ssl_st *tls);

#endif
