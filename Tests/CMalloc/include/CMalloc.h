#pragma once
#include <stddef.h>

/// Bytes that the allocator has given out: of all arenas, and those mapped alone.
size_t malloc_allocated_bytes(void);
