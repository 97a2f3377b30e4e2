#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/random.h>

#include "digests.h"
#include "primitives.h"

static bool done(int result) {
    if (result != 1) ERR_clear_error();
    return result == 1;
}

bool vigla_pbkdf2(
    int function, const void *password, size_t password_count, const void *salt, size_t salt_count, int rounds, uint8_t *out,
    size_t out_count) {
    const EVP_MD *digest = vigla_digest(function);
    if (!digest || password_count > INT32_MAX || salt_count > INT32_MAX || out_count > INT32_MAX) return false;
    return done(PKCS5_PBKDF2_HMAC(
        password, (int)password_count, salt, (int)salt_count, rounds, digest, (int)out_count, out));
}

bool vigla_scrypt(
    const void *password, size_t password_count, const void *salt, size_t salt_count, uint64_t n, uint64_t r, uint64_t p,
    uint8_t *out, size_t out_count) {
    uint64_t bytes;
    if (n > UINT32_MAX || p > UINT32_MAX || __builtin_mul_overflow(128 * (n + p + 2), r, &bytes)) return false;
    return done(EVP_PBE_scrypt(password, password_count, salt, salt_count, n, r, p, bytes, out, out_count));
}

bool vigla_aes256_ctr(const uint8_t key[32], const void *bytes, size_t count, uint8_t *out) {
    static const uint8_t first[16];
    int written = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    // Counter mode writes as many bytes as it reads, and none at the end.
    bool is_done = context && count <= INT32_MAX && EVP_EncryptInit_ex2(context, EVP_aes_256_ctr(), key, first, NULL) &&
                   EVP_EncryptUpdate(context, out, &written, bytes, (int)count) && (size_t)written == count;
    EVP_CIPHER_CTX_free(context);
    return done(is_done);
}

bool vigla_aes128_gcm(const uint8_t key[16], const uint8_t nonce[12], const void *bytes, size_t count, uint8_t *out) {
    enum { TAG_BYTES = 16 };
    int written = 0, rest = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    // 12 bytes are the default length of the nonce.
    bool is_done = context && count <= INT32_MAX && EVP_EncryptInit_ex2(context, EVP_aes_128_gcm(), key, nonce, NULL) &&
                   EVP_EncryptUpdate(context, out, &written, bytes, (int)count) && (size_t)written == count &&
                   EVP_EncryptFinal_ex(context, out + count, &rest) && rest == 0 &&
                   EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, out + count);
    EVP_CIPHER_CTX_free(context);
    return done(is_done);
}

bool vigla_random(void *into, size_t count) {
    if (count <= INT32_MAX && RAND_bytes(into, (int)count) == 1) return true;
    ERR_clear_error();
    for (size_t filled = 0; filled < count;) {
        ssize_t more = getrandom((uint8_t *)into + filled, count - filled, 0);
        if (more <= 0) return false;
        filled += (size_t)more;
    }
    return true;
}

bool vigla_is_same(const void *a, const void *b, size_t count) { return CRYPTO_memcmp(a, b, count) == 0; }

void vigla_cleanse(void *bytes, size_t count) { OPENSSL_cleanse(bytes, count); }
