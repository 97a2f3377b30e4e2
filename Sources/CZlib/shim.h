// The system's zlib. Its two initialisers are macros, which Swift cannot call.
#ifndef VIGLA_CZLIB_H
#define VIGLA_CZLIB_H

#include <zlib.h>

/// A compressor of raw DEFLATE data with a window of 2^window_bits bytes (9...15).
static inline int vigla_deflate_init(z_streamp stream, int level, int window_bits, int memory_level, int strategy) {
    return deflateInit2(stream, level, Z_DEFLATED, -window_bits, memory_level, strategy);
}

/// A decompressor of raw DEFLATE data with a window of 2^window_bits bytes (8...15).
static inline int vigla_inflate_init(z_streamp stream, int window_bits) {
    return inflateInit2(stream, -window_bits);
}

#endif
