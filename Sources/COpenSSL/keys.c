#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "digests.h"
#include "primitives.h"

enum { HASH_BYTES = 32, COORDINATE_BYTES = 32, POINT_BYTES = 1 + 2 * COORDINATE_BYTES, SPARE = 4 };

// Creating a context costs half as much as checking an RSA signature. One thread at a time uses a context. The thread takes a spare one out of
// its slot, or creates another, and puts it back into any empty slot.
struct vigla_key {
    EVP_PKEY *pkey;
    int kind;
    _Atomic(EVP_PKEY_CTX *) verifying[SPARE], signing[SPARE];
};

// contexts

static EVP_PKEY_CTX *make_context(const struct vigla_key *key, bool signs) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);
    if (context && (signs ? EVP_PKEY_sign_init(context) : EVP_PKEY_verify_init(context)) == 1 &&
        (key->kind != VIGLA_RSA || EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1) &&
        EVP_PKEY_CTX_set_signature_md(context, vigla_digest(VIGLA_SHA256)) == 1)
        return context;
    EVP_PKEY_CTX_free(context);
    return NULL;
}

static EVP_PKEY_CTX *take_context(struct vigla_key *key, bool signs) {
    _Atomic(EVP_PKEY_CTX *) *spare = signs ? key->signing : key->verifying;
    for (int i = 0; i < SPARE; i++) {
        EVP_PKEY_CTX *context = atomic_exchange_explicit(&spare[i], NULL, memory_order_acquire);
        if (context) return context;
    }
    return make_context(key, signs);
}

static void put_context_back(struct vigla_key *key, EVP_PKEY_CTX *context, bool signs) {
    _Atomic(EVP_PKEY_CTX *) *spare = signs ? key->signing : key->verifying;
    for (int i = 0; context && i < SPARE; i++) {
        EVP_PKEY_CTX *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&spare[i], &none, context, memory_order_release, memory_order_relaxed)) return;
    }
    EVP_PKEY_CTX_free(context);
}

// signatures

// Converts between a raw signature of 32 + 32 bytes and OpenSSL's DER form.
static size_t raw_from_der(const uint8_t *der, size_t count, uint8_t raw[2 * COORDINATE_BYTES]) {
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)count);
    bool is_done = signature && BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, COORDINATE_BYTES) == COORDINATE_BYTES &&
                   BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + COORDINATE_BYTES, COORDINATE_BYTES) == COORDINATE_BYTES;
    ECDSA_SIG_free(signature);
    return is_done ? 2 * COORDINATE_BYTES : 0;
}

static size_t der_from_raw(const uint8_t raw[2 * COORDINATE_BYTES], uint8_t der[2 * COORDINATE_BYTES + 16]) {
    ECDSA_SIG *signature = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, COORDINATE_BYTES, NULL), *s = BN_bin2bn(raw + COORDINATE_BYTES, COORDINATE_BYTES, NULL);
    int count = 0;
    if (signature && r && s && ECDSA_SIG_set0(signature, r, s)) {
        r = s = NULL;
        count = i2d_ECDSA_SIG(signature, &der);
    }
    BN_free(r), BN_free(s), ECDSA_SIG_free(signature);
    return count > 0 ? (size_t)count : 0;
}

size_t vigla_key_sign(struct vigla_key *key, const void *bytes, size_t count, uint8_t signature[VIGLA_KEY_NUMBER_BYTES]) {
    uint8_t hash[HASH_BYTES];
    uint8_t der[2 * COORDINATE_BYTES + 16];
    if (!vigla_hash(VIGLA_SHA256, bytes, count, hash)) return 0;
    bool is_rsa = key->kind == VIGLA_RSA;
    size_t length = is_rsa ? VIGLA_KEY_NUMBER_BYTES : sizeof der;
    EVP_PKEY_CTX *context = take_context(key, true);
    bool is_signed = context && EVP_PKEY_sign(context, is_rsa ? signature : der, &length, hash, sizeof hash) == 1;
    put_context_back(key, context, true);
    if (is_signed && !is_rsa) length = raw_from_der(der, length, signature);
    if (is_signed && length) return length;
    ERR_clear_error();
    return 0;
}

