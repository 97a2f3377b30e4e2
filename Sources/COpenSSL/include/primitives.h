// What libcrypto of OpenSSL 3 computes for Cryptography: hashes, keyed hashes, derived keys, random bytes, signatures.
//
// From any thread. Functions that answer `bool` are false when libcrypto refuses or there is no memory; nothing is in `out`
// then. OpenSSL's own types stay out of this header, and its queue of errors is left empty.
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

/// Writes 20, 32 or 64 bytes. Allocates only at a thread's first call.
bool vigla_hash(int function, const void *bytes, size_t count, uint8_t *out);
/// RFC 2104. Writes as many bytes as the hash has.
bool vigla_hmac(int function, const void *key, size_t key_count, const void *bytes, size_t count, uint8_t *out);

// keys from passwords, and what is done with them

/// RFC 8018 §5.2.
bool vigla_pbkdf2(
    int function, const void *password, size_t password_count, const void *salt, size_t salt_count, int rounds, uint8_t *out,
    size_t out_count);
/// RFC 7914. Takes 128 × r × (n + p + 2) bytes for as long as it runs.
bool vigla_scrypt(
    const void *password, size_t password_count, const void *salt, size_t salt_count, uint64_t n, uint64_t r, uint64_t p,
    uint8_t *out, size_t out_count);
/// AES in counter mode (NIST SP 800-38A §6.5), with a key of 32 bytes and a first counter of 0. Writes `count` bytes.
bool vigla_aes256_ctr(const uint8_t key[32], const void *bytes, size_t count, uint8_t *out);

// bytes

/// False when neither OpenSSL's generator nor the kernel's has any.
bool vigla_random(void *into, size_t count);
/// In a time that depends on `count` only.
bool vigla_is_same(const void *a, const void *b, size_t count);
/// Writes zeros in a way that no compiler leaves out.
void vigla_cleanse(void *bytes, size_t count);

// keys that sign with SHA-256: RSASSA-PKCS1-v1_5 (RFC 8017 §8.2) and ECDSA on P-256 (FIPS 186-5)

enum {
    VIGLA_RSA = 0,
    VIGLA_P256 = 1,
};
enum {
    VIGLA_KEY_FINE = 0,
    /// Not the form it should have, or not a key.
    VIGLA_KEY_MALFORMED = 1,
    /// A key of another kind or on another curve.
    VIGLA_KEY_UNSUPPORTED = 2,
    /// RSA below 2,048 bits, above 8,192, or with an exponent that is not odd and of 2 to 33 bits.
    VIGLA_KEY_OUT_OF_BOUNDS = 3,
};
/// The largest numbers of a key, and the largest signature, in bytes.
#define VIGLA_KEY_NUMBER_BYTES 1024

/// A key that does not change any more: any number of threads use it at once.
struct vigla_key;

/// RSA of 2,048 bits, or P-256. NULL when OpenSSL cannot.
struct vigla_key *vigla_key_make(int kind);
/// PKCS #8, PKCS #1 or SEC 1, DER. A key whose private half does not fit the public one is malformed.
struct vigla_key *vigla_key_from_private_der(const void *bytes, size_t count, int *fault);
/// `PUBLIC KEY` (RFC 7468 §13) or `RSA PUBLIC KEY`.
struct vigla_key *vigla_key_from_public_pem(const void *text, size_t count, int *fault);
/// A modulus and an exponent, big-endian.
struct vigla_key *vigla_key_from_rsa(const void *n, size_t n_count, const void *e, size_t e_count, int *fault);
/// The coordinates of a point, 32 bytes each.
struct vigla_key *vigla_key_from_p256(const uint8_t x[32], const uint8_t y[32], int *fault);
/// Private parts are overwritten.
void vigla_key_free(struct vigla_key *key);

int vigla_key_kind(const struct vigla_key *key);
/// Modulus and exponent without leading zeros, or x and y of 32 bytes each.
bool vigla_key_numbers(
    const struct vigla_key *key, uint8_t a[VIGLA_KEY_NUMBER_BYTES], size_t *a_count, uint8_t b[VIGLA_KEY_NUMBER_BYTES],
    size_t *b_count);
/// SubjectPublicKeyInfo, DER. NULL when there is no memory; otherwise to be freed.
uint8_t *vigla_key_public_der(const struct vigla_key *key, size_t *count);
/// PKCS #8, DER.
uint8_t *vigla_key_private_der(const struct vigla_key *key, size_t *count);
/// Frees what the two before have answered, overwritten.
void vigla_key_free_der(uint8_t *der, size_t count);

/// The number of bytes; 0 when it fails, as with a public key. A signature by P-256 is r and s, 32 bytes each (RFC 7518 §3.4).
size_t vigla_key_sign(struct vigla_key *key, const void *bytes, size_t count, uint8_t signature[VIGLA_KEY_NUMBER_BYTES]);
bool vigla_key_verify(struct vigla_key *key, const void *bytes, size_t count, const void *signature, size_t signature_count);

#endif
