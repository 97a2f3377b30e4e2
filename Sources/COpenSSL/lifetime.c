#include <openssl/crypto.h>

// OpenSSL frees its tables when the process calls exit. Threads that hash passwords or check signatures may still be at work then, and
// would read freed memory. The system takes the memory back all the same, so the tables stay (OPENSSL_init_crypto(3)).
__attribute__((constructor)) static void vigla_keep_tables_at_exit(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
