#include <openssl/crypto.h>

// OpenSSL frees its tables when the process calls exit. Threads that still hash, check signatures or create random bytes then would read freed
// memory. The system reclaims the memory anyway, so the tables stay (OPENSSL_init_crypto(3)). This must run before any other OpenSSL call.
__attribute__((constructor)) static void vigla_keep_tables_at_exit(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
