// What the other files of this target need of the hash functions.
#ifndef VIGLA_DIGESTS_H
#define VIGLA_DIGESTS_H

#include <openssl/evp.h>

/// By VIGLA_SHA1, …; NULL when this OpenSSL has none. Stays for the process.
const EVP_MD *vigla_digest(int function);

#endif