bool vigla_key_verify(struct vigla_key *key, const void *bytes, size_t count, const void *signature, size_t signature_count) {
    uint8_t hash[HASH_BYTES];
    uint8_t der[2 * COORDINATE_BYTES + 16];
    if (key->kind == VIGLA_P256) {
        if (signature_count != 2 * COORDINATE_BYTES || !(signature_count = der_from_raw(signature, der))) return false;
        signature = der;
    }
    if (!vigla_hash(VIGLA_SHA256, bytes, count, hash)) return false;
    EVP_PKEY_CTX *context = take_context(key, false);
    bool is_good = context && EVP_PKEY_verify(context, signature, signature_count, hash, sizeof hash) == 1;
    put_context_back(key, context, false);
    if (!is_good) ERR_clear_error();
    return is_good;
}

// keys

static int fault_of_rsa(const EVP_PKEY *pkey) {
    BIGNUM *n = NULL, *e = NULL;
    int fault = VIGLA_KEY_MALFORMED;
    if (EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_N, &n) && EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &e)) {
        // A larger exponent or modulus only costs CPU time, which a client could force by requesting a check.
        bool fits = BN_num_bits(n) >= 2048 && BN_num_bits(n) <= 8 * VIGLA_KEY_NUMBER_BYTES && BN_is_odd(n) && BN_is_odd(e) &&
                    BN_num_bits(e) >= 2 && BN_num_bits(e) <= 33;
        fault = fits ? VIGLA_KEY_FINE : VIGLA_KEY_OUT_OF_BOUNDS;
    }
    BN_free(n), BN_free(e);
    return fault;
}

static int fault_of_p256(const EVP_PKEY *pkey) {
    char curve[64];
    size_t length = 0;
    if (!EVP_PKEY_get_group_name(pkey, curve, sizeof curve, &length)) return VIGLA_KEY_UNSUPPORTED;
    return strcmp(curve, SN_X9_62_prime256v1) == 0 ? VIGLA_KEY_FINE : VIGLA_KEY_UNSUPPORTED;
}

// Takes ownership of the key. NULL is malformed.
static struct vigla_key *adopt(EVP_PKEY *pkey, int *fault) {
    struct vigla_key *key = NULL;
    int kind = pkey && EVP_PKEY_is_a(pkey, "RSA") ? VIGLA_RSA : VIGLA_P256;
    *fault = VIGLA_KEY_UNSUPPORTED;
    if (!pkey) *fault = VIGLA_KEY_MALFORMED;
    else if (kind == VIGLA_RSA) *fault = fault_of_rsa(pkey);
    else if (EVP_PKEY_is_a(pkey, "EC")) *fault = fault_of_p256(pkey);
    if (*fault == VIGLA_KEY_FINE && !(key = calloc(1, sizeof *key))) *fault = VIGLA_KEY_MALFORMED;
    ERR_clear_error();
    if (!key) {
        EVP_PKEY_free(pkey);
        return NULL;
    }
    key->pkey = pkey;
    key->kind = kind;
    return key;
}

void vigla_key_free(struct vigla_key *key) {
    for (int i = 0; i < SPARE; i++) {
        EVP_PKEY_CTX_free(atomic_load_explicit(&key->verifying[i], memory_order_acquire));
        EVP_PKEY_CTX_free(atomic_load_explicit(&key->signing[i], memory_order_acquire));
    }
    EVP_PKEY_free(key->pkey);
    free(key);
}

// Setting up the curve costs more than creating a key on it, so it is copied from a key that is kept.
static EVP_PKEY *on_p256;
static pthread_once_t on_p256_once = PTHREAD_ONCE_INIT;

static void make_on_p256(void) { on_p256 = EVP_EC_gen(SN_X9_62_prime256v1); }

static EVP_PKEY *make_p256(void) {
    EVP_PKEY *pkey = NULL;
    pthread_once(&on_p256_once, make_on_p256);
    EVP_PKEY_CTX *context = on_p256 ? EVP_PKEY_CTX_new_from_pkey(NULL, on_p256, NULL) : NULL;
    if (context && EVP_PKEY_keygen_init(context) == 1) EVP_PKEY_generate(context, &pkey);
    EVP_PKEY_CTX_free(context);
    return pkey;
}

