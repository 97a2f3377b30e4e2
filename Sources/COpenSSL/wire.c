#include "COpenSSL.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// One BIO for all connections of a thread: it reads from `in` and appends to `out`, and never blocks on writing.

static int bio_read(BIO *bio, char *into, int capacity) {
    struct vigla_tls_wire *wire = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (capacity <= 0) return 0;
    if (wire->in_count == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t count = (size_t)capacity < wire->in_count ? (size_t)capacity : wire->in_count;
    memcpy(into, wire->in, count);
    wire->in += count;
    wire->in_count -= count;
    return (int)count;
}

static int bio_write(BIO *bio, const char *bytes, int count) {
    struct vigla_tls_wire *wire = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (count <= 0) return 0;
    if (wire->out_count + (size_t)count > wire->out_capacity) {
        size_t capacity = (wire->out_count + (size_t)count) * 2;
        uint8_t *out = realloc(wire->out, capacity);
        if (!out) return -1;
        wire->out = out;
        wire->out_capacity = capacity;
    }
    memcpy(wire->out + wire->out_count, bytes, (size_t)count);
    wire->out_count += (size_t)count;
    return count;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "vigla wire");
    if (!method) return;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
}

struct vigla_tls_wire *vigla_tls_wire_new(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    struct vigla_tls_wire *wire = calloc(1, sizeof *wire);
    if (!wire || !method || !(wire->bio = BIO_new(method))) {
        free(wire);
        return NULL;
    }
    BIO_set_data(wire->bio, wire);
    BIO_set_init(wire->bio, 1);
    return wire;
}

void vigla_tls_wire_free(struct vigla_tls_wire *wire) {
    BIO_free(wire->bio);  // freed only when the last connection releases it
    free(wire->out);
    free(wire);
}

struct ssl_st *vigla_tls_new(struct ssl_ctx_st *context, struct vigla_tls_wire *wire, bool is_server) {
    SSL *tls = SSL_new(context);
    if (!tls) return NULL;
    BIO_up_ref(wire->bio);
    SSL_set_bio(tls, wire->bio, wire->bio);
    if (is_server) SSL_set_accept_state(tls); else SSL_set_connect_state(tls);
    return tls;
}

void vigla_tls_free(struct ssl_st *tls) { SSL_free(tls); }

ssize_t vigla_tls_write(
    struct ssl_st *tls, struct vigla_tls_wire *wire, const struct iovec *vectors, size_t count, size_t limit) {
    if (ERR_peek_error() != 0) ERR_clear_error();
    size_t taken = 0, joint = 0;
    for (size_t i = 0; i < count && taken < limit; i++) {
        const uint8_t *at = vectors[i].iov_base;
        size_t left = vectors[i].iov_len;
        while (left > 0 && taken < limit) {
            size_t part;
            if (joint == 0 && (left >= VIGLA_TLS_RECORD_BYTES || i + 1 == count)) {
                part = left < VIGLA_TLS_RECORD_BYTES ? left : VIGLA_TLS_RECORD_BYTES;
                if (SSL_write(tls, at, (int)part) <= 0) return -1;
            } else {
                part = VIGLA_TLS_RECORD_BYTES - joint;
                if (left < part) part = left;
                memcpy(wire->joint + joint, at, part);
                joint += part;
                if (joint == VIGLA_TLS_RECORD_BYTES) {
                    if (SSL_write(tls, wire->joint, (int)joint) <= 0) return -1;
                    joint = 0;
                }
            }
            at += part;
            left -= part;
            taken += part;
        }
    }
    if (joint > 0 && SSL_write(tls, wire->joint, (int)joint) <= 0) return -1;
    return (ssize_t)taken;
}
