// docs/recipes.md, compiled into the program for `vigla rules new`.
#ifndef VIGLA_CRECIPES_H
#define VIGLA_CRECIPES_H

#include <stddef.h>

/// The page, in UTF-8 and without a 0 at its end. It lives as long as the program.
const unsigned char *vigla_recipes(size_t *count);

#endif