struct vigla_key *vigla_key_make(int kind) {
    int fault;
    return adopt(kind == VIGLA_RSA ? EVP_RSA_gen(2048) : make_p256(), &fault);
}

struct vigla_key *vigla_key_from_private_der(const void *bytes, size_t count, int *fault) {
    static const char text[] = "a damaged key";
    uint8_t signature[VIGLA_KEY_NUMBER_BYTES];
    const unsigned char *at = bytes;
    EVP_PKEY *pkey = count <= INT32_MAX ? d2i_AutoPrivateKey_ex(NULL, &at, (long)count, NULL, NULL) : NULL;
    if (pkey && at != (const unsigned char *)bytes + count) {
        EVP_PKEY_free(pkey);
        pkey = NULL;
    }
    struct vigla_key *key = adopt(pkey, fault);
    if (!key) return NULL;
    // Far cheaper than proving that the factors are primes, and finds any damage.
    size_t length = vigla_key_sign(key, text, sizeof text, signature);
    if (length && vigla_key_verify(key, text, sizeof text, signature, length)) return key;
    vigla_key_free(key);
    *fault = VIGLA_KEY_MALFORMED;
    return NULL;
}

struct vigla_key *vigla_key_from_public_pem(const void *text, size_t count, int *fault) {
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL;
    long length = 0;
    EVP_PKEY *pkey = NULL;
    BIO *source = count <= INT32_MAX ? BIO_new_mem_buf(text, (int)count) : NULL;
    if (source && PEM_read_bio(source, &name, &header, &der, &length) == 1) {
        const unsigned char *at = der;
        if (strcmp(name, PEM_STRING_PUBLIC) == 0) pkey = d2i_PUBKEY(NULL, &at, length);
        else if (strcmp(name, PEM_STRING_RSA_PUBLIC) == 0) pkey = d2i_PublicKey(EVP_PKEY_RSA, NULL, &at, length);
        if (pkey && at != der + length) {
            EVP_PKEY_free(pkey);
            pkey = NULL;
        }
    }
    BIO_free(source);
    OPENSSL_free(name), OPENSSL_free(header);
    // The input may have been a private key, by mistake.
    OPENSSL_clear_free(der, (size_t)length);
    return adopt(pkey, fault);
}

// Creates a public key from its parameters, and frees them.
static EVP_PKEY *public_key(const char *type, OSSL_PARAM *parameters) {
    EVP_PKEY *pkey = NULL;
    EVP_PKEY_CTX *context = parameters ? EVP_PKEY_CTX_new_from_name(NULL, type, NULL) : NULL;
    if (context && EVP_PKEY_fromdata_init(context) == 1) EVP_PKEY_fromdata(context, &pkey, EVP_PKEY_PUBLIC_KEY, parameters);
    EVP_PKEY_CTX_free(context);
    return pkey;
}

struct vigla_key *vigla_key_from_rsa(const void *n, size_t n_count, const void *e, size_t e_count, int *fault) {
    EVP_PKEY *pkey = NULL;
    if (n_count <= INT32_MAX && e_count <= INT32_MAX) {
        OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
        BIGNUM *modulus = BN_bin2bn(n, (int)n_count, NULL), *exponent = BN_bin2bn(e, (int)e_count, NULL);
        OSSL_PARAM *parameters = NULL;
        if (builder && modulus && exponent && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) &&
            OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent))
            parameters = OSSL_PARAM_BLD_to_param(builder);
        pkey = public_key("RSA", parameters);
        OSSL_PARAM_free(parameters);
        OSSL_PARAM_BLD_free(builder);
        BN_free(modulus), BN_free(exponent);
    }
    return adopt(pkey, fault);
}

