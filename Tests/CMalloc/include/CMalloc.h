#pragma once
#include <stddef.h>

/// Bytes that the allocator has handed out: from all arenas, and as separate mappings.
size_t malloc_allocated_bytes(void);
