#include "COpenSSL.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

bool vigla_tls_expect_host(struct ssl_st *tls, const char *host, bool is_address) {
    X509_VERIFY_PARAM *wanted = SSL_get0_param(tls);
    if (is_address) return X509_VERIFY_PARAM_set1_ip_asc(wanted, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(tls, host) == 1 && X509_VERIFY_PARAM_set1_host(wanted, host, 0) == 1;
}

int vigla_tls_handshake(struct ssl_st *tls) {
    ERR_clear_error();
    int result = SSL_do_handshake(tls);
    if (result == 1) return 1;
    return SSL_get_error(tls, result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

ssize_t vigla_tls_read(struct ssl_st *tls, void *into, size_t capacity) {
    // The error queue belongs to the thread: SSL_get_error(3) would report another connection's error for this one.
    if (ERR_peek_error() != 0) ERR_clear_error();
    size_t count = 0;
    int result = SSL_read_ex(tls, into, capacity, &count);
    if (result == 1) return (ssize_t)count;
    switch (SSL_get_error(tls, result)) {
        case SSL_ERROR_WANT_READ: return 0;
        case SSL_ERROR_ZERO_RETURN: return -1;
        default: return -2;
    }
}

void vigla_tls_send_close_notify(struct ssl_st *tls) {
    SSL_shutdown(tls);
    ERR_clear_error();
}

struct vigla_tls_failure vigla_tls_take_failure(struct ssl_st *tls) {
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    bool is_ssl = ERR_GET_LIB(code) == ERR_LIB_SSL;
    long verified = SSL_get_verify_result(tls);
    struct vigla_tls_failure failure = {
        .is_plain_http = is_ssl && (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST),
        .text = is_ssl && reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK
            ? X509_verify_cert_error_string(verified)
            : ERR_reason_error_string(code),
    };
    ERR_clear_error();
    return failure;
}

bool vigla_tls_is_resumed(const struct ssl_st *tls) { return SSL_session_reused(tls) == 1; }
const char *vigla_tls_version(const struct ssl_st *tls) { return SSL_get_version(tls); }
