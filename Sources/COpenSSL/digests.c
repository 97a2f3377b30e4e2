#include "digests.h"

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <pthread.h>

#include "primitives.h"

enum { FUNCTIONS = 3 };
static const char *const names[FUNCTIONS] = {"SHA1", "SHA2-256", "SHA2-512"};

// Looking up a function by name and creating a context each cost more than hashing a short text. So functions are looked up once, and each
// thread keeps its contexts until it ends.
static EVP_MD *functions[FUNCTIONS];
static _Thread_local EVP_MD_CTX *contexts[FUNCTIONS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t ends;
static bool has_ends;

static void thread_ended(void *unused) {
    (void)unused;
    for (int i = 0; i < FUNCTIONS; i++) {
        EVP_MD_CTX_free(contexts[i]);
        contexts[i] = NULL;
    }
}

static void look_up(void) {
    for (int i = 0; i < FUNCTIONS; i++) functions[i] = EVP_MD_fetch(NULL, names[i], NULL);
    has_ends = pthread_key_create(&ends, thread_ended) == 0;
    ERR_clear_error();
}

const EVP_MD *vigla_digest(int function) {
    pthread_once(&once, look_up);
    return functions[function];
}

// Without a callback at the thread's end its contexts would leak.
static EVP_MD_CTX *context_of_thread(int function) {
    if (!vigla_digest(function) || !has_ends || pthread_setspecific(ends, contexts) != 0) return NULL;
    return contexts[function] = EVP_MD_CTX_new();
}

bool vigla_hash(int function, const void *bytes, size_t count, uint8_t *out) {
    EVP_MD_CTX *context = contexts[function];
    if (__builtin_expect(!context, 0) && !(context = context_of_thread(function))) return false;
    return EVP_DigestInit_ex2(context, functions[function], NULL) && EVP_DigestUpdate(context, bytes, count) &&
           EVP_DigestFinal_ex(context, out, NULL);
}

bool vigla_hmac(int function, const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *out) {
    const EVP_MD *digest = vigla_digest(function);
    // NULL would reuse the key of the previous call.
    if (!key) key = "";
    if (digest && key_count <= INT32_MAX && HMAC(digest, key, (int)key_count, bytes, count, out, NULL)) return true;
    ERR_clear_error();
    return false;
}
