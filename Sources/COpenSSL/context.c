#include "COpenSSL.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <string.h>
#include <time.h>

#include "tickets.h"

// AES-128 first: it is the fastest with hardware support for AES. A client that prefers ChaCha20, such as a phone without that support, gets
// ChaCha20.
static const char ciphers_13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// Only with forward secrecy and authenticated encryption (RFC 9325 §4.2).
static const char ciphers_12[] = "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20";

static const unsigned char http_1_1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

static SSL_CTX *make(const SSL_METHOD *method) {
    SSL_CTX *context = SSL_CTX_new(method);
    if (!context) return NULL;
    SSL_CTX_set_options(
        context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    // Idle connections keep no record buffers.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) && SSL_CTX_set_ciphersuites(context, ciphers_13) &&
        SSL_CTX_set_cipher_list(context, ciphers_12) && SSL_CTX_set1_groups_list(context, "X25519:P-256:P-384"))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

// RFC 7301 §3.2: a client that offers only other protocols gets the alert no_application_protocol.
static int choose_protocol(
    SSL *tls, const unsigned char **chosen, unsigned char *length, const unsigned char *offered, unsigned int count, void *unused) {
    (void)tls, (void)unused;
    for (unsigned int at = 0; at < count; at += offered[at] + 1u) {
        if (offered[at] == http_1_1[0] && at + sizeof http_1_1 <= count && memcmp(offered + at, http_1_1, sizeof http_1_1) == 0) {
            *chosen = offered + at + 1;
            *length = http_1_1[0];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct ssl_ctx_st *vigla_tls_server_context(struct vigla_tls_tickets *tickets) {
    static const unsigned char name[] = "vigla";
    SSL_CTX *context = make(TLS_server_method());
    if (!context) return NULL;
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    // Sessions live only in the clients' tickets, so that they survive a change of the certificate and use no memory.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(context, name, sizeof name - 1);
    SSL_CTX_set_timeout(context, (long)tickets->key_seconds);
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_app_data(context, tickets);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, vigla_tls_ticket_key);
    return context;
}

struct ssl_ctx_st *vigla_tls_client_context(void) {
    SSL_CTX *context = make(TLS_client_method());
    if (!context) return NULL;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_default_verify_paths(context);
    SSL_CTX_set_alpn_protos(context, http_1_1, sizeof http_1_1);
    return context;
}

void vigla_tls_context_free(struct ssl_ctx_st *context) { SSL_CTX_free(context); }

static int refused_passphrase(char *into, int capacity, int writes, void *was_asked) {
    (void)into, (void)capacity, (void)writes;
    *(bool *)was_asked = true;
    return -1;
}

int vigla_tls_use_certificate(struct ssl_ctx_st *context, const void *pem, size_t count) {
    ERR_clear_error();
    BIO *source = BIO_new_mem_buf(pem, (int)count);
    X509 *certificate = source ? PEM_read_bio_X509_AUX(source, NULL, NULL, NULL) : NULL;
    int result = certificate ? VIGLA_TLS_FINE : VIGLA_TLS_NOTHING_THERE;
    if (certificate && SSL_CTX_use_certificate(context, certificate) != 1) result = VIGLA_TLS_REFUSED;
    X509_free(certificate);
    X509 *next;
    while (result == VIGLA_TLS_FINE && (next = PEM_read_bio_X509(source, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(context, next) != 1) {
            X509_free(next);
            result = VIGLA_TLS_REFUSED;
        }
    // The end of the file is an error too; any other error after the last certificate means damage.
    unsigned long last = ERR_peek_last_error();
    if (result == VIGLA_TLS_FINE && !(ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE))
        result = VIGLA_TLS_REFUSED;
    BIO_free(source);
    if (result != VIGLA_TLS_REFUSED) ERR_clear_error();
    return result;
}

int vigla_tls_use_key(struct ssl_ctx_st *context, const void *pem, size_t count) {
    ERR_clear_error();
    bool was_asked = false;
    BIO *source = BIO_new_mem_buf(pem, (int)count);
    EVP_PKEY *key = source ? PEM_read_bio_PrivateKey(source, NULL, refused_passphrase, &was_asked) : NULL;
    BIO_free(source);
    int result = VIGLA_TLS_FINE;
    X509 *certificate = SSL_CTX_get0_certificate(context);
    if (!key) result = was_asked ? VIGLA_TLS_KEY_ENCRYPTED : VIGLA_TLS_NOTHING_THERE;
    else if (certificate && X509_check_private_key(certificate, key) != 1) result = VIGLA_TLS_KEY_MISMATCH;
    else if (certificate && SSL_CTX_use_PrivateKey(context, key) != 1) result = VIGLA_TLS_REFUSED;
    EVP_PKEY_free(key);
    if (result != VIGLA_TLS_REFUSED) ERR_clear_error();
    return result;
}

int64_t vigla_tls_certificate_end(struct ssl_ctx_st *context) {
    X509 *certificate = SSL_CTX_get0_certificate(context);
    struct tm end;
    if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return 0;
    return timegm(&end);
}

int vigla_tls_trust(struct ssl_ctx_st *context, const void *pem, size_t count) {
    ERR_clear_error();
    BIO *source = BIO_new_mem_buf(pem, (int)count);
    int result = VIGLA_TLS_NOTHING_THERE;
    X509 *authority;
    while (source && (authority = PEM_read_bio_X509(source, NULL, NULL, NULL))) {
        result = X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority) == 1 ? VIGLA_TLS_FINE : VIGLA_TLS_REFUSED;
        X509_free(authority);
        // The trusted certificate may also be a server's or an intermediate authority's.
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
        if (result == VIGLA_TLS_REFUSED) break;
    }
    BIO_free(source);
    if (result != VIGLA_TLS_REFUSED) ERR_clear_error();
    return result;
}

const char *vigla_tls_error_text(void) {
    const char *text = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    return text;
}
