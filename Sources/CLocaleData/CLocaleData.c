// An empty table of ICU's data, in place of the 34 MB that Foundation links otherwise (Scripts/build-static).
// Header and table of contents as in ICU's udata.h and ucmndata.h, without entries, so that every look-up finds nothing.
#include "CLocaleData.h"
#include <stdint.h>

const struct {
    uint16_t header_size;
    uint8_t magic[2];
    uint16_t info_size, reserved;
    uint8_t is_big_endian, charset_family, size_of_uchar, reserved_byte;
    uint8_t format[4], format_version[4], data_version[4];
    uint8_t padding[8];
    uint32_t count;
    uint32_t no_entries[2];
} TABLE __attribute__((aligned(16))) = {
    32, {0xda, 0x27}, 20, 0, 0, 0, 2, 0, {'C', 'm', 'n', 'D'}, {1, 0, 0, 0}, {0, 0, 0, 0}, {0}, 0, {0, 0},
};
