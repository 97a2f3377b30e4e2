#include <openssl/crypto.h>

// OpenSSL frees its tables when the process calls exit. Threads that still hash passwords or check signatures then would read freed memory. The
// system reclaims the memory anyway, so the tables stay (OPENSSL_init_crypto(3)).
__attribute__((constructor)) static void vigla_keep_tables_at_exit(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
