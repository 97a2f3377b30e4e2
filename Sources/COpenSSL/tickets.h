#ifndef VIGLA_TICKETS_H
#define VIGLA_TICKETS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ticket_key {
    unsigned char name[16], mac[32], cipher[32];
};

struct vigla_tls_tickets {
    pthread_mutex_t lock;
    uint32_t key_seconds;
    /// CLOCK_BOOTTIME at which `current` was created: this clock also counts time asleep.
    int64_t made_at;
    struct ticket_key current, previous;
};

/// OpenSSL's callback (SSL_CTX_set_tlsext_ticket_key_evp_cb(3)). The context's application data is the tickets.
int vigla_tls_ticket_key(
    SSL *tls, unsigned char name[16], unsigned char iv[EVP_MAX_IV_LENGTH], EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypts);

#endif
