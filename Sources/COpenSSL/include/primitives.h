// OpenSSL 3's libcrypto for Cryptography: hashes, HMAC, key derivation, random bytes, signatures.
//
// Callable from any thread. Functions that return `bool` return false if libcrypto refuses or memory is short; then `out` contains nothing.
// OpenSSL's types are not in this header, and its error queue is left empty.
#ifndef VIGLA_PRIMITIVES_H
#define VIGLA_PRIMITIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// hashes (FIPS 180-4)

enum {
    VIGLA_SHA1 = 0,
    VIGLA_SHA256 = 1,
    VIGLA_SHA512 = 2,
};

/// Writes 20, 32 or 64 bytes. Allocates only on a thread's first call.
bool vigla_hash(int function, const void *bytes, size_t count, uint8_t *out);
/// RFC 2104. Writes as many bytes as the hash function.
bool vigla_hmac(int function, const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *out);

// key derivation, and a cipher for derived keys

/// RFC 8018 §5.2.
bool vigla_pbkdf2(
    int function, const void *password, size_t password_count, const void *salt, size_t salt_count, int rounds, uint8_t *out,
    size_t out_count);
/// RFC 7914. Takes 128 × r × (n + p + 2) bytes while running.
bool vigla_scrypt(
    const void *password, size_t password_count, const void *salt, size_t salt_count, uint64_t n, uint64_t r, uint64_t p,
    uint8_t *out, size_t out_count);
/// AES in counter mode (NIST SP 800-38A §6.5), with a 32-byte key and an initial counter of 0. Writes `count` bytes.
bool vigla_aes256_ctr(const uint8_t key[32], const void *bytes, size_t count, uint8_t *out);

/// AES-128 in Galois/counter mode (NIST SP 800-38D) without additional data. Writes `count` bytes and a tag of 16. Never use one key
/// and nonce for two texts.
bool vigla_aes128_gcm(const uint8_t key[16], const uint8_t nonce[12], const void *bytes, size_t count, uint8_t *out);

// bytes

/// False if neither OpenSSL's generator nor the kernel's has random bytes.
bool vigla_random(void *into, size_t count);
/// Constant time for a given `count`.
bool vigla_is_same(const void *a, const void *b, size_t count);
/// Writes zeros in a way that compilers do not optimize away.
void vigla_cleanse(void *bytes, size_t count);

// signing keys, always with SHA-256: RSASSA-PKCS1-v1_5 (RFC 8017 §8.2) and ECDSA on P-256 (FIPS 186-5)

enum {
    VIGLA_RSA = 0,
    VIGLA_P256 = 1,
};
enum {
    VIGLA_KEY_FINE = 0,
    /// The wrong format, or not a key.
    VIGLA_KEY_MALFORMED = 1,
    /// A key of another kind or on another curve.
    VIGLA_KEY_UNSUPPORTED = 2,
    /// RSA below 2,048 or above 8,192 bits, or with an exponent that is even or not of 2 to 33 bits.
    VIGLA_KEY_OUT_OF_BOUNDS = 3,
};
/// The size of a key's largest number, and of the largest signature, in bytes.
#define VIGLA_KEY_NUMBER_BYTES 1024

/// An immutable key: any number of threads may use it at once.
struct vigla_key;

/// RSA of 2,048 bits, or P-256. NULL if OpenSSL fails.
struct vigla_key *vigla_key_make(int kind);
/// PKCS #8, PKCS #1 or SEC 1, DER. A key whose private half does not match the public one is malformed.
struct vigla_key *vigla_key_from_private_der(const void *bytes, size_t count, int *fault);
/// `PUBLIC KEY` (RFC 7468 §13) or `RSA PUBLIC KEY`.
struct vigla_key *vigla_key_from_public_pem(const void *text, size_t count, int *fault);
/// A modulus and an exponent, big-endian.
struct vigla_key *vigla_key_from_rsa(const void *n, size_t n_count, const void *e, size_t e_count, int *fault);
/// The coordinates of a point, 32 bytes each.
struct vigla_key *vigla_key_from_p256(const uint8_t x[32], const uint8_t y[32], int *fault);
/// Overwrites the private parts.
void vigla_key_free(struct vigla_key *key);

int vigla_key_kind(const struct vigla_key *key);
/// Modulus and exponent without leading zeros, or x and y of 32 bytes each.
bool vigla_key_numbers(
    const struct vigla_key *key, uint8_t a[VIGLA_KEY_NUMBER_BYTES], size_t *a_count, uint8_t b[VIGLA_KEY_NUMBER_BYTES],
    size_t *b_count);
/// SubjectPublicKeyInfo, DER. NULL if out of memory; otherwise the caller frees it.
uint8_t *vigla_key_public_der(const struct vigla_key *key, size_t *count);
/// PKCS #8, DER.
uint8_t *vigla_key_private_der(const struct vigla_key *key, size_t *count);
/// Overwrites and frees the result of the two functions above.
void vigla_key_free_der(uint8_t *der, size_t count);

/// Returns the number of bytes; 0 on failure, such as with a public key. A P-256 signature is r and s, 32 bytes each (RFC 7518 §3.4).
size_t vigla_key_sign(struct vigla_key *key, const void *bytes, size_t count, uint8_t signature[VIGLA_KEY_NUMBER_BYTES]);
bool vigla_key_verify(struct vigla_key *key, const void *bytes, size_t count, const void *signature, size_t signature_count);

/// The x coordinate of private key × public point (ECDH, SP 800-56A §5.7.1.2). False unless both keys are on P-256
/// and `own` has a private half.
bool vigla_key_agree(const struct vigla_key *own, const struct vigla_key *peer, uint8_t secret[32]);

#endif
