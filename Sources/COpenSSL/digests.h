// The hash functions, for the other files of this target.
#ifndef VIGLA_DIGESTS_H
#define VIGLA_DIGESTS_H

#include <openssl/evp.h>

/// By VIGLA_SHA1, …; NULL if this OpenSSL lacks it. Valid for the lifetime of the process.
const EVP_MD *vigla_digest(int function);

#endif