struct vigla_key *vigla_key_from_p256(const uint8_t x[32], const uint8_t y[32], int *fault) {
    // The uncompressed form (SEC 1 §2.3.3). A point not on the curve is refused.
    uint8_t point[POINT_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    memcpy(point + 1, x, COORDINATE_BYTES);
    memcpy(point + 1 + COORDINATE_BYTES, y, COORDINATE_BYTES);
    pthread_once(&on_p256_once, make_on_p256);
    EVP_PKEY *pkey = on_p256 ? EVP_PKEY_new() : NULL;
    if (pkey && (EVP_PKEY_copy_parameters(pkey, on_p256) != 1 || EVP_PKEY_set1_encoded_public_key(pkey, point, sizeof point) != 1)) {
        EVP_PKEY_free(pkey);
        pkey = NULL;
    }
    return adopt(pkey, fault);
}

// properties of a key

int vigla_key_kind(const struct vigla_key *key) { return key->kind; }

bool vigla_key_numbers(
    const struct vigla_key *key, uint8_t a[VIGLA_KEY_NUMBER_BYTES], size_t *a_count, uint8_t b[VIGLA_KEY_NUMBER_BYTES],
    size_t *b_count) {
    bool is_rsa = key->kind == VIGLA_RSA;
    uint8_t point[POINT_BYTES];
    size_t point_count = 0;
    // A fifth of the time of two numbers. A key that was given as a compressed point has another form.
    if (!is_rsa && EVP_PKEY_get_octet_string_param(key->pkey, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point, &point_count) &&
        point_count == sizeof point && point[0] == POINT_CONVERSION_UNCOMPRESSED) {
        *a_count = *b_count = COORDINATE_BYTES;
        memcpy(a, point + 1, COORDINATE_BYTES);
        memcpy(b, point + 1 + COORDINATE_BYTES, COORDINATE_BYTES);
        return true;
    }
    BIGNUM *first = NULL, *second = NULL;
    bool is_done = EVP_PKEY_get_bn_param(key->pkey, is_rsa ? OSSL_PKEY_PARAM_RSA_N : OSSL_PKEY_PARAM_EC_PUB_X, &first) &&
                   EVP_PKEY_get_bn_param(key->pkey, is_rsa ? OSSL_PKEY_PARAM_RSA_E : OSSL_PKEY_PARAM_EC_PUB_Y, &second);
    if (is_done) {
        *a_count = is_rsa ? (size_t)BN_num_bytes(first) : COORDINATE_BYTES;
        *b_count = is_rsa ? (size_t)BN_num_bytes(second) : COORDINATE_BYTES;
        is_done = BN_bn2binpad(first, a, (int)*a_count) >= 0 && BN_bn2binpad(second, b, (int)*b_count) >= 0;
    }
    BN_free(first), BN_free(second);
    if (!is_done) ERR_clear_error();
    return is_done;
}

static uint8_t *encoded(const struct vigla_key *key, int selection, const char *structure, size_t *count) {
    uint8_t *der = NULL;
    *count = 0;
    OSSL_ENCODER_CTX *encoder = OSSL_ENCODER_CTX_new_for_pkey(key->pkey, selection, "DER", structure, NULL);
    if (encoder) OSSL_ENCODER_to_data(encoder, &der, count);
    OSSL_ENCODER_CTX_free(encoder);
    if (!der) ERR_clear_error();
    return der;
}

uint8_t *vigla_key_public_der(const struct vigla_key *key, size_t *count) {
    return encoded(key, EVP_PKEY_PUBLIC_KEY, "SubjectPublicKeyInfo", count);
}

uint8_t *vigla_key_private_der(const struct vigla_key *key, size_t *count) {
    return encoded(key, EVP_PKEY_KEYPAIR, "PrivateKeyInfo", count);
}

void vigla_key_free_der(uint8_t *der, size_t count) { OPENSSL_clear_free(der, count); }

// agreement

bool vigla_key_agree(const struct vigla_key *own, const struct vigla_key *peer, uint8_t secret[COORDINATE_BYTES]) {
    size_t count = COORDINATE_BYTES;
    if (own->kind != VIGLA_P256 || peer->kind != VIGLA_P256) return false;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, own->pkey, NULL);
    // The peer's point was checked when its key was created: checking it again would double the time.
    bool is_done = context && EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_derive_set_peer_ex(context, peer->pkey, 0) == 1 &&
                   EVP_PKEY_derive(context, secret, &count) == 1 && count == COORDINATE_BYTES;
    EVP_PKEY_CTX_free(context);
    if (!is_done) ERR_clear_error();
    return is_done;
}
