#include "tickets.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "COpenSSL.h"

static int64_t now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec;
}

static bool fill(struct ticket_key *key) { return RAND_bytes((unsigned char *)key, sizeof *key) == 1; }

// Called under the lock. Without fresh randomness the old key stays.
static void rotate(struct vigla_tls_tickets *tickets) {
    struct ticket_key fresh;
    if (!fill(&fresh)) return;
    tickets->previous = tickets->current;
    tickets->current = fresh;
    OPENSSL_cleanse(&fresh, sizeof fresh);
    tickets->made_at = now_seconds();
}

struct vigla_tls_tickets *vigla_tls_tickets_new(uint32_t key_seconds) {
    struct vigla_tls_tickets *tickets = calloc(1, sizeof *tickets);
    if (!tickets) return NULL;
    if (pthread_mutex_init(&tickets->lock, NULL) != 0 || !fill(&tickets->current) || !fill(&tickets->previous)) {
        free(tickets);
        return NULL;
    }
    tickets->key_seconds = key_seconds;
    tickets->made_at = now_seconds();
    return tickets;
}

void vigla_tls_tickets_free(struct vigla_tls_tickets *tickets) {
    pthread_mutex_destroy(&tickets->lock);
    OPENSSL_cleanse(tickets, sizeof *tickets);
    free(tickets);
}

void vigla_tls_tickets_rotate(struct vigla_tls_tickets *tickets) {
    pthread_mutex_lock(&tickets->lock);
    rotate(tickets);
    pthread_mutex_unlock(&tickets->lock);
}

int vigla_tls_ticket_key(
    SSL *tls, unsigned char name[16], unsigned char iv[EVP_MAX_IV_LENGTH], EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypts) {
    struct vigla_tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls));
    pthread_mutex_lock(&tickets->lock);
    int64_t age = now_seconds() - tickets->made_at;
    // After two periods without a handshake both keys are too old.
    if (age >= 2 * (int64_t)tickets->key_seconds) rotate(tickets);
    if (age >= tickets->key_seconds) rotate(tickets);
    struct ticket_key key = tickets->current;
    bool is_current = true;
    if (!encrypts && memcmp(name, key.name, sizeof key.name) != 0) {
        key = tickets->previous;
        is_current = false;
    }
    pthread_mutex_unlock(&tickets->lock);

    int result = 0;  // unknown: a full handshake
    if (encrypts || memcmp(name, key.name, sizeof key.name) == 0) {
        OSSL_PARAM parameters[] = {
            OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, sizeof key.mac),
            OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
            OSSL_PARAM_construct_end(),
        };
        bool ready = EVP_MAC_CTX_set_params(mac, parameters) == 1;
        if (encrypts) {
            memcpy(name, key.name, sizeof key.name);
            ready = ready && RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
                EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
        } else {
            ready = ready && EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
        }
        // 2: accepted, but replaced by a ticket with the current key.
        result = !ready ? -1 : is_current ? 1 : 2;
    }
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}
