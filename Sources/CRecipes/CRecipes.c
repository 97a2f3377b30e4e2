#include "CRecipes.h"

// Of C23; earlier modes of clang have it as an extension. SwiftPM's `.embedInCode` creates a Swift array of the bytes instead, which takes
// 20 s to optimize.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char page[] = {
#embed "../../docs/recipes.md"
};

const unsigned char *vigla_recipes(size_t *count) {
    *count = sizeof page;
    return page;
}
